//! From the bytes of a file to the text of a recording.

use crate::diagnostic::{Diagnostic, Fault, locate};
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// How files of other kinds begin, with their kinds and the commands that convert `FILE` into text.
const BINARY: [(&[u8], &str, &str); 4] = [
    (b"PERFILE2", "perf's data", "perf script --ns --header -i FILE > recorded.txt"),
    (b"2ELIFREP", "perf's data", "perf script --ns --header -i FILE > recorded.txt"),
    (b"\x17\x08Dtracing", "trace-cmd's data", "trace-cmd report -t -i FILE > recorded.txt"),
    (b"\x0a", "a trace of Perfetto", "traceconv systrace FILE recorded.txt"),
];

/// The number of bytes that are searched for one that no text has.
const SEARCHED: usize = 4096;

/// Returns the text of a recording that is in `file`. It may be compressed by gzip or zstd. The kernel takes any bytes as
/// a task's name, so bytes that are no UTF-8 are replaced.
///
/// ```
/// use runyard_workload::import::text;
///
/// assert_eq!(text("a.txt", b"# tracer: nop\n".to_vec()).unwrap(), "# tracer: nop\n");
/// let refused = text("perf.data", b"PERFILE2...".to_vec()).unwrap_err();
/// assert!(refused.to_string().contains("perf script --ns --header -i perf.data > recorded.txt"));
/// ```
///
/// # Errors
/// If the file is of another kind, with the command that converts it; or if it cannot be decompressed.
pub fn text(file: &str, bytes: Vec<u8>) -> Result<String, Diagnostic> {
    let failed = |what: String| locate(file, "", vec![Fault::new(Fault::NOWHERE, what)]).remove(0);
    let broken =
        |error: &dyn std::fmt::Display| failed(format!("it cannot be decompressed: {error}"));
    let bytes = match &bytes[..] {
        [0x1f, 0x8b, ..] => unpacked(MultiGzDecoder::new(&bytes[..])).map_err(|it| broken(&it))?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = StreamingDecoder::new(&bytes[..]).map_err(|it| broken(&it))?;
            unpacked(decoder).map_err(|it| broken(&it))?
        }
        _ => bytes,
    };
    if let Some((_, kind, command)) = BINARY.iter().find(|(begin, ..)| is_binary(&bytes, begin)) {
        let command = command.replace("FILE", if file == "-" { "FILE" } else { file });
        return Err(failed(format!("this is {kind}, not text; `{command}` converts it")));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn unpacked(mut from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map(|_| bytes)
}

/// Returns whether a file begins so. A text may begin with a line break, but has no byte 0.
fn is_binary(bytes: &[u8], begin: &[u8]) -> bool {
    let searched = &bytes[..bytes.len().min(SEARCHED)];
    bytes.starts_with(begin) && (begin.len() > 1 || searched.contains(&0))
}
