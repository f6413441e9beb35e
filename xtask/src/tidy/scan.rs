//! The declarations, imports and names in the text of one Rust file, without its tests.
//!
//! Tokens are enough: paths look the same in a macro's arguments as elsewhere, and there a syntax tree has only tokens,
//! too.

use std::collections::BTreeSet;

use super::rust;

/// The contents of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Its imports.
    pub imports: Vec<Import>,
    /// The paths of several parts that it names elsewhere.
    pub paths: Vec<Named>,
    /// The words outside imports, except methods, fields, and the names of modules where they begin.
    pub words: BTreeSet<String>,
    /// The modules in the file itself, each by its path from the file's module.
    pub inline: Vec<Vec<String>>,
    /// The modules in files of their own that are compiled only for tests.
    pub test_modules: Vec<String>,
}

/// One name that a `use` imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The imported path; for a star the module.
    pub path: Named,
    /// Its local name; `None` for a star.
    pub name: Option<String>,
    /// Whether other modules may import it from here.
    pub public: bool,
}

/// A path at the place where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The module within the file, relative to the file's own.
    pub inside: Vec<String>,
    /// The parts.
    pub parts: Vec<String>,
    /// The line, from 1.
    pub line: usize,
}

/// Reads a file.
#[must_use]
pub fn scan(text: &str) -> Scanned {
    let tokens = tokens(text);
    let mut scanner =
        Scanner { tokens: &tokens, at: 0, inside: vec![], depth: 0, found: Scanned::default() };
    while scanner.at < tokens.len() {
        scanner.step();
    }
    scanner.found
}

/// A word, a `::`, or one character of anything else.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    line: usize,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for line in rust::lines(text) {
        let mut rest = line.code.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            let text = rest[..length].to_owned();
            // Text in quotes is no code.
            if first != '~' && first != '"' {
                tokens.push(Token { text, line: line.number });
            }
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scanner<'a> {
    tokens: &'a [Token],
    at: usize,
    /// The open modules, each with the depth of braces around it.
    inside: Vec<(String, usize)>,
    depth: usize,
    found: Scanned,
}

impl Scanner<'_> {
    fn step(&mut self) {
        match self.text(0) {
            "#" => self.attribute(),
            "mod" if self.text(2) == "{" => self.open_module(),
            "use" if self.text(1) != "<" => self.import(),
            "{" => self.open(),
            "}" => self.close(),
            word if word.starts_with(is_word) => self.word(),
            _ => self.at += 1,
        }
    }

    /// The token at this distance; empty after the last.
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| &token.text)
    }

    fn before(&self, back: usize) -> &str {
        self.at.checked_sub(back).map_or("", |at| &self.tokens[at].text)
    }

    fn open(&mut self) {
        self.depth += 1;
        self.at += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.inside.pop_if(|(_, depth)| *depth == self.depth);
        self.at += 1;
    }

    fn open_module(&mut self) {
        self.inside.push((self.text(1).to_owned(), self.depth));
        self.found.inline.push(self.module());
        self.at += 2;
    }

    fn module(&self) -> Vec<String> {
        self.inside.iter().map(|(name, _)| name.clone()).collect()
    }

    fn named(&self, parts: Vec<String>) -> Named {
        Named { inside: self.module(), parts, line: self.tokens[self.at].line }
    }

    /// Reads a word, and the rest of the path that it begins.
    fn word(&mut self) {
        if matches!(self.before(1), "." | "mod") {
            self.at += 1;
            return;
        }
        let rooted = self.before(1) == "::";
        let mut parts = vec![self.text(0).to_owned()];
        while self.text(2 * parts.len() - 1) == "::"
            && self.text(2 * parts.len()).starts_with(is_word)
        {
            parts.push(self.text(2 * parts.len()).to_owned());
        }
        let tokens = 2 * parts.len() - 1;
        if !rooted {
            self.found.words.insert(parts[0].clone());
            // `pub(in a::b)` names a module without a use of it.
            if parts.len() > 1 && (self.before(2), self.before(1)) != ("(", "in") {
                self.found.paths.push(self.named(parts));
            }
        }
        self.at += tokens;
    }

    /// Reads `#[..]` or `#![..]`, and skips an item that is only for tests.
    fn attribute(&mut self) {
        let open = if self.text(1) == "!" { 2 } else { 1 };
        if self.text(open) != "[" {
            self.at += 1;
            return;
        }
        let from = self.at;
        self.at += open;
        self.skip_group();
        if is_for_tests(&self.tokens[from..self.at]) {
            self.skip_item();
        }
    }

    /// Skips the contents of a bracket of any kind, and both brackets.
    fn skip_group(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips an item or a field, with its further attributes.
    fn skip_item(&mut self) {
        while self.text(0) == "#" {
            self.at += 1;
            self.skip_group();
        }
        if self.text(0) == "mod" && self.text(2) == ";" {
            let name = self.text(1).to_owned();
            self.found.test_modules.push(name);
        }
        let (import, field) = (self.text(0) == "use", self.text(1) == ":");
        while self.at < self.tokens.len() {
            match self.text(0) {
                "}" => return,
                "," if field => return,
                ";" => return self.at += 1,
                "{" if !import => return self.skip_group(),
                "(" | "[" | "{" => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    fn import(&mut self) {
        let public = self.before(1) == "pub" || self.before(1) == ")" && self.before(4) == "pub";
        self.at += 1;
        self.tree(&[], public);
    }

    /// Reads one tree of a `use`, after the parts of the trees around it.
    fn tree(&mut self, around: &[String], public: bool) {
        let mut parts = around.to_vec();
        loop {
            match self.text(0) {
                "::" => self.at += 1,
                "{" => return self.trees(&parts, public),
                "*" => {
                    let path = self.named(parts);
                    self.found.imports.push(Import { path, name: None, public });
                    return self.at += 1;
                }
                word if word.starts_with(is_word) && word != "as" => {
                    parts.push(word.to_owned());
                    self.at += 1;
                }
                _ => return self.leaf(parts, public),
            }
        }
    }

    fn trees(&mut self, around: &[String], public: bool) {
        self.at += 1;
        while self.at < self.tokens.len() && self.text(0) != "}" {
            match self.text(0) {
                "," => self.at += 1,
                _ => self.tree(around, public),
            }
        }
        self.at += 1;
    }

    fn leaf(&mut self, mut parts: Vec<String>, public: bool) {
        if parts.len() > 1 && parts.last().is_some_and(|last| last == "self") {
            parts.pop();
        }
        let mut name = parts.last().cloned();
        self.at = self.at.min(self.tokens.len() - 1);
        let path = self.named(parts);
        if self.text(0) == "as" {
            name = Some(self.text(1).to_owned());
            self.at += 2;
        } else if !matches!(self.text(0), "," | "}") {
            self.at += 1;
        }
        self.found.imports.push(Import { path, name, public });
    }
}

/// Whether an attribute keeps the next item for tests: `cfg(test)`, also with other conditions.
fn is_for_tests(attribute: &[Token]) -> bool {
    let mut around = Vec::new();
    let mut last = "";
    for Token { text, .. } in attribute {
        match text.as_str() {
            "(" => around.push(last),
            ")" => drop(around.pop()),
            "test" => {
                return around.first() == Some(&"cfg") && around[1..].iter().all(|&of| of == "all");
            }
            _ => {}
        }
        last = text;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports and paths as `inside | path = name`, or `inside | path`.
    fn found(text: &str) -> Vec<String> {
        let shown =
            |named: &Named| format!("{}|{}", named.inside.join("::"), named.parts.join("::"));
        let scanned = scan(text);
        let imports = scanned.imports.iter().map(|import| {
            let public = if import.public { "pub " } else { "" };
            format!("{public}{}={}", shown(&import.path), import.name.as_deref().unwrap_or("*"))
        });
        imports.chain(scanned.paths.iter().map(shown)).collect()
    }

    #[test]
    fn a_tree_of_imports_is_its_leaves() {
        let text = "use a::{self, b as c, d::{E, f::*}};\npub(crate) use g::H;\nfn i() {}";
        let leaves = ["|a=a", "|a::b=c", "|a::d::E=E", "|a::d::f=*", "pub |g::H=H"];
        assert_eq!(found(text), leaves);
    }

    #[test]
    fn a_path_is_found_wherever_it_is_code() {
        let text =
            "// a::b\nfn f(c: &d::E<g::H>) { write!(\"i::j {}\", k::l()); m.n::<O>(); ::p::q() }";
        assert_eq!(found(text), ["|d::E", "|g::H", "|k::l"]);
        assert_eq!(found("pub(in a::b) fn f() { for x in c::d() {} }"), ["|c::d"]);
        assert_eq!(scan("a::b\n\n + c::d").paths[1].line, 3);
        let words = scan("a.b(c)").words;
        assert!(words.contains("a") && words.contains("c") && !words.contains("b"));
    }

    #[test]
    fn a_module_in_a_file_ends_with_its_brace() {
        let text = "mod a { use super::B; mod c { x::y!() } }\nuse d::E;\nmod f;";
        assert_eq!(found(text), ["a|super::B=B", "|d::E=E", "a::c|x::y"]);
        assert_eq!(scan(text).inline, [vec!["a"], vec!["a", "c"]]);
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let text = "#[cfg(test)]\nuse a::{b, c};\n#[cfg(all(test, not(any(loom, shuttle))))]\n#[d(e)]\n\
                    mod f {\n fn g() { h::i } }\nuse j::K;\n#[cfg(test)]\nmod l;\nuse m::N;";
        assert_eq!(found(text), ["|j::K=K", "|m::N=N"]);
        assert_eq!(scan(text).test_modules, ["l"]);
        let text = "struct A { #[cfg(test)] b: c::D, e: f::G }\n#[cfg(not(test))]\nuse h::I;\n\
                    #[cfg(any(test, fuzzing))]\nuse j::K;";
        assert_eq!(found(text), ["|h::I=I", "|j::K=K", "|f::G"]);
    }
}
