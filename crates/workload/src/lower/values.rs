//! Measured times: a list in the scenario, or a file beside it with a number of microseconds on each line.
//!
//! The times are kept once for each content and thread, for the life of the process. So they are plain values that each step may
//! have, however often a sweep reads the scenario.

use super::number::MAX_INT;
use crate::diagnostic::{Fault, quoted};
use crate::json::Node;
use crate::text::MAX_TEXT;
use runyard_engine::time::Nanos;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The content of a comment begins with this.
const COMMENT: char = '#';

thread_local! {
    static KEPT: RefCell<BTreeSet<&'static [Nanos]>> = const { RefCell::new(BTreeSet::new()) };
}

/// Reads a list of times, or the name of a file in `folder` that has them. There is at least one.
pub(super) fn read(node: Node<'_>, folder: &Path) -> Result<&'static [Nanos], Fault> {
    let times = if node.is_list() { listed(node) } else { in_file(node, folder) }?;
    match times.is_empty() {
        true => Err(Fault::new(node.at(), "there is no time in it")),
        false => Ok(keep(times)),
    }
}

fn listed(node: Node<'_>) -> Result<Vec<Nanos>, Fault> {
    let expected = |node: Node<'_>| node.expected("a number of microseconds");
    node.list()?.map(|node| time(node.source()).ok_or_else(|| expected(node))).collect()
}

fn in_file(node: Node<'_>, folder: &Path) -> Result<Vec<Nanos>, Fault> {
    let name = node.text().map_err(|_| node.expected("a file, or a list of microseconds"))?;
    let fault = |what: &str| Fault::new(node.at(), format!("{}{what}", quoted(&name)));
    let text = content(&folder.join(&*name)).map_err(|why| fault(&format!(": {why}")))?;
    let lines = text.lines().map(|line| line.split(COMMENT).next().unwrap_or_default().trim());
    let lines = (1..).zip(lines).filter(|(_, line)| !line.is_empty());
    let expected = |(number, line): (u32, &str)| {
        let what = format!("expected a number of microseconds, found {}", quoted(line));
        fault(&format!(", line {number}: {what}"))
    };
    lines.map(|(number, line)| time(line).ok_or_else(|| expected((number, line)))).collect()
}

/// Returns the text of a file, which is no device and no pipe: to open a pipe would wait for a writer.
fn content(path: &Path) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|why| why.to_string())?;
    if !about.is_file() {
        return Err("this is no file".to_owned());
    }
    let file = File::open(path).map_err(|why| why.to_string())?;
    let mut text = String::new();
    file.take(MAX_TEXT as u64 + 1).read_to_string(&mut text).map_err(|why| why.to_string())?;
    if text.len() > MAX_TEXT { Err(crate::TOO_LONG.to_owned()) } else { Ok(text) }
}

/// Reads a number of microseconds, which may have decimals.
fn time(text: &str) -> Option<Nanos> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let micros: f64 = text.parse().ok().filter(|_| plain)?;
    (micros <= MAX_INT.into()).then(|| Nanos(libm::round(micros * 1e3) as u64))
}

fn keep(times: Vec<Nanos>) -> &'static [Nanos] {
    KEPT.with_borrow_mut(|kept| match kept.get(&*times) {
        Some(&known) => known,
        None => {
            let new: &'static [Nanos] = Vec::leak(times);
            kept.insert(new);
            new
        }
    })
}
