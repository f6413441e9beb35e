//! Rust text, line by line, with code and comments apart.
//!
//! Rules about code must not apply to a comment or to a text in quotes; this crate's own tests have many. A syntax tree
//! would lose the comments and the lines, so this is a lexer of the four things that can hide code: comments, strings,
//! raw strings and character literals.

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// The code, with `~` for every character inside quotes. A line of a long string is a line of code, but its words
    /// are no code.
    pub code: String,
    /// The comments.
    pub comment: String,
}

impl Line {
    /// Whether the line has code.
    #[must_use]
    pub fn has_code(&self) -> bool {
        !self.code.trim().is_empty()
    }
}

/// The lines of `text`.
#[must_use]
pub fn lines(text: &str) -> Vec<Line> {
    let mut lexer = Lexer { rest: text, mode: Mode::Code, line: Line::default(), lines: vec![] };
    while let Some(next) = lexer.rest.chars().next() {
        lexer.step(next);
    }
    if !text.ends_with('\n') {
        lexer.end_line();
    }
    lexer.lines
}

/// The lines before the module of tests that ends a file, or all of them if none does.
#[must_use]
pub fn without_tests(lines: &[Line]) -> &[Line] {
    let starts = |pair: &[Line]| {
        pair[0].code.starts_with("#[cfg(") && has_test(&pair[0].code) && is_module(&pair[1].code)
    };
    let Some(start) = lines.windows(2).rposition(starts) else { return lines };
    let mut after = lines[start..].iter().skip_while(|line| line.code != "}").skip(1);
    if after.any(Line::has_code) { lines } else { &lines[..start] }
}

fn has_test(attribute: &str) -> bool {
    super::has_word(attribute, "test")
}

fn is_module(code: &str) -> bool {
    code.starts_with("mod ") && code.ends_with('{')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Code,
    LineComment,
    /// A block comment, with its depth of nesting.
    BlockComment(usize),
    Quoted,
    /// A raw string. It ends at a quote with so many `#`.
    Raw(usize),
}

struct Lexer<'a> {
    rest: &'a str,
    mode: Mode,
    line: Line,
    lines: Vec<Line>,
}

impl Lexer<'_> {
    fn step(&mut self, next: char) {
        if next == '\n' {
            if self.mode == Mode::LineComment {
                self.mode = Mode::Code;
            }
            self.end_line();
            self.skip(1);
            return;
        }
        match self.mode {
            Mode::Code => self.code(next),
            Mode::LineComment => self.comment(next.len_utf8()),
            Mode::BlockComment(depth) => self.block_comment(next, depth),
            Mode::Quoted => self.quoted(next),
            Mode::Raw(hashes) => self.raw(next, hashes),
        }
    }

    fn end_line(&mut self) {
        self.line.number = self.lines.len() + 1;
        self.lines.push(std::mem::take(&mut self.line));
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn comment(&mut self, bytes: usize) {
        self.line.comment.push_str(&self.rest[..bytes]);
        self.skip(bytes);
    }

    /// Hides one character inside quotes.
    fn hide(&mut self, next: char) {
        self.line.code.push('~');
        self.skip(next.len_utf8());
    }

    fn code(&mut self, next: char) {
        match next {
            '/' if self.rest.starts_with("//") => self.mode = Mode::LineComment,
            '/' if self.rest.starts_with("/*") => {
                self.mode = Mode::BlockComment(1);
                self.comment(2);
            }
            '\'' => self.character_or_lifetime(),
            _ => {
                if next == '"' {
                    self.mode = opened(&self.line.code);
                }
                self.line.code.push(next);
                self.skip(next.len_utf8());
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        let length = self.character();
        self.line.code.push_str(if length.is_some() { "'~'" } else { "'" });
        self.skip(length.unwrap_or(1));
    }

    /// The length of the character literal here; `None` if the quote starts a lifetime.
    fn character(&self) -> Option<usize> {
        let inside = &self.rest[1..];
        let mut chars = inside.char_indices();
        let first = chars.next().map(|(_, c)| c);
        // After a backslash any one character is taken, as in '\''.
        let from = if first == Some('\\') { chars.nth(1) } else { chars.next() };
        let (from, at) = from?;
        let length = match first {
            Some('\\') => inside[from..].find('\'')?,
            _ => (at == '\'').then_some(0)?,
        };
        Some(1 + from + length + 1)
    }

    fn block_comment(&mut self, next: char, depth: usize) {
        if self.rest.starts_with("/*") {
            self.mode = Mode::BlockComment(depth + 1);
            self.comment(2);
        } else if self.rest.starts_with("*/") {
            self.mode = if depth == 1 { Mode::Code } else { Mode::BlockComment(depth - 1) };
            self.comment(2);
        } else {
            self.comment(next.len_utf8());
        }
    }

    fn quoted(&mut self, next: char) {
        match next {
            '"' => self.close(0),
            '\\' => {
                self.hide(next);
                if let Some(escaped) = self.rest.chars().next().filter(|&c| c != '\n') {
                    self.hide(escaped);
                }
            }
            _ => self.hide(next),
        }
    }

    fn raw(&mut self, next: char, hashes: usize) {
        let closes = |rest: &str| rest[1..].bytes().take_while(|&b| b == b'#').count() >= hashes;
        if next == '"' && closes(self.rest) {
            self.close(hashes);
        } else {
            self.hide(next);
        }
    }

    fn close(&mut self, hashes: usize) {
        self.mode = Mode::Code;
        self.line.code.push_str(&self.rest[..=hashes]);
        self.skip(1 + hashes);
    }
}

/// The mode that a quote opens after this code: `r##` and the like make it raw.
fn opened(code: &str) -> Mode {
    let before = code.trim_end_matches('#');
    let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
    match word {
        Some("r" | "br" | "cr") => Mode::Raw(code.len() - before.len()),
        _ => Mode::Quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_are_apart_from_code() {
        let found = lines("a // b \" c\n/* d /* e */ f\n*/ g");
        assert_eq!(found[0].code, "a ");
        assert_eq!(found[0].comment, "// b \" c");
        assert!(!found[1].has_code());
        assert_eq!((found[2].number, found[2].code.as_str()), (3, " g"));
    }

    #[test]
    fn what_is_in_quotes_is_hidden() {
        assert_eq!(code(r#"f("a\"b//", c)"#), [r#"f("~~~~~~", c)"#]);
        assert_eq!(code("f(\"a\n\nb\")"), ["f(\"~", "", "~\")"]);
        assert_eq!(code("\"a\\\n  b\""), ["\"~~", "~~~\""]);
    }

    #[test]
    fn a_raw_string_ends_at_its_own_hashes() {
        assert_eq!(code("r#\"a\"b\\\"# c"), ["r#\"~~~~\"# c"]);
        assert_eq!(code("br\"\\\" c"), ["br\"~\" c"]);
        assert_eq!(code("number\"a\" c"), ["number\"~\" c"]);
    }

    #[test]
    fn a_lifetime_opens_nothing() {
        assert_eq!(code("f::<'a>('\"', '\\'', '\\u{7f}', b'x') // c")[0].trim_end(), {
            "f::<'a>('~', '~', '~', b'~')"
        });
        assert_eq!(code("<'a, 'b>"), ["<'a, 'b>"]);
    }

    #[test]
    fn only_a_module_of_tests_at_the_end_is_left_out() {
        let with = lines("a\n\n#[cfg(all(test, not(loom)))]\nmod tests {\n    b\n}\n");
        assert_eq!(without_tests(&with).len(), 2);
        let inside = lines("#[cfg(test)]\nmod tests {\n}\nfn a() {}\n");
        assert_eq!(without_tests(&inside).len(), 4);
        let other = lines("#[cfg(loom)]\nmod model {\n}\n");
        assert_eq!(without_tests(&other).len(), 3);
    }
}
