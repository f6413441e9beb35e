//! Settings: values that replace those of a scenario, each by its path, as `tasks.web.run=300`.
//!
//! A path has the keys on the way to the value: `SEG(.SEG)*`. A segment with characters other than letters, digits,
//! `_`, `/` and `-` is a JSON string: `tasks."a.b".run`. The files of a task group need no quotes:
//! `groups./web.cpu.max` is `groups./web."cpu.max"`. The items of a list are counted from 0. For a repeated key, as
//! events and phases may have, `run#2` is the second one. A value is JSON, as in a scenario. A text that is not JSON is
//! a string.
//!
//! ```
//! use runyard_workload::setting::Setting;
//!
//! let setting: Setting = "tasks.\"a.b\".run#2.uniform.1=300".parse()?;
//! assert_eq!(setting.to_string(), "tasks.\"a.b\".run#2.uniform.1=300");
//! assert_eq!(Setting::new("machine.topology", "2x4")?.value(), "\"2x4\"");
//! assert!(Setting::new("tasks..run", "300").is_err());
//! # Ok::<(), String>(())
//! ```

use crate::{json, shape};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A value for a place of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    path: Path,
    value: String,
}

impl Setting {
    /// Returns a setting of `path` to `value`, which is JSON or else a string.
    ///
    /// # Errors
    /// If `path` is not a path. The error is a sentence.
    pub fn new(path: &str, value: &str) -> Result<Setting, String> {
        let value = as_json(value);
        Ok(Setting { path: path.parse()?, value })
    }

    /// Returns the place.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the value, as JSON text.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns the setting as it is written, with a long one cut.
    pub(crate) fn shown(&self) -> String {
        const SHOWN: usize = 100;
        let all = self.to_string();
        match all.char_indices().nth(SHOWN) {
            None => all,
            Some((end, _)) => format!("{}...", &all[..end]),
        }
    }
}

/// Returns the JSON text of a value, or of a string if the text is not JSON.
fn as_json(value: &str) -> String {
    match json::document(value, shape::needs_no_value) {
        Ok(root) => root.source().to_owned(),
        Err(_) => json::text_of(value),
    }
}

/// Reads `PATH=VALUE`.
impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let mut path = Reading { text, at: 0 };
        path.segments()?;
        match path.rest().strip_prefix('=') {
            Some(value) => Setting::new(&text[..path.at], value),
            None if path.rest().is_empty() => Err("a setting is PATH=VALUE".to_owned()),
            None => Err(path.wrong()),
        }
    }
}

/// Writes the setting as it is read. A string has quotes only if it needs them.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = json::leading_text(&self.value).map(|(text, _)| text);
        let plain = |text: &String| text.bytes().all(|byte| is_plain(byte) || byte == b'.');
        let bare =
            text.filter(|text| plain(text) && !text.is_empty() && as_json(text) == self.value);
        write!(f, "{}={}", self.path, bare.as_ref().unwrap_or(&self.value))
    }
}

/// A place of a scenario; it has at least one segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Segment>);

impl Path {
    /// Returns the segments, from the top level of the scenario on.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Path, String> {
        let mut path = Reading { text, at: 0 };
        let segments = path.segments()?;
        if path.rest().is_empty() { Ok(Path(of_files(segments))) } else { Err(path.wrong()) }
    }
}

/// Joins the segments of a path that are the parts of a file of cgroup v2, as `cpu.max` is.
fn of_files(mut segments: Vec<Segment>) -> Vec<Segment> {
    if let [groups, _, file, _, ..] = &segments[..]
        && groups.key == "groups"
        && matches!(&*file.key, "cpu" | "cpuset")
        && segments[2..].iter().all(|segment| segment.nth == 1)
    {
        let parts: Vec<_> = segments.drain(2..).map(|segment| segment.key).collect();
        segments.push(Segment { key: parts.join("."), nth: 1 });
    }
    segments
}

/// Writes the path as it is read.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, segment) in self.0.iter().enumerate() {
            let dot = if nth > 0 { "." } else { "" };
            write!(f, "{dot}{segment}")?;
        }
        Ok(())
    }
}

/// A part of a path: a key, or the number of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// The key; for a list, the number of the item in decimal digits, from 0.
    pub key: String,
    /// The number of the member among those with this key, from 1.
    pub nth: u32,
}

/// Writes the segment as it is read, with quotes if it needs them.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.key.is_empty() && self.key.bytes().all(is_plain);
        let key =
            if plain { Cow::Borrowed(&self.key) } else { Cow::Owned(json::text_of(&self.key)) };
        f.write_str(&key)?;
        if self.nth > 1 { write!(f, "#{}", self.nth) } else { Ok(()) }
    }
}

/// Returns whether a segment may have this byte outside of quotes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_/-".contains(&byte)
}

/// The reader of a path.
struct Reading<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reading<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Returns the error that the text at this place does not belong to a path.
    fn wrong(&self) -> String {
        let shown = &self.text[..self.at];
        match self.rest().chars().next() {
            Some(odd @ ('.' | '=')) => {
                format!("a key is missing before {odd:?} in the path, behind {shown:?}")
            }
            Some(odd) => {
                format!(
                    "{odd:?} in a path stands in quotes, as tasks.\"a b\".run; it is behind {shown:?}"
                )
            }
            None => format!("a key is missing at the end of the path {shown:?}"),
        }
    }

    /// Reads the segments up to the end of the path.
    fn segments(&mut self) -> Result<Vec<Segment>, String> {
        let mut segments = vec![self.segment()?];
        while self.rest().starts_with('.') {
            self.at += 1;
            segments.push(self.segment()?);
        }
        Ok(segments)
    }

    fn segment(&mut self) -> Result<Segment, String> {
        let rest = self.rest();
        let (key, length) = match rest.starts_with('"') {
            true => json::leading_text(rest).ok_or_else(|| {
                format!("the quotes do not end that begin behind {:?}", &self.text[..self.at])
            })?,
            false => {
                let end = rest.bytes().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
                (rest[..end].to_owned(), end)
            }
        };
        if length == 0 {
            return Err(self.wrong());
        }
        self.at += length;
        Ok(Segment { key, nth: self.nth()? })
    }

    /// Reads the number after a `#`.
    fn nth(&mut self) -> Result<u32, String> {
        let Some(rest) = self.rest().strip_prefix('#') else { return Ok(1) };
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        let nth = rest[..end].parse().ok().filter(|&nth| nth > 0);
        self.at += 1 + end;
        nth.ok_or_else(|| {
            format!("behind # is the number of a repeated key, from 1: {:?}", &self.text[..self.at])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<(String, u32)> {
        let path: Path = text.parse().expect(text);
        assert_eq!(path.to_string().parse(), Ok(path.clone()), "{text}");
        path.segments().iter().map(|segment| (segment.key.clone(), segment.nth)).collect()
    }

    #[test]
    fn paths_are_keys_with_dots_between_them() {
        let plain = |keys: &[&str]| keys.iter().map(|&key| (key.to_owned(), 1)).collect::<Vec<_>>();
        assert_eq!(parts("groups./web/api.weight"), plain(&["groups", "/web/api", "weight"]));
        assert_eq!(parts("tasks.\"a.b=\\\"\".run"), plain(&["tasks", "a.b=\"", "run"]));
        assert_eq!(parts("groups./web.cpu.max.burst"), plain(&["groups", "/web", "cpu.max.burst"]));
        assert_eq!(parts("groups./web.\"cpu.max\""), parts("groups./web.cpu.max"));
        assert_eq!(parts("tasks.cpu.cpu.max"), plain(&["tasks", "cpu", "cpu", "max"]));
        assert_eq!(parts("\"\".0"), plain(&["", "0"]));
        assert_eq!(parts("a.run#2.\"b c\"#3")[1..], [("run".into(), 2), ("b c".into(), 3)]);
        for bad in
            ["", ".", "a.", ".a", "a..b", "a b", "a=b", "a#", "a#0", "a#x", "\"a", "\"a\"b", "ä"]
        {
            assert!(bad.parse::<Path>().is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_json_or_else_text() {
        for (text, value) in [
            ("300", "300"),
            (" [1, /* 2 */ 3,] // x", "[1, /* 2 */ 3,]"),
            ("2x4", "\"2x4\""),
            ("\"300\"", "\"300\""),
            ("a=\"b\"\n", "\"a=\\\"b\\\"\\n\""),
            ("", "\"\""),
            ("{a: 1}", "\"{a: 1}\""),
        ] {
            let setting: Setting = format!("a.b={text}").parse().unwrap();
            assert_eq!(setting.value(), value, "{text}");
            assert_eq!(setting.to_string().parse(), Ok(setting), "{text}");
        }
        assert_eq!("a.b".parse::<Setting>(), Err("a setting is PATH=VALUE".to_owned()));
    }
}
