//! A reader for files in the JSON dialect of scenarios: comments, trailing commas and single quotes are allowed, and
//! each error has its place.
//!
//! ```
//! use runyard_workload::document::Value;
//!
//! let root = Value::read("sweep.json", "{\n  'seeds': 20, // as many\n}").unwrap();
//! let seeds = root.members().unwrap().next().unwrap();
//! assert_eq!((&*seeds.key(), seeds.value.natural("a number", 1..=100)), ("seeds", Ok(20)));
//! assert_eq!(seeds.wrong("there is no such key").to_string(), "sweep.json:2:3: there is no such key");
//! ```

use crate::diagnostic::{Diagnostic, Fault, locate};
use crate::json::{self, Node};
use crate::text;
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// A value of a valid text.
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
    /// The value; null for a key without a value.
    pub value: Value<'t>,
}

impl<'t> Value<'t> {
    /// Reads the one value of `text`. `file` is its name in diagnostics.
    ///
    /// # Errors
    /// The first syntax error of the text.
    pub fn read(file: &'t str, text: &'t str) -> Result<Value<'t>, Diagnostic> {
        let (text, node) = text::read(file, text)?;
        Ok(Value { file, text, node })
    }

    /// Returns an error about the value.
    pub fn wrong(self, what: impl Into<String>) -> Diagnostic {
        located(self.file, self.text, Fault::new(self.node.at(), what))
    }

    /// Returns the byte offset of the value in the text.
    #[must_use]
    pub fn place(self) -> Range<usize> {
        self.node.at()..self.node.at() + self.node.source().len()
    }

    /// Returns the text of the value.
    #[must_use]
    pub fn source(self) -> &'t str {
        self.node.source()
    }

    /// Returns the text of the value on one line.
    #[must_use]
    pub fn one_line(self) -> String {
        self.source().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns whether the value is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        self.node.is_object()
    }

    /// Returns whether the value is a list.
    #[must_use]
    pub fn is_list(self) -> bool {
        self.node.is_list()
    }

    /// Returns whether the value is a string.
    #[must_use]
    pub fn is_text(self) -> bool {
        self.node.is_text()
    }

    /// Returns the string.
    ///
    /// # Errors
    /// If the value is not a string.
    pub fn text(self) -> Result<Cow<'t, str>, Diagnostic> {
        self.node.text().map_err(|fault| self.located(fault))
    }

    /// Returns the integer, which must be in `range`. `what` names it in the error: "a number of seeds".
    ///
    /// # Errors
    /// If the value is not such an integer.
    pub fn integer(self, what: &str, range: RangeInclusive<i64>) -> Result<i64, Diagnostic> {
        self.node.integer(what, range).map_err(|fault| self.located(fault))
    }

    /// Returns the integer, which must be in a `range` without negative numbers.
    ///
    /// # Errors
    /// If the value is not such an integer.
    pub fn natural(self, what: &str, range: RangeInclusive<u32>) -> Result<u32, Diagnostic> {
        self.node.natural(what, range).map_err(|fault| self.located(fault))
    }

    /// Returns the elements of the list.
    ///
    /// # Errors
    /// If the value is not a list.
    pub fn elements(self) -> Result<impl Iterator<Item = Value<'t>>, Diagnostic> {
        let elements = self.node.list().map_err(|fault| self.located(fault))?;
        Ok(elements.map(move |node| Value { node, ..self }))
    }

    /// Returns the members of the object, in their order.
    ///
    /// # Errors
    /// If the value is not an object, or a key repeats.
    pub fn members(self) -> Result<impl Iterator<Item = Member<'t>>, Diagnostic> {
        let members = self.node.object().map_err(|fault| self.located(fault))?;
        Ok(members.map(move |member| self.member(member)))
    }

    /// Returns the members of the object, in their order. Keys may repeat.
    ///
    /// # Errors
    /// If the value is not an object.
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
    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns an error about the key.
    pub fn wrong(&self, what: impl Into<String>) -> Diagnostic {
        self.value.located(Fault::new(self.at, what))
    }
}

fn located(file: &str, text: &str, fault: Fault) -> Diagnostic {
    locate(file, text, vec![fault]).remove(0)
}
