//! A reader of JSON in the dialect of rt-app's own reader (json-c, not strict). Comments, trailing commas and single
//! quotes are allowed. Missing commas, bare words, hexadecimal numbers and the like are not.
//!
//! [`document`] checks the whole text once and builds no tree: a [`Node`] is a place in the text, and its members and
//! elements are found by reading on from there. A tree of values took 23 times the memory of the text. The end of a
//! value is found by a scan over it, so each level that is read costs one more pass over its content. The language has
//! six levels.
//!
//! Every value and key has its place. Keys keep their order and may repeat; the caller of [`Node::object`] decides
//! whether a repetition is allowed. Integers are integers: as in rt-app, `1.0` and `1e3` are refused where a number is
//! expected.
//!
//! A key without a value, `"suspend",`, is not JSON. Two of rt-app's own examples have it, for events with a
//! meaningless value. Such a key has the value null, at the place after it.
//!
//! Invariant: no text overflows the stack. [`too_deep`] refuses a text nested deeper than [`MAX_DEPTH`] before the
//! recursive check reads it.

use crate::diagnostic::{Fault, quoted};
use crate::tunables::{Takes, Tunable};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;

/// The largest nesting depth of objects and lists.
pub(crate) const MAX_DEPTH: usize = 64;

const OPTIONS: ScannerOptions = ScannerOptions {
    allow_single_quoted_strings: true,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads the one value of `text`. Keys for which `needs_no_value` returns true may stand alone; it receives them as
/// they are written.
pub(crate) fn document(
    text: &str,
    needs_no_value: impl Fn(&str) -> bool,
) -> Result<Node<'_>, Fault> {
    if let Some(at) = too_deep(text.as_bytes()) {
        return Err(Fault::new(at, format!("nested deeper than {MAX_DEPTH}")));
    }
    let scanner = Scanner::new(text, &OPTIONS);
    let mut check = Check { text, scanner, needs_no_value };
    match check.next()? {
        None => Err(Fault::new(Fault::NOWHERE, "the file is empty")),
        Some(first) => {
            let root = Node { text, at: check.scanner.token_start() };
            check.value(&first)?;
            match check.next()? {
                None => Ok(root),
                Some(_) => Err(check.wrong(&ParseErrorKind::MultipleRootJsonValues)),
            }
        }
    }
}

/// Returns the one value of a text that is known to be valid, except for its depth.
pub(crate) fn sound(text: &str) -> Result<Node<'_>, Fault> {
    match too_deep(text.as_bytes()) {
        Some(at) => Err(Fault::new(at, format!("nested deeper than {MAX_DEPTH}"))),
        None => Ok(beginning(text)),
    }
}

/// Returns the value of the key at `at` in a valid text.
pub(crate) fn value_of_key_at(text: &str, at: usize) -> Option<Node<'_>> {
    Members { text, at, last: None }.next().map(|member| member.value)
}

/// Returns the value at `at` in a valid text.
pub(crate) fn value_at(text: &str, at: usize) -> Node<'_> {
    Node { text, at }
}

/// Returns the one value of a valid text.
pub(crate) fn beginning(text: &str) -> Node<'_> {
    Node { text, at: token(text.as_bytes(), 0) }
}

/// The check that a text is JSON, token by token.
struct Check<'t, F> {
    text: &'t str,
    scanner: Scanner<'t>,
    needs_no_value: F,
}

impl<'t, F: Fn(&str) -> bool> Check<'t, F> {
    /// Returns the next token that is not a comment.
    fn next(&mut self) -> Result<Option<Token<'t>>, Fault> {
        loop {
            match self.scanner.scan().map_err(|error| refused(&error))? {
                Some(Token::CommentLine(_) | Token::CommentBlock(_)) => {}
                token => return Ok(token),
            }
        }
    }

    /// Returns the error of the current token.
    fn wrong(&self, kind: &ParseErrorKind) -> Fault {
        fault(self.scanner.token_start(), kind)
    }

    /// Checks the value that begins with the current token.
    fn value(&mut self, first: &Token<'t>) -> Result<(), Fault> {
        Err(self.wrong(&match first {
            Token::OpenBrace => return self.object(),
            Token::OpenBracket => return self.list(),
            Token::String(_) | Token::Boolean(_) | Token::Number(_) | Token::Null => return Ok(()),
            Token::CloseBracket => ParseErrorKind::UnexpectedCloseBracket,
            Token::CloseBrace => ParseErrorKind::UnexpectedCloseBrace,
            Token::Comma => ParseErrorKind::UnexpectedComma,
            Token::Colon => ParseErrorKind::UnexpectedColon,
            Token::Word(_) | Token::CommentLine(_) | Token::CommentBlock(_) => {
                ParseErrorKind::UnexpectedWord
            }
        }))
    }

    fn object(&mut self) -> Result<(), Fault> {
        let begin = self.scanner.token_start();
        let mut token = self.next()?;
        loop {
            token = match token {
                Some(Token::CloseBrace) => return Ok(()),
                Some(Token::String(_)) => self.member()?,
                None => return Err(fault(begin, &ParseErrorKind::UnterminatedObject)),
                Some(Token::Word(_) | Token::Number(_) | Token::Boolean(_) | Token::Null) => {
                    return Err(self.wrong(&ParseErrorKind::ExpectedStringObjectProperty));
                }
                Some(_) => return Err(self.wrong(&ParseErrorKind::UnexpectedTokenInObject)),
            };
        }
    }

    /// Checks a member of an object, from its key on, with the comma after it. Returns the next token.
    fn member(&mut self) -> Result<Option<Token<'t>>, Fault> {
        let key = &self.text[self.scanner.token_start() + 1..self.scanner.token_end() - 1];
        let behind = match self.next()? {
            Some(Token::Colon) => {
                let Some(first) = self.next()? else {
                    return Err(self.wrong(&ParseErrorKind::ExpectedObjectValue));
                };
                self.value(&first)?;
                let end = self.scanner.token_end();
                let behind = self.next()?;
                if let Some(
                    Token::String(_)
                    | Token::Word(_)
                    | Token::Number(_)
                    | Token::Boolean(_)
                    | Token::Null,
                ) = behind
                {
                    return Err(fault(end, &ParseErrorKind::ExpectedComma));
                }
                behind
            }
            alone @ Some(Token::Comma | Token::CloseBrace) if (self.needs_no_value)(key) => alone,
            _ => return Err(self.wrong(&ParseErrorKind::ExpectedColonAfterObjectKey)),
        };
        if behind == Some(Token::Comma) { self.next() } else { Ok(behind) }
    }

    fn list(&mut self) -> Result<(), Fault> {
        let begin = self.scanner.token_start();
        let mut token = self.next()?;
        loop {
            match token {
                Some(Token::CloseBracket) => return Ok(()),
                None => return Err(fault(begin, &ParseErrorKind::UnterminatedArray)),
                Some(first) => self.value(&first)?,
            }
            let end = self.scanner.token_end();
            token = match self.next()? {
                Some(Token::Comma) => self.next()?,
                Some(
                    Token::OpenBrace
                    | Token::OpenBracket
                    | Token::String(_)
                    | Token::Boolean(_)
                    | Token::Number(_)
                    | Token::Null,
                ) => return Err(fault(end, &ParseErrorKind::ExpectedComma)),
                other => other,
            };
        }
    }
}

fn refused(error: &ParseError) -> Fault {
    fault(error.range().start, error.kind())
}

fn fault(at: usize, kind: &ParseErrorKind) -> Fault {
    let what = kind.to_string();
    let (first, rest) = what.split_at(what.chars().next().map_or(0, char::len_utf8));
    Fault::new(at, first.to_lowercase() + rest)
}

/// Returns `words` as a JSON string.
pub(crate) fn text_of(words: &str) -> String {
    let mut text = String::with_capacity(words.len() + 2);
    text.push('"');
    for char in words.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            '\n' => text.push_str("\\n"),
            '\0'..' ' => text.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => text.push(char),
        }
    }
    text.push('"');
    text
}

/// Returns the string at the beginning of `text`, and its length in bytes.
pub(crate) fn leading_text(text: &str) -> Option<(String, usize)> {
    let mut scanner = Scanner::new(text, &OPTIONS);
    match scanner.scan() {
        Ok(Some(Token::String(words))) => Some((words.into_owned(), scanner.token_end())),
        _ => None,
    }
}

/// Returns the place at which `text` opens an object or a list inside [`MAX_DEPTH`] others.
fn too_deep(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(next) = bracket(text, at) {
        match text[next] {
            b'{' | b'[' if depth == MAX_DEPTH => return Some(next),
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        at = next + 1;
    }
    None
}

/// Returns the first bracket at or after `at` that is outside of strings and comments.
fn bracket(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += text.get(at..)?.iter().position(|&byte| MARKS[usize::from(byte)])?;
        match text[at] {
            b'"' | b'\'' | b'/' => at = after(text, at),
            _ => return Some(at),
        }
    }
}

/// The bytes that are brackets, or that begin a string or a comment.
const MARKS: [bool; 256] = {
    let (mut marks, mut at) = ([false; 256], 0);
    let all = b"{}[]\"'/";
    while at < all.len() {
        marks[all[at] as usize] = true;
        at += 1;
    }
    marks
};

/// Returns the offset after the comment, string or byte that begins at `at`.
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

/// Returns the end in `text` of the string that began with `quote`.
fn closing(quote: u8, text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Returns the place of the next token at or after `at` in a valid text.
fn token(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            Some(b'/') => at = after(text, at),
            // Outside of strings and comments, only white space is not ASCII.
            Some(0..=b' ' | 0x80..) => at += 1,
            _ => return at,
        }
    }
}

/// A value in a valid text: the place where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'v> {
    text: &'v str,
    at: usize,
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'v> {
    /// The place of the key.
    pub(crate) at: usize,
    pub(crate) value: Node<'v>,
}

impl<'v> Member<'v> {
    pub(crate) fn key(self) -> Cow<'v, str> {
        Node { at: self.at, ..self.value }.unquoted()
    }
}

/// The members of an object in order.
#[derive(Clone, Debug)]
pub(crate) struct Members<'v> {
    text: &'v str,
    /// The place to continue at, or the current value. Its end is found when the next member is requested.
    at: usize,
    last: Option<Node<'v>>,
}

impl<'v> Iterator for Members<'v> {
    type Item = Member<'v>;

    fn next(&mut self) -> Option<Member<'v>> {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let at = element(bytes, self.last.map_or(self.at, Node::end))?;
        let end = after(bytes, at);
        let colon = token(bytes, end);
        // A comma or a brace follows a key without a value, and neither begins a value.
        let value = if bytes[colon] == b':' { token(bytes, colon + 1) } else { end };
        let value = Node { text, at: value };
        self.last = Some(value);
        Some(Member { at, value })
    }
}

/// An index of the keys of an object by name. Each key takes 12 bytes.
#[derive(Debug)]
pub(crate) struct Keys<'v> {
    text: &'v str,
    places: Vec<u32>,
    /// The hash and the number of each key, sorted by hash.
    hashes: Vec<(u32, u32)>,
}

impl<'v> Keys<'v> {
    pub(crate) fn of(members: Members<'v>) -> Keys<'v> {
        let text = members.text;
        let places: Vec<u32> = members.map(|member| place(member.at)).collect();
        let key = |&at: &u32| hash(&Node { text, at: at as usize }.unquoted());
        let mut hashes: Vec<_> = places.iter().map(key).zip(0..).collect();
        hashes.sort_unstable();
        Keys { text, places, hashes }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the places of the members with this `key`, in order.
    pub(crate) fn places(&self, key: &str) -> impl Iterator<Item = usize> {
        self.alike(key).map(|nth| self.places[nth as usize] as usize)
    }

    /// Returns the number of the member with this `key`, counted from 0 in the order of the object.
    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        self.alike(key).next()
    }

    fn alike(&self, key: &str) -> impl Iterator<Item = u32> {
        let hash = hash(key);
        let first = self.hashes.partition_point(|&(other, _)| other < hash);
        let alike = self.hashes[first..].iter().take_while(move |&&(other, _)| other == hash);
        alike.map(|&(_, nth)| nth).filter(move |&nth| self.at(nth).unquoted() == key)
    }

    /// Returns all keys.
    pub(crate) fn names(&self) -> Vec<String> {
        (0..self.len() as u32).map(|nth| self.at(nth).unquoted().into_owned()).collect()
    }

    fn at(&self, nth: u32) -> Node<'v> {
        Node { text: self.text, at: self.places[nth as usize] as usize }
    }
}

/// Returns a place in 32 bits.
fn place(at: usize) -> u32 {
    u32::try_from(at).expect("the text has at most 500 MB")
}

/// The elements of a list in order.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'v> {
    text: &'v str,
    /// The place to continue at.
    at: usize,
}

impl<'v> Iterator for Elements<'v> {
    type Item = Node<'v>;

    fn next(&mut self) -> Option<Node<'v>> {
        let at = element(self.text.as_bytes(), self.at)?;
        let node = Node { text: self.text, at };
        self.at = node.end();
        Some(node)
    }
}

/// Returns the begin of the next element or member, after the opening bracket or after the one that ends at `at`.
fn element(text: &[u8], at: usize) -> Option<usize> {
    let mut at = token(text, at);
    if text[at] == b',' {
        at = token(text, at + 1);
    }
    (!b"]}".contains(&text[at])).then_some(at)
}

impl<'v> Node<'v> {
    /// Returns the begin of the value. The value of a key that stands alone begins after the key.
    pub(crate) fn at(self) -> usize {
        self.at
    }

    fn first(self) -> u8 {
        self.text.as_bytes()[self.at]
    }

    /// Returns whether this is the value of a key that stands alone.
    pub(crate) fn is_absent(self) -> bool {
        b",}".contains(&self.first()) || !self.is_object() && self.end() == self.at
    }

    /// Returns the text of the value.
    pub(crate) fn source(self) -> &'v str {
        &self.text[self.at..self.end()]
    }

    /// Returns the end of the value.
    fn end(self) -> usize {
        let text = self.text.as_bytes();
        match self.first() {
            b'{' | b'[' => {
                let (mut depth, mut at) = (1, self.at + 1);
                while depth > 0 {
                    let Some(next) = bracket(text, at) else { return text.len() };
                    if b"{[".contains(&text[next]) {
                        depth += 1;
                    } else {
                        depth -= 1;
                    }
                    at = next + 1;
                }
                at
            }
            b'"' | b'\'' => after(text, self.at),
            _ => self.at + self.word().len(),
        }
    }

    /// Returns the number or word that begins here. It is empty for the value of a key that stands alone.
    fn word(self) -> &'v str {
        let rest = &self.text[self.at..];
        let within = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let end = rest.bytes().position(|byte| !within(byte)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Returns the string that begins here, with its escapes resolved.
    fn unquoted(self) -> Cow<'v, str> {
        let rest = &self.text[self.at..];
        let raw = &rest[1..after(rest.as_bytes(), 0) - 1];
        if !raw.as_bytes().contains(&b'\\') {
            return Cow::Borrowed(raw);
        }
        match Scanner::new(rest, &OPTIONS).scan() {
            Ok(Some(Token::String(text))) => text,
            _ => unreachable!("the text is sound"),
        }
    }

    /// Returns the error that another kind of value is expected: "a string".
    pub(crate) fn expected(self, what: &str) -> Fault {
        Fault::new(self.at(), format!("expected {what}, found {}", self.shown()))
    }

    pub(crate) fn is_text(self) -> bool {
        b"\"'".contains(&self.first())
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self.first(), b'-' | b'0'..=b'9')
    }

    pub(crate) fn is_object(self) -> bool {
        self.first() == b'{'
    }

    pub(crate) fn is_list(self) -> bool {
        self.first() == b'['
    }

    pub(crate) fn text(self) -> Result<Cow<'v, str>, Fault> {
        if self.is_text() { Ok(self.unquoted()) } else { Err(self.expected("a string")) }
    }

    pub(crate) fn boolean(self) -> Result<bool, Fault> {
        match self.first() {
            b't' => Ok(true),
            b'f' => Ok(false),
            _ => Err(self.expected("true or false")),
        }
    }

    /// Returns the integer, if it is in `range`. `what` names it in the error: "a nice value".
    pub(crate) fn integer(self, what: &str, range: RangeInclusive<i64>) -> Result<i64, Fault> {
        self.checked(what, range, Some)
    }

    /// Returns the integer, if it is in `range`, which has no negative numbers.
    pub(crate) fn natural(self, what: &str, range: RangeInclusive<u32>) -> Result<u32, Fault> {
        let (low, high) = range.into_inner();
        self.checked(what, low.into()..=high.into(), |number| u32::try_from(number).ok())
    }

    /// Returns the integer converted by `make`, if it is in the range of `tunable`.
    pub(crate) fn checked_of<T>(
        self,
        tunable: &Tunable,
        make: impl Fn(i64) -> Option<T>,
    ) -> Result<T, Fault> {
        match tunable.takes {
            Takes::Integer { unit, low, high } => self.checked(unit, low..=high, make),
            _ => unreachable!("{} is no integer", tunable.path),
        }
    }

    /// Returns the integer converted by `make`, if it is in `range`.
    pub(crate) fn checked<T>(
        self,
        what: &str,
        range: RangeInclusive<i64>,
        make: impl Fn(i64) -> Option<T>,
    ) -> Result<T, Fault> {
        let number = if self.is_number() { self.word().parse().ok() } else { None };
        number.filter(|number| range.contains(number)).and_then(make).ok_or_else(|| {
            let (low, high) = range.into_inner();
            self.expected(&format!("{what}, an integer of {low} to {high}"))
        })
    }

    /// Returns a number above 0 and up to 1, in millionths. `what` names it in the error.
    pub(crate) fn millionths(self, what: &str) -> Result<u32, Fault> {
        let what = format!("{what}, above 0 and at most 1");
        Ok(self.decimal(&what, 1..=1_000_000)? as u32)
    }

    /// Returns a number, in millionths, if these are in `range`. It is exact, with at most six decimals. `what` names it
    /// and the range in the error.
    pub(crate) fn decimal(self, what: &str, range: RangeInclusive<u64>) -> Result<u64, Fault> {
        let number = || {
            let (whole, decimals) = self.word().split_once('.').unwrap_or((self.word(), ""));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if !self.is_number() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
                return None;
            }
            format!("{whole}{decimals:0<6}").parse::<u64>().ok()
        };
        number()
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.expected(&format!("{what}, of six decimals at most")))
    }

    pub(crate) fn list(self) -> Result<Elements<'v>, Fault> {
        match self.first() {
            b'[' => Ok(Elements { text: self.text, at: self.at + 1 }),
            _ => Err(self.expected("a list")),
        }
    }

    /// Returns the members of a value that is known to be an object, in order.
    pub(crate) fn members(self) -> Members<'v> {
        Members { text: self.text, at: self.at + 1, last: None }
    }

    /// Returns the members in order. No key may repeat.
    pub(crate) fn object(self) -> Result<Members<'v>, Fault> {
        self.object_with(|_| false)
    }

    /// Returns the members in order. The keys for which `may_repeat` returns true may repeat.
    pub(crate) fn object_with(
        self,
        may_repeat: impl Fn(&str) -> bool,
    ) -> Result<Members<'v>, Fault> {
        if !self.is_object() {
            return Err(self.expected("an object"));
        }
        let members = self.members();
        match self.repeated(members.clone(), may_repeat) {
            None => Ok(members),
            Some(at) => {
                let key = Node { at, ..self }.unquoted();
                Err(Fault::new(at, format!("the key {} is repeated", quoted(&key))))
            }
        }
    }

    /// Returns the place of the first repeated key among those that may not repeat.
    ///
    /// Only keys with equal hashes are compared, so that an object of millions takes 8 bytes a member.
    fn repeated(self, members: Members<'v>, may_repeat: impl Fn(&str) -> bool) -> Option<usize> {
        let mut keys: Vec<(u32, u32)> = members
            .map(|member| (member.key(), member.at))
            .filter(|(key, _)| !may_repeat(key))
            .map(|(key, at)| (hash(&key), place(at)))
            .collect();
        keys.sort_unstable();
        let alike = keys.chunk_by_mut(|one, next| one.0 == next.0).filter(|alike| alike.len() > 1);
        let key = |&(_, at): &(u32, u32)| Node { at: at as usize, ..self }.unquoted();
        let later = |alike: &mut [(u32, u32)]| {
            alike.sort_by(|one, next| key(one).cmp(&key(next)));
            let equal = alike.windows(2).filter(|pair| key(&pair[0]) == key(&pair[1]));
            equal.map(|pair| pair[1].1 as usize).min()
        };
        alike.filter_map(later).min()
    }

    /// Returns a description for messages: "a list of 3", "the string ...".
    pub(crate) fn shown(self) -> String {
        match self.first() {
            b'{' => "an object".to_owned(),
            b'[' => {
                let list = Elements { text: self.text, at: self.at + 1 };
                format!("a list of {}", list.count())
            }
            b'"' | b'\'' => format!("the string {}", quoted(&self.unquoted())),
            _ if self.is_number() && self.word().len() > 40 => "a longer number".to_owned(),
            _ if self.word().is_empty() => "null".to_owned(),
            _ => self.word().to_owned(),
        }
    }
}

fn hash(key: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node<'_>, Fault> {
        document(text, |key| key == "a" || key == "b\\\"")
    }

    fn refused(text: &str) -> Fault {
        read(text).expect_err(text)
    }

    #[test]
    fn what_json_c_takes_is_taken() {
        let text = "// a\n{ /* [{ */ 'a' : [ 1, 'x', ], \"b\\\"{\" : true, }";
        let members: Vec<_> = read(text).unwrap().object().unwrap().collect();
        assert_eq!(members.iter().map(|m| m.key()).collect::<Vec<_>>(), ["a", "b\"{"]);
        assert_eq!(members[0].at, text.find("'a'").unwrap());
        assert_eq!(members[0].value.list().unwrap().count(), 2);
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
        assert!(read(&nested(MAX_DEPTH)).is_ok());
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
            assert!(read(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn keys_that_need_no_value_may_stand_alone() {
        let text = "{'a' /* , */ , \"b\\\"\" // x\n, 'c': ['a', {'a'}], }";
        let members: Vec<_> = read(text).unwrap().object().unwrap().collect();
        let expected = ["a", "b\"", "c"];
        assert_eq!(members.iter().map(|member| member.key()).collect::<Vec<_>>(), expected);
        let fault = members[0].value.text().unwrap_err();
        assert_eq!(fault, Fault::new(4, "expected a string, found null"));
        for (text, at) in [
            ("{'c'}", 4),
            ("{'c', 'a': 1}", 4),
            ("{'a' 'a'}", 5),
            ("{'a': 1, 'a'", 12),
            ("{'a', , }", 6),
            ("{'a'; }", 4),
        ] {
            assert_eq!(refused(text).at, at, "{text}: {:?}", refused(text));
        }
    }

    #[test]
    fn what_is_behind_a_value_is_found_whatever_it_holds() {
        let odd = "[{'[': \"\\\"}\", /* } */ 'b': [[], {}]} , -1.5e+3/**/,'x\\'],',\u{a0}true\u{a0}\x0b, null\n]";
        let found: Vec<_> = read(odd).unwrap().list().unwrap().map(Node::shown).collect();
        assert_eq!(found, ["an object", "-1.5e+3", "the string \"x'],\"", "true", "null"]);
    }

    #[test]
    fn integers_are_integers() {
        let integer = |text: &str| {
            let value = read(text).unwrap();
            value.integer("a number of apples", -5..=10).map_err(|fault| fault.what)
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
    fn parts_are_exact() {
        let parts =
            |text: &str| read(text).unwrap().millionths("a part").map_err(|fault| fault.what);
        assert_eq!(
            (parts("0.6"), parts("1"), parts("1.0")),
            (Ok(600_000), Ok(1_000_000), Ok(1_000_000))
        );
        assert_eq!(parts("0.000001"), Ok(1));
        for text in [
            "0",
            "0.0",
            "1.000001",
            "2",
            "-0.5",
            "0.1234567",
            "6e-1",
            "\"0.6\"",
            "null",
            "99999999999",
        ] {
            let what = parts(text).unwrap_err();
            assert!(what.starts_with("expected a part, above 0 and at most 1"), "{what}");
        }
    }

    #[test]
    fn keys_may_repeat_only_where_that_means_something() {
        let text = "{\"run\": 1, \"r\\u0075n\": 2, \"loop\": 3, \"l\\u006fop\": 4}";
        let value = read(text).unwrap();
        let fault = value.object_with(|key| key == "run").unwrap_err();
        assert_eq!(fault.at, text.find("\"l\\u006fop").unwrap());
        assert_eq!(fault.what, "the key \"loop\" is repeated");
    }
}
