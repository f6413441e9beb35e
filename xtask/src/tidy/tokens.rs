//! The tokens of Rust text. Comments and texts in quotes are no code, and the compiler's own lexer knows where they
//! end.
//!
//! Tokens are enough for the rules: a macro's arguments have no other form in a syntax tree either.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Whether this token is the punctuation `sign`.
#[must_use]
pub fn is(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The word that this token is: a name or a keyword.
#[must_use]
pub fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// The brackets of this kind that this token is.
#[must_use]
pub fn group(token: Option<&TokenTree>, kind: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == kind => Some(group),
        _ => None,
    }
}

/// The first line of a token, from 1.
#[must_use]
pub fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// All tokens in brackets and outside, each as its text with its line. A bracket is its opening sign.
#[must_use]
pub fn flat(tokens: TokenStream) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    for token in tokens {
        let line = line(&token);
        match token {
            TokenTree::Group(group) => {
                let sign = match group.delimiter() {
                    Delimiter::Parenthesis => "(",
                    Delimiter::Bracket => "[",
                    Delimiter::Brace => "{",
                    Delimiter::None => "",
                };
                all.push((sign.to_owned(), line));
                all.extend(flat(group.stream()));
            }
            other => all.push((other.to_string(), line)),
        }
    }
    all
}

/// The attribute in front of `tokens`, and the number of its tokens.
#[must_use]
pub fn attribute(tokens: &[TokenTree]) -> Option<(&Group, usize)> {
    let length = if is(tokens.get(1), '!') { 3 } else { 2 };
    let brackets = group(tokens.get(length - 1), Delimiter::Bracket)?;
    is(tokens.first(), '#').then_some((brackets, length))
}

/// Whether an attribute keeps the next item for tests: `cfg(test)`, also with other conditions.
#[must_use]
pub fn is_for_tests(attribute: TokenStream) -> bool {
    let tokens: Vec<_> = attribute.into_iter().collect();
    tokens.windows(2).any(|pair| {
        let all = word(pair.first()).is_some_and(|word| word == "cfg" || word == "all");
        let inside = group(pair.get(1), Delimiter::Parenthesis).filter(|_| all);
        inside.map(Group::stream).is_some_and(|inside| {
            let test = |token: TokenTree| word(Some(&token)).is_some_and(|word| word == "test");
            is_for_tests(inside.clone()) || inside.into_iter().any(test)
        })
    })
}

/// The number of tokens of the item or the field in front of `tokens`, with its further attributes.
#[must_use]
pub fn item(tokens: &[TokenTree]) -> usize {
    let mut start = 0;
    while let Some((_, length)) = attribute(&tokens[start..]) {
        start += length;
    }
    let import = word(tokens.get(start)).is_some_and(|word| word == "use");
    let field = is(tokens.get(start + 1), ':');
    let ends = |token: &TokenTree| {
        let body = group(Some(token), Delimiter::Brace).is_some() && !import;
        is(Some(token), ';') || body || field && is(Some(token), ',')
    };
    let end = tokens[start..].iter().position(ends);
    end.map_or(tokens.len(), |end| start + end + 1)
}

/// The lines with code of `text`, whose tokens are given: no blank lines, no comments, and modules of tests only if
/// they are asked for.
#[must_use]
pub fn code_lines(tokens: TokenStream, text: &str, tests: bool) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    add_code(tokens, tests, &mut lines);
    let blank = text.lines().zip(1..).filter(|(text, _)| text.trim().is_empty());
    let blank: BTreeSet<usize> = blank.map(|(_, line)| line).collect();
    &lines - &blank
}

fn add_code(tokens: TokenStream, tests: bool, lines: &mut BTreeSet<usize>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let span = token.span();
        if let Some((brackets, length)) = attribute(&tokens[at..]) {
            let after = at + length;
            let item = &tokens[after..][..item(&tokens[after..])];
            let is_module = item.iter().any(|token| word(Some(token)).as_deref() == Some("mod"));
            // A comment that is documentation has the form of an attribute, and all of it the same place.
            if brackets.span().start() == span.start() {
                at = after;
                continue;
            }
            if !tests && is_module && is_for_tests(brackets.stream()) {
                at = after + item.len();
                continue;
            }
        }
        match token {
            TokenTree::Group(group) => {
                lines.extend([span.start().line, span.end().line]);
                add_code(group.stream(), tests, lines);
            }
            _ => lines.extend(span.start().line..=span.end().line),
        }
        at += 1;
    }
}
