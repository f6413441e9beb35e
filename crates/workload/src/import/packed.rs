//! From a file to a recording: what packs it is taken off, and what it is decides who reads it.

use super::page::Page;
use super::reading::{Format, Reading, nowhere};
use super::{parse, perfetto};
use crate::diagnostic::Diagnostic;
use crate::overrides::Window;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// How files of other kinds begin, with their kinds and the commands that convert `FILE` into text.
const BINARY: [(&[u8], &str, &str); 3] = [
    (b"PERFILE2", "perf's data", "perf script --ns --header -i FILE > recorded.txt"),
    (b"2ELIFREP", "perf's data", "perf script --ns --header -i FILE > recorded.txt"),
    (b"\x17\x08Dtracing", "trace-cmd's data", "trace-cmd report -t -i FILE > recorded.txt"),
];

/// The number of bytes that tell what a file is.
const SEARCHED: u64 = 4096;

/// Reads a recording from a file with this name. It may be compressed by gzip or zstd.
///
/// # Errors
/// If the file is of another kind, with the command that converts it; or if it cannot be read or decompressed.
pub(super) fn read(file: &str, from: impl Read, part: Window) -> Result<Reading, Diagnostic> {
    let unread = |error: io::Error| nowhere(file, format!("it cannot be read: {error}"));
    let packed = |error: &dyn Display| nowhere(file, format!("it cannot be decompressed: {error}"));
    let (head, from) = peeked(BufReader::new(from)).map_err(unread)?;
    match head[..] {
        [0x1f, 0x8b, ..] => {
            let from = BufReader::new(MultiGzDecoder::new(from));
            unpacked(file, from, part, &|error| packed(&error))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let from = StreamingDecoder::new(from).map_err(|error| packed(&error))?;
            unpacked(file, BufReader::new(from), part, &|error| packed(&error))
        }
        _ => unpacked(file, from, part, &unread),
    }
}

/// Reads a recording that is not compressed any more. `failed` words an error of reading.
fn unpacked(
    file: &str,
    from: impl BufRead,
    part: Window,
    failed: &dyn Fn(io::Error) -> Diagnostic,
) -> Result<Reading, Diagnostic> {
    let (head, mut from) = peeked(from).map_err(failed)?;
    if let Some((_, kind, command)) = BINARY.iter().find(|(begin, ..)| head.starts_with(begin)) {
        let command = command.replace("FILE", if file == "-" { "FILE" } else { file });
        return Err(nowhere(file, format!("this is {kind}, not text; `{command}` converts it")));
    }
    let mut reading = Reading::new(file, part);
    let page = Page::begin(&head);
    if perfetto::begins(&head) {
        reading.format = Format::Perfetto;
        perfetto::read(&mut from, &mut reading).map_err(failed)?;
    } else {
        parse::read(&mut from, page, &mut reading).map_err(failed)?;
    }
    reading.finish();
    Ok(reading)
}

/// Returns the first bytes, and a reader that has them still before it.
fn peeked<R: BufRead>(mut from: R) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut head = Vec::new();
    from.by_ref().take(SEARCHED).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(from)))
}
