//! Spans of time as a command line and other files of Runyard's have them.

use runyard_engine::time::Nanos;

/// Reads `10s`, `250ms`, `5us`, `2m`.
///
/// # Errors
/// What a span is, in a sentence, if the text is none.
pub fn span(text: &str) -> Result<Nanos, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return Err("a span is a whole number and us, ms, s or m, as 10s".to_owned()),
    };
    let number = text[..digits].parse().ok().and_then(|n: u64| n.checked_mul(unit));
    match number {
        None => Err("a span is a whole number and us, ms, s or m, below 584 years".to_owned()),
        Some(0) => Err("a run takes some time".to_owned()),
        Some(nanos) => Ok(Nanos(nanos)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        assert_eq!(span("10s"), Ok(Nanos::from_secs(10)));
        assert_eq!(span("250ms"), Ok(Nanos::from_millis(250)));
        assert_eq!(span("2m"), Ok(Nanos::from_secs(120)));
        for bad in ["", "s", "10", "1.5s", "-1s", "10 s", "0s", "99999999999999999999s", "1h"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
