//! The results of runs as bytes that travel between processes, without loss: the lines of a part of the sweep's folder,
//! each with the number of its run, compressed.

use crate::run::Ran;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde_json::Deserializer;
use std::io::BufReader;

/// Packs the results of these runs, each with its number in the plan.
///
/// ```
/// use runyard_sweep::{Ran, wire};
///
/// let ran = Ran { error: Some("no CPU".to_owned()), rows: Vec::new(), metrics: vec![None, Some(0.5)] };
/// let packed = wire::packed(&[(7, &ran)]);
/// assert_eq!(wire::unpacked(&packed).unwrap(), [(7, ran)]);
/// ```
#[must_use]
pub fn packed(all: &[(usize, &Ran)]) -> Vec<u8> {
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::fast());
    for one in all {
        serde_json::to_writer(&mut packer, one).expect("figures are JSON, and memory takes them");
    }
    packer.finish().expect("memory takes what is written")
}

/// Unpacks the runs that [`packed`] packed, in their order.
///
/// # Errors
/// The reason why the bytes are not a result of [`packed`].
pub fn unpacked(packed: &[u8]) -> Result<Vec<(usize, Ran)>, String> {
    let text = BufReader::new(DeflateDecoder::new(packed));
    let all: Result<_, _> = Deserializer::from_reader(text).into_iter().collect();
    all.map_err(|error: serde_json::Error| format!("no runs of a sweep: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::rows::Row;
    use proptest::prelude::*;

    fn cells() -> impl Strategy<Value = Cell> {
        prop_oneof![
            Just(Cell::Null),
            any::<bool>().prop_map(Cell::Boolean),
            any::<i64>().prop_map(Cell::Integer),
            prop::num::f64::NORMAL.prop_map(Cell::Number),
            "[a-c\"\\n]{0,3}".prop_map(Cell::Text),
        ]
    }

    fn rows() -> impl Strategy<Value = Row> {
        let fields = prop::collection::vec(("[a-b]", cells()), 0..4);
        ("machine|task", prop::option::of("[a-z]{0,2}"), fields).prop_map(|(kind, name, fields)| {
            // No report has a field twice.
            let fields = fields.into_iter().enumerate();
            let fields = fields.map(|(at, (name, cell))| (format!("{name}{at}"), cell)).collect();
            Row { kind: kind.into(), name, fields }
        })
    }

    fn ran() -> impl Strategy<Value = Ran> {
        let metrics = prop::collection::vec(prop::option::of(prop::num::f64::NORMAL), 2);
        (prop::option::of("[a-c]{0,3}"), prop::collection::vec(rows(), 0..5), metrics)
            .prop_map(|(error, rows, metrics)| Ran { error, rows, metrics })
    }

    proptest! {
        #[test]
        fn nothing_is_lost_on_the_way(all in prop::collection::vec(ran(), 0..6)) {
            let all: Vec<(usize, Ran)> = (3..).zip(all).collect();
            let given: Vec<(usize, &Ran)> = all.iter().map(|(run, ran)| (*run, ran)).collect();
            prop_assert_eq!(unpacked(&packed(&given)).unwrap(), all);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let ran = Ran { error: None, rows: Vec::new(), metrics: vec![Some(1.5)] };
        let packed = packed(&[(0, &ran)]);
        assert!(unpacked(&packed[..packed.len() / 2]).is_err());
        assert!(unpacked(b"what is this?").is_err());
    }
}
