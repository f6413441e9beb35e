//! Reading JSON as rt-app's own reader (json-c, not strict) takes it: comments, trailing commas
//! and single quotes are fine; missing commas, bare words, hexadecimal and the like are not.
//!
//! Every value and key knows its place. Keys keep their order and may repeat; whether they do so
//! rightly is for [`Node::object`]'s caller to say. Integers are integers: `1.0` and `1e3` are
//! refused where a number of something is expected, as rt-app does.
//!
//! A key without a value, `"suspend",`, is no JSON; two of rt-app's own examples have it, for events
//! whose value means nothing. [`Completed`] gives those one, and knows the places of the original.
//!
//! Invariant: no text overflows the stack. [`too_deep`] refuses what is nested deeper than
//! [`MAX_DEPTH`] before the recursive parser sees it.

use crate::diagnostic::{Fault, quoted};
use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// How deep objects and lists may be nested.
pub(crate) const MAX_DEPTH: usize = 64;

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_single_quoted_strings: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The one value that `text` is.
pub(crate) fn document(text: &str) -> Result<Value<'_>, Fault> {
    if let Some(at) = too_deep(text.as_bytes()) {
        return Err(Fault::new(at, format!("nested deeper than {MAX_DEPTH}")));
    }
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| {
        let what = error.kind().to_string();
        let (first, rest) = what.split_at(what.chars().next().map_or(0, char::len_utf8));
        Fault::new(error.range().start, first.to_lowercase() + rest)
    })?;
    parsed.value.ok_or_else(|| Fault::new(Fault::NOWHERE, "the file is empty"))
}

/// A text in which every key that needs no value has one nevertheless.
#[derive(Debug)]
pub(crate) struct Completed<'t> {
    pub(crate) text: Cow<'t, str>,
    /// Where in it the values begin that are not in the original.
    added: Vec<usize>,
}

impl<'t> Completed<'t> {
    /// What is added behind a key.
    const VALUE: &'static str = ":null";

    /// `text` with values for the keys of which `needs_none` says so.
    pub(crate) fn of(text: &'t str, needs_none: impl Fn(&str) -> bool) -> Completed<'t> {
        let places = keys_alone(text).filter(|&(start, end)| needs_none(&text[start + 1..end - 1]));
        let (mut longer, mut copied, mut added) = (String::new(), 0, Vec::new());
        for (_, end) in places {
            longer.push_str(&text[copied..end]);
            added.push(longer.len());
            longer.push_str(Completed::VALUE);
            copied = end;
        }
        if added.is_empty() {
            return Completed { text: text.into(), added };
        }
        longer.push_str(&text[copied..]);
        Completed { text: longer.into(), added }
    }

    /// The place in the original of what is at `at` in the text.
    pub(crate) fn original(&self, at: usize) -> usize {
        let before = self.added.partition_point(|&added| added < at);
        let within = self.added[..before].last().map_or(0, |last| {
            let end = last + Completed::VALUE.len();
            end.saturating_sub(at)
        });
        at + within - before * Completed::VALUE.len()
    }
}

/// Where in `text` a string stands in an object that is neither followed by a colon nor follows one.
fn keys_alone(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let bytes = text.as_bytes();
    let (mut at, mut in_object, mut last, mut key) = (0, Vec::new(), b' ', None);
    std::iter::from_fn(move || {
        while let Some(&byte) = bytes.get(at) {
            let (start, end) = (at, after(bytes, at));
            at = end;
            if byte.is_ascii_whitespace() || byte == b'/' {
                continue;
            }
            let before = std::mem::replace(&mut last, byte);
            let alone = key.take().filter(|_| byte == b',' || byte == b'}');
            match byte {
                b'{' | b'[' => in_object.push(byte == b'{'),
                b'}' | b']' => drop(in_object.pop()),
                b'"' | b'\'' if in_object.last() == Some(&true) && b"{,".contains(&before) => {
                    key = Some((start, end));
                }
                _ => {}
            }
            if alone.is_some() {
                return alone;
            }
        }
        None
    })
}

/// Where `text` opens an object or a list inside [`MAX_DEPTH`] others.
fn too_deep(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'{' | b'[' if depth == MAX_DEPTH => return Some(at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at = after(text, at);
    }
    None
}

/// The offset behind the comment, string or byte that begins at `at`.
fn after(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    let length = match (rest[0], rest.get(1)) {
        (b'/', Some(b'/')) => rest.iter().position(|byte| b"\r\n".contains(byte)),
        (b'/', Some(b'*')) => rest[2..].windows(2).position(|pair| pair == b"*/").map(|n| n + 4),
        (quote @ (b'"' | b'\''), _) => closing(quote, &rest[1..]).map(|n| n + 2),
        _ => Some(1),
    };
    length.map_or(text.len(), |length| at + length)
}

/// Where in `text` the string ends that began with `quote`.
fn closing(quote: u8, text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// A value in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'v>(pub(crate) &'v Value<'v>);

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'v> {
    pub(crate) key: &'v str,
    /// The place of the key.
    pub(crate) at: usize,
    pub(crate) value: Node<'v>,
}

impl<'v> Node<'v> {
    /// Where the value begins.
    pub(crate) fn at(self) -> usize {
        self.0.start()
    }

    /// The error that this is not what it should be: "a string".
    pub(crate) fn expected(self, what: &str) -> Fault {
        Fault::new(self.at(), format!("expected {what}, found {}", self.shown()))
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self.0, Value::StringLit(_))
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self.0, Value::NumberLit(_))
    }

    pub(crate) fn is_object(self) -> bool {
        matches!(self.0, Value::Object(_))
    }

    pub(crate) fn text(self) -> Result<&'v str, Fault> {
        match self.0 {
            Value::StringLit(literal) => Ok(&literal.value),
            _ => Err(self.expected("a string")),
        }
    }

    pub(crate) fn boolean(self) -> Result<bool, Fault> {
        match self.0 {
            Value::BooleanLit(literal) => Ok(literal.value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// The integer that this is, if it is one of `range`; `what` names it: "a nice value".
    pub(crate) fn integer(self, what: &str, range: RangeInclusive<i64>) -> Result<i64, Fault> {
        self.checked(what, range, Some)
    }

    /// The integer that this is, if it is one of `range`, which has nothing below zero.
    pub(crate) fn natural(self, what: &str, range: RangeInclusive<u32>) -> Result<u32, Fault> {
        let (low, high) = range.into_inner();
        self.checked(what, low.into()..=high.into(), |number| u32::try_from(number).ok())
    }

    /// What `make` makes of the integer that this is, if it is one of `range`.
    pub(crate) fn checked<T>(
        self,
        what: &str,
        range: RangeInclusive<i64>,
        make: impl Fn(i64) -> Option<T>,
    ) -> Result<T, Fault> {
        let number = match self.0 {
            Value::NumberLit(literal) => literal.value.parse().ok(),
            _ => None,
        };
        number.filter(|number| range.contains(number)).and_then(make).ok_or_else(|| {
            let (low, high) = range.into_inner();
            self.expected(&format!("{what}, an integer of {low} to {high}"))
        })
    }

    pub(crate) fn list(self) -> Result<impl ExactSizeIterator<Item = Node<'v>>, Fault> {
        match self.0 {
            Value::Array(list) => Ok(list.elements.iter().map(Node)),
            _ => Err(self.expected("a list")),
        }
    }

    /// The members in order; none may repeat.
    pub(crate) fn object(self) -> Result<Vec<Member<'v>>, Fault> {
        self.object_with(|_| false)
    }

    /// The members in order; those may repeat of which `may_repeat` says so.
    pub(crate) fn object_with(
        self,
        may_repeat: impl Fn(&str) -> bool,
    ) -> Result<Vec<Member<'v>>, Fault> {
        let Value::Object(object) = self.0 else { return Err(self.expected("an object")) };
        let mut seen = BTreeSet::new();
        let mut members = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            let (key, at) = (property.name.as_str(), property.range.start);
            if !seen.insert(key) && !may_repeat(key) {
                return Err(Fault::new(at, format!("the key {} is repeated", quoted(key))));
            }
            members.push(Member { key, at, value: Node(&property.value) });
        }
        Ok(members)
    }

    fn shown(self) -> String {
        match self.0 {
            Value::NullKeyword(_) => "null".to_owned(),
            Value::BooleanLit(literal) => literal.value.to_string(),
            Value::NumberLit(literal) if literal.value.len() > 40 => "a longer number".to_owned(),
            Value::NumberLit(literal) => literal.value.to_owned(),
            Value::StringLit(literal) => format!("the string {}", quoted(&literal.value)),
            Value::Object(_) => "an object".to_owned(),
            Value::Array(list) => format!("a list of {}", list.elements.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Fault {
        document(text).expect_err(text)
    }

    #[test]
    fn what_json_c_takes_is_taken() {
        let text = "// a\n{ /* [{ */ 'a' : [ 1, 'x', ], \"b\\\"{\" : true, }";
        let value = document(text).unwrap();
        let members = Node(&value).object().unwrap();
        assert_eq!(members.iter().map(|m| m.key).collect::<Vec<_>>(), ["a", "b\"{"]);
        assert_eq!(members[0].at, text.find("'a'").unwrap());
        assert_eq!(members[0].value.list().unwrap().len(), 2);
    }

    #[test]
    fn looser_writing_is_refused_with_its_place() {
        for (text, at) in [
            ("", 0),
            ("{a: 1}", 1),
            ("[1 2]", 2),
            ("[0x1]", 1),
            ("[+1]", 1),
            ("[.5]", 1),
            ("[NaN]", 1),
            ("[\"\\x41\"]", 2),
            ("[1,,2]", 3),
            ("{} {}", 3),
            ("{\"a\" 1}", 5),
            ("[1", 0),
            ("/* never closed", 0),
            ("[\"never closed]", 1),
        ] {
            assert_eq!(refused(text).at, at, "{text}: {:?}", refused(text));
        }
    }

    #[test]
    fn deep_nesting_is_refused_at_the_first_opening_too_many() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(document(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(refused(&nested(MAX_DEPTH + 1)).at, MAX_DEPTH);
        assert_eq!(refused(&"{\"a\":".repeat(1_000_000)).at, MAX_DEPTH * 5);
    }

    #[test]
    fn brackets_in_strings_and_comments_are_no_nesting() {
        let many = "[{".repeat(100);
        for text in [
            format!("[\"{many}\"]"),
            format!("['{many}\\'{many}']"),
            format!("/*{many}*/ 1"),
            format!("//{many}\n1"),
            format!("/*/{many}*/ 1"),
            format!("\"\\\\\" // {many}"),
        ] {
            assert!(document(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn keys_that_need_no_value_may_stand_alone() {
        let completed = |text| Completed::of(text, |key| key == "a" || key == "b\\\"").text;
        for (text, expected) in [
            ("{'a'}", "{'a':null}"),
            (
                "{\"a\" /* , */ , \"a\":[\"a\", \"a\"],}",
                "{\"a\":null /* , */ , \"a\":[\"a\", \"a\"],}",
            ),
            (
                "[{\"b\\\"\" // x\n}, \"a\", {'x': 'a', 'c', 'a'",
                "[{\"b\\\"\":null // x\n}, \"a\", {'x': 'a', 'c', 'a'",
            ),
            ("}{'a' 'a', 'a}", "}{'a' 'a', 'a}"),
        ] {
            assert_eq!(completed(text), expected);
        }
    }

    #[test]
    fn places_in_a_completed_text_are_those_of_the_original() {
        let text = "{'a', 'a', 'c'}";
        let completed = Completed::of(text, |key| key == "a");
        assert_eq!(completed.text, "{'a':null, 'a':null, 'c'}");
        let original: Vec<_> = (0..=25).map(|at| completed.original(at)).collect();
        let added = [4, 4, 4, 4, 4].into_iter().chain(5..=9).chain([9, 9, 9, 9, 9]);
        assert_eq!(original, (0..=4).chain(added).chain(10..=15).collect::<Vec<_>>());
    }

    #[test]
    fn integers_are_integers() {
        let integer = |text: &str| {
            let value = document(text).unwrap();
            Node(&value).integer("a number of apples", -5..=10).map_err(|fault| fault.what)
        };
        assert_eq!((integer("10"), integer("-5"), integer("-0")), (Ok(10), Ok(-5), Ok(0)));
        for text in ["11", "-6", "1.0", "1e0", "99999999999999999999", "\"1\"", "null", "[]"] {
            let what = integer(text).unwrap_err();
            assert!(
                what.starts_with("expected a number of apples, an integer of -5 to 10, found "),
                "{what}"
            );
        }
    }

    #[test]
    fn keys_may_repeat_only_where_that_means_something() {
        let text = "{\"run\": 1, \"r\\u0075n\": 2, \"loop\": 3, \"l\\u006fop\": 4}";
        let value = document(text).unwrap();
        let fault = Node(&value).object_with(|key| key == "run").unwrap_err();
        assert_eq!(fault.at, text.find("\"l\\u006fop").unwrap());
        assert_eq!(fault.what, "the key \"loop\" is repeated");
    }
}
