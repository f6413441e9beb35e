//! JSON as scenarios are written, for other files of the same kind: comments, trailing commas and single quotes are
//! fine, and whatever is wrong has its place.
//!
//! ```
//! use runyard_workload::document::Value;
//!
//! let root = Value::read("sweep.json", "{\n  'seeds': 20, // as many\n}").unwrap();
//! let seeds = root.members().unwrap().next().unwrap();
//! assert_eq!((&*seeds.key(), seeds.value.natural("a number", 1..=100)), ("seeds", Ok(20)));
//! assert_eq!(seeds.wrong("there is no such key").to_string(), "sweep.json:2:3: there is no such key");
//! ```

use crate::Diagnostic;
use crate::diagnostic::{Fault, locate};
use crate::json::{self, Node};
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// A value of a text that is sound.
#[derive(Clone, Copy, Debug)]
pub struct Value<'t> {
    file: &'t str,
    text: &'t str,
    node: Node<'t>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Member<'t> {
    key: Cow<'t, str>,
    at: usize,
    /// Its value; that of a key that stands alone is null.
    pub value: Value<'t>,
}

impl<'t> Value<'t> {
    /// The one value that `text` is. `file` is what diagnostics call it.
    ///
    /// # Errors
    /// The first thing that is wrong with the form of the text.
    pub fn read(file: &'t str, text: &'t str) -> Result<Value<'t>, Diagnostic> {
        let (text, node) = crate::read(file, text)?;
        Ok(Value { file, text, node })
    }

    /// That something is wrong with the value.
    pub fn wrong(self, what: impl Into<String>) -> Diagnostic {
        located(self.file, self.text, Fault::new(self.node.at(), what))
    }

    /// Where in the text it is, in bytes.
    #[must_use]
    pub fn place(self) -> Range<usize> {
        self.node.at()..self.node.at() + self.node.source().len()
    }

    /// The value as it is written.
    #[must_use]
    pub fn source(self) -> &'t str {
        self.node.source()
    }

    /// The same on one line.
    #[must_use]
    pub fn one_line(self) -> String {
        self.source().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        self.node.is_object()
    }

    /// Whether it is a list.
    #[must_use]
    pub fn is_list(self) -> bool {
        self.node.is_list()
    }

    /// Whether it is a string.
    #[must_use]
    pub fn is_text(self) -> bool {
        self.node.is_text()
    }

    /// The string that it is.
    ///
    /// # Errors
    /// If it is something else.
    pub fn text(self) -> Result<Cow<'t, str>, Diagnostic> {
        self.node.text().map_err(|fault| self.located(fault))
    }

    /// The integer that it is, of `range`; `what` names it: "a number of seeds".
    ///
    /// # Errors
    /// If it is something else.
    pub fn integer(self, what: &str, range: RangeInclusive<i64>) -> Result<i64, Diagnostic> {
        self.node.integer(what, range).map_err(|fault| self.located(fault))
    }

    /// The same for a `range` with nothing below zero.
    ///
    /// # Errors
    /// If it is something else.
    pub fn natural(self, what: &str, range: RangeInclusive<u32>) -> Result<u32, Diagnostic> {
        self.node.natural(what, range).map_err(|fault| self.located(fault))
    }

    /// The elements of the list that it is.
    ///
    /// # Errors
    /// If it is something else.
    pub fn elements(self) -> Result<impl Iterator<Item = Value<'t>>, Diagnostic> {
        let elements = self.node.list().map_err(|fault| self.located(fault))?;
        Ok(elements.map(move |node| Value { node, ..self }))
    }

    /// The members of the object that it is, in their order.
    ///
    /// # Errors
    /// If it is something else, or a key repeats.
    pub fn members(self) -> Result<impl Iterator<Item = Member<'t>>, Diagnostic> {
        let members = self.node.object().map_err(|fault| self.located(fault))?;
        Ok(members.map(move |member| self.member(member)))
    }

    /// The members of the object that it is, in their order, whether or not a key repeats.
    ///
    /// # Errors
    /// If it is something else.
    pub fn all_members(self) -> Result<impl Iterator<Item = Member<'t>>, Diagnostic> {
        let members = self.node.object_with(|_| true).map_err(|fault| self.located(fault))?;
        Ok(members.map(move |member| self.member(member)))
    }

    fn member(self, member: json::Member<'t>) -> Member<'t> {
        Member { key: member.key(), at: member.at, value: Value { node: member.value, ..self } }
    }

    fn located(self, fault: Fault) -> Diagnostic {
        located(self.file, self.text, fault)
    }
}

impl Member<'_> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// That something is wrong with the key.
    pub fn wrong(&self, what: impl Into<String>) -> Diagnostic {
        self.value.located(Fault::new(self.at, what))
    }
}

fn located(file: &str, text: &str, fault: Fault) -> Diagnostic {
    locate(file, text, vec![fault]).remove(0)
}
