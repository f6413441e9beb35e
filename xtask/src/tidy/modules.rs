//! The uses of items between the files of a crate.
//!
//! A file uses its imports, and the paths of several parts that it names. A path is followed through the modules, and
//! through the imports of the module that it reaches: an item that a module only passes on (`pub use`) counts where it
//! is defined. Tests are left out; they may use anything. A method call has no path, so a use by methods alone is not
//! seen. A module with `#[path]` is not seen either.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens::{self, attribute, group, is, is_for_tests, word};
use super::tree::{File, Tree, crate_of};

/// A use of an item in another file of the same crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The place of the using file.
    pub from: Place,
    /// The place of the file that defines the item.
    pub to: Place,
    /// The item; a star for all items.
    pub item: String,
    /// The line in the using file, from 1.
    pub line: usize,
}

/// The place of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its folders below `src`, and its name without the ending. A module that has modules in other files counts as
    /// `mod` in their folder, wherever the file system has it.
    pub parts: Vec<String>,
    /// Its path, relative to the root.
    pub path: String,
}

/// The names of a module and of its parents, from the root of the crate.
type Module = Vec<String>;

/// A path of several parts, at the place where it is named.
#[derive(Clone, Debug)]
pub struct Named {
    /// The parts.
    pub parts: Vec<String>,
    /// The line, from 1.
    pub line: usize,
    /// The module around it.
    module: Module,
}

/// One name that a `use` imports.
#[derive(Clone, Debug)]
struct Import {
    /// The imported path; for a star the module.
    path: Named,
    /// Its local name; `None` for a star.
    name: Option<String>,
    /// Whether other modules may import it from here.
    public: bool,
}

/// A file of the crate, without its tests.
#[derive(Default)]
struct Source {
    path: String,
    module: Module,
    imports: Vec<Import>,
    /// The paths that it names elsewhere.
    paths: Vec<Named>,
    /// The words outside imports, except methods, fields, and the names of modules where they begin.
    words: BTreeSet<String>,
    /// The modules in the file itself.
    inline: Vec<Module>,
    /// The modules in files of their own that are compiled only for tests.
    tests: Vec<Module>,
}

/// The uses between the files of the crate `name`, without a file's uses of itself.
#[must_use]
pub fn uses(tree: &Tree, name: &str) -> Vec<Use> {
    let sources = sources(tree, name);
    let crate_ = Crate::of(&sources);
    sources.iter().flat_map(|source| crate_.uses_of(source)).collect()
}

/// The paths that a file imports or names, outside its tests.
#[must_use]
pub fn paths(file: &File) -> Vec<Named> {
    let Source { imports, paths, .. } = Source::read(file, vec![]);
    let imports = imports.into_iter().map(|import| import.path);
    let mut all: Vec<_> = imports.chain(paths).collect();
    all.sort_by_key(|path| path.line);
    all
}

/// The files that are compiled without tests. A program beside its library uses the library from outside.
fn sources(tree: &Tree, name: &str) -> Vec<Source> {
    let mut sources = all(tree, name);
    if sources.iter().any(|source| source.path.ends_with("/src/lib.rs")) {
        sources.retain(|source| !source.path.ends_with("/src/main.rs"));
    }
    let tests = tests(&sources);
    sources.retain(|source| !is_below(source, &tests));
    sources
}

/// The paths of the crate's files that are compiled only for tests.
#[must_use]
pub fn test_files(tree: &Tree, name: &str) -> Vec<String> {
    let sources = all(tree, name);
    let tests = tests(&sources);
    let files = sources.into_iter().filter(|source| is_below(source, &tests));
    files.map(|source| source.path).collect()
}

fn tests(sources: &[Source]) -> Vec<Module> {
    sources.iter().flat_map(|source| source.tests.clone()).collect()
}

fn is_below(source: &Source, modules: &[Module]) -> bool {
    modules.iter().any(|module| source.module.starts_with(module))
}

fn all(tree: &Tree, name: &str) -> Vec<Source> {
    let source = |file: &File| {
        let (_, path) = crate_of(file).filter(|(of, _)| *of == name)?;
        Some(Source::read(file, module(path.strip_prefix("src/")?)?))
    };
    tree.with_extension("rs").filter_map(source).collect()
}

/// The module of a file, by its path below `src`; `None` for one of several programs.
fn module(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Some(vec![]),
        _ if path.starts_with("bin/") => None,
        _ => Some(path.split('/').map(str::to_owned).collect()),
    }
}

fn child(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

impl Source {
    fn read(file: &File, module: Module) -> Source {
        let mut source = Source { path: file.path.clone(), module, ..Source::default() };
        source.scan(file.tokens(), &source.module.clone());
        source
    }

    fn scan(&mut self, tokens: TokenStream, module: &Module) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += match token {
                TokenTree::Punct(_) => self.punctuation(&tokens[at..], module),
                TokenTree::Ident(_) => self.word(&tokens, at, module),
                TokenTree::Group(group) => {
                    // `pub(in a::b)` names a module without a use of it.
                    let visibility = word(group.stream().into_iter().next().as_ref());
                    if visibility.as_deref() != Some("in") {
                        self.scan(group.stream(), module);
                    }
                    1
                }
                TokenTree::Literal(_) => 1,
            };
        }
    }

    /// Reads the sign in front of `tokens`, and returns the number of tokens that it ends.
    fn punctuation(&mut self, tokens: &[TokenTree], module: &Module) -> usize {
        if let Some((brackets, length)) = attribute(tokens) {
            let tests = is_for_tests(brackets.stream());
            return length + if tests { self.tests(&tokens[length..], module) } else { 0 };
        }
        // A method, a field, or the rest of a path that does not begin with a name.
        let member = is(tokens.first(), '.') && word(tokens.get(1)).is_some();
        let rooted = is(tokens.first(), ':') && is(tokens.get(1), ':');
        match (member, rooted) {
            (true, _) => 2,
            (_, true) => 2 + path(&tokens[2..]).1,
            _ => 1,
        }
    }

    /// Skips the item in front of `tokens`, which is for tests only.
    fn tests(&mut self, tokens: &[TokenTree], module: &Module) -> usize {
        let length = tokens::item(tokens);
        let words: Vec<_> = tokens[..length].iter().map(|token| word(Some(token))).collect();
        if let [.., Some(keyword), Some(name), None] = &words[..] {
            self.tests.extend((keyword == "mod").then(|| child(module, name)));
        }
        length
    }

    /// Reads the word at `at`, and returns the number of tokens that begin with it.
    fn word(&mut self, tokens: &[TokenTree], at: usize, module: &Module) -> usize {
        let here = &tokens[at..];
        let first = word(here.first()).unwrap_or_default();
        let named = |parts| Named { parts, line: tokens::line(&here[0]), module: module.clone() };
        match (first.as_str(), word(here.get(1)), group(here.get(2), Delimiter::Brace)) {
            ("mod", Some(name), Some(body)) => {
                let inner = child(module, &name);
                self.scan(body.stream(), &inner);
                self.inline.push(inner);
                3
            }
            ("mod", Some(_), None) => 2,
            ("use", ..) if !is(here.get(1), '<') => {
                let before = tokens[at.saturating_sub(2)..at].iter();
                let public = before.filter_map(|token| word(Some(token))).any(|word| word == "pub");
                let length = tokens::item(here);
                self.import(&here[1..length], &named(vec![]), public);
                length
            }
            _ => {
                let (parts, length) = path(here);
                self.paths.extend((parts.len() > 1).then(|| named(parts)));
                self.words.insert(first);
                length
            }
        }
    }

    /// Reads the trees of a `use`, after the parts `around` them.
    fn import(&mut self, trees: &[TokenTree], around: &Named, public: bool) {
        for tree in trees.split(|token| is(Some(token), ',')).filter(|tree| !tree.is_empty()) {
            let mut path = Named { line: tokens::line(&tree[0]), ..around.clone() };
            let mut words = tree.iter().filter_map(|token| word(Some(token))).peekable();
            path.parts.extend(std::iter::from_fn(|| words.next_if(|part| part != "as")));
            if let Some(inner) = tree.iter().find_map(|it| group(Some(it), Delimiter::Brace)) {
                self.import(&inner.stream().into_iter().collect::<Vec<_>>(), &path, public);
                continue;
            }
            if matches!(&path.parts[..], [_, .., last] if last == "self") {
                path.parts.pop();
            }
            let star = tree.iter().any(|token| is(Some(token), '*'));
            let name = words.nth(1).or_else(|| path.parts.last().cloned()).filter(|_| !star);
            self.imports.push(Import { path, name, public });
        }
    }
}

/// The path in front of `tokens`, and the number of its tokens.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut parts: Vec<_> = word(tokens.first()).into_iter().collect();
    let mut length = parts.len();
    while let [first, second, third, ..] = &tokens[length..]
        && is(Some(first), ':')
        && is(Some(second), ':')
        && let Some(part) = word(Some(third))
    {
        parts.push(part);
        length += 3;
    }
    (parts, length)
}

/// The largest number of imports that are followed from a name. Imports can form a circle.
const LONGEST_WAY: usize = 16;

/// The tables in which the paths of a crate are looked up.
struct Crate {
    /// All modules, each with the place of its file.
    modules: BTreeMap<Module, Place>,
    /// The imports of each module, by their local names.
    imports: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

/// The meaning of a path within the crate.
struct Meaning {
    module: Module,
    /// The item in the module; `None` if the path names the module.
    item: Option<String>,
}

impl Crate {
    fn of(sources: &[Source]) -> Crate {
        let mut crate_ = Crate { modules: BTreeMap::new(), imports: BTreeMap::new() };
        for source in sources {
            let place = place(source, sources);
            for module in source.inline.iter().chain([&source.module]) {
                crate_.modules.insert(module.clone(), place.clone());
            }
            for Import { path, name, .. } in &source.imports {
                let names = crate_.imports.entry(path.module.clone()).or_default();
                names.extend(name.clone().map(|name| (name, path.parts.clone())));
            }
        }
        crate_
    }

    fn uses_of(&self, source: &Source) -> Vec<Use> {
        // Passing an item on is no use of it.
        let used = |import: &&Import| {
            !import.public || import.name.as_ref().is_some_and(|name| source.words.contains(name))
        };
        let imported = source.imports.iter().filter(used).filter_map(|import| {
            let Meaning { module, item } = self.meant(&import.path)?;
            // The import of a module is no use of it; naming an item in it is.
            let item = item.or_else(|| import.name.is_none().then(|| "*".to_owned()))?;
            self.use_of(source, &module, item, import.path.line)
        });
        let named = source.paths.iter().filter_map(|path| {
            let Meaning { module, item } = self.meant(path)?;
            let (last, around) = match &item {
                Some(item) => (item, &module[..]),
                // A path does not end in a module, so its last part means something else of the same name.
                None => module.split_last()?,
            };
            self.use_of(source, around, last.clone(), path.line)
        });
        imported.chain(named).collect()
    }

    fn use_of(&self, source: &Source, module: &[String], item: String, line: usize) -> Option<Use> {
        let place = |module| self.modules.get(module).cloned();
        let (from, to) = (place(&source.module[..])?, place(module)?);
        (from != to).then_some(Use { from, to, item, line })
    }

    fn meant(&self, path: &Named) -> Option<Meaning> {
        self.meaning(path.module.clone(), &path.parts, LONGEST_WAY)
    }

    /// The meaning of `parts` in `module`, unless it is in another crate. `way` is the number of imports that may be
    /// followed.
    fn meaning(&self, module: Module, parts: &[String], way: usize) -> Option<Meaning> {
        let first = parts.first()?;
        let up = parts.iter().take_while(|part| *part == "super").count();
        let (module, rest) = match first.as_str() {
            "crate" => (vec![], &parts[1..]),
            "self" => (module, &parts[1..]),
            "super" => (module[..module.len().checked_sub(up)?].to_vec(), &parts[up..]),
            // The name belongs to no module of this crate, or to none in this file.
            _ if !self.is_known(&module, first) => return None,
            _ => (module, parts),
        };
        let mut meant = Meaning { module, item: None };
        for (at, part) in rest.iter().enumerate() {
            if meant.item.is_some() {
                break;
            }
            meant = self.looked_up(meant.module, part, at + 1 == rest.len(), way)?;
        }
        Some(meant)
    }

    /// Whether `name` alone means a module or an import in `module`.
    fn is_known(&self, module: &Module, name: &str) -> bool {
        let imported = self.imports.get(module).is_some_and(|names| names.contains_key(name));
        imported || self.modules.contains_key(&child(module, name))
    }

    /// The meaning of `name` in `module`: a module in it, an import, or an item that it defines. If an import and a
    /// module have the same name, the last name of a path means the import.
    fn looked_up(&self, module: Module, name: &str, is_last: bool, way: usize) -> Option<Meaning> {
        let child = child(&module, name);
        let is_module = self.modules.contains_key(&child);
        match self.imports.get(&module).and_then(|names| names.get(name)) {
            Some(parts) if is_last || !is_module => {
                self.meaning(module, parts, way.checked_sub(1)?)
            }
            _ if is_module => Some(Meaning { module: child, item: None }),
            _ => Some(Meaning { module, item: Some(name.to_owned()) }),
        }
    }
}

fn place(source: &Source, sources: &[Source]) -> Place {
    let Source { module, path, .. } = source;
    let below =
        |other: &Source| other.module.len() > module.len() && other.module.starts_with(module);
    let parts = match sources.iter().any(below) {
        true => child(module, "mod"),
        false => module.clone(),
    };
    Place { parts, path: path.clone() }
}
