//! The layout of a report as JSON: a line for each field of the report and for each row of its lists. So people can
//! read it, `diff` shows the rows that differ, and a million tasks are a million lines.

use serde_json::ser::Formatter;
use std::io;

/// A formatter for rows. Each field of the outermost object, and each element of a list in it, is on a line of its own,
/// with all its contents.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The number of objects and arrays around the next value.
    depth: usize,
    /// Whether the innermost of them has had a value.
    filled: bool,
}

/// The container of a value.
#[derive(Clone, Copy)]
enum In {
    Array,
    Object,
}

impl Rows {
    fn open<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, out: &mut W, within: In) -> io::Result<()> {
        let comma = std::mem::replace(&mut self.filled, true);
        match (comma, self.breaks(within)) {
            (false, false) => Ok(()),
            (false, true) => self.break_line(out),
            (true, false) => out.write_all(b", "),
            (true, true) => out.write_all(b",").and_then(|()| self.break_line(out)),
        }
    }

    fn close<W: ?Sized + io::Write>(&mut self, out: &mut W, within: In) -> io::Result<()> {
        let breaks = self.breaks(within) && self.filled;
        self.depth -= 1;
        self.filled = true;
        if breaks {
            self.break_line(out)?;
        }
        out.write_all(match within {
            In::Array => b"]",
            In::Object => b"}",
        })
    }

    fn breaks(&self, within: In) -> bool {
        match within {
            In::Array => self.depth == 2,
            In::Object => self.depth == 1,
        }
    }

    fn break_line<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Rows {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, _: bool) -> io::Result<()> {
        self.next(out, In::Array)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, In::Array)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, _: bool) -> io::Result<()> {
        self.next(out, In::Object)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, In::Object)
    }
}

/// An instant as nanoseconds since the run's start.
pub(crate) mod instant {
    use runyard_engine::time::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(at: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(at.0)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Time, D::Error> {
        u64::deserialize(deserializer).map(Time)
    }
}
