//! The uses of items between the files of a crate.
//!
//! A file uses its imports, and the paths of several parts that it names. A path is followed through the modules, and
//! through the imports of the module that it reaches: an item that a module only passes on (`pub use`) counts where it
//! is defined. Tests are left out; they may use anything. A method call has no path, so a use by methods alone is not
//! seen. A module with `#[path]` is not seen either.

use std::collections::BTreeMap;

use super::scan::{self, Import, Named, Scanned};
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

/// The largest number of imports that are followed from a name. Imports can form a circle.
const LONGEST_WAY: usize = 16;

/// The uses between the files of the crate `name`, without a file's uses of itself.
#[must_use]
pub fn uses(tree: &Tree, name: &str) -> Vec<Use> {
    let sources = sources(tree, name);
    let crate_ = Crate::of(&sources);
    sources.iter().flat_map(|source| crate_.uses_of(source)).collect()
}

/// A file of the crate.
struct Source {
    path: String,
    module: Module,
    scanned: Scanned,
}

impl Source {
    /// The module around a place in this file.
    fn around(&self, inside: &[String]) -> Module {
        [&self.module, inside].concat()
    }
}

/// The files that are compiled without tests.
fn sources(tree: &Tree, name: &str) -> Vec<Source> {
    let source = |file: &File| {
        let (_, path) = crate_of(file).filter(|(of, _)| *of == name)?;
        let module = module(path.strip_prefix("src/")?)?;
        Some(Source { path: file.path.clone(), module, scanned: scan::scan(&file.text) })
    };
    let mut sources: Vec<_> = tree.with_extension("rs").filter_map(source).collect();
    // A program beside its library uses the library from outside.
    if sources.iter().any(|source| source.path.ends_with("/src/lib.rs")) {
        sources.retain(|source| !source.path.ends_with("/src/main.rs"));
    }
    let tests = |source: &Source| {
        let names = source.scanned.test_modules.clone();
        names.into_iter().map(|name| source.around(&[name])).collect::<Vec<_>>()
    };
    let tests: Vec<Module> = sources.iter().flat_map(tests).collect();
    sources.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    sources
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
            crate_.modules.insert(source.module.clone(), place.clone());
            for inline in &source.scanned.inline {
                crate_.modules.insert(source.around(inline), place.clone());
            }
            for Import { path, name, .. } in &source.scanned.imports {
                let names = crate_.imports.entry(source.around(&path.inside)).or_default();
                names.extend(name.clone().map(|name| (name, path.parts.clone())));
            }
        }
        crate_
    }

    fn uses_of(&self, source: &Source) -> Vec<Use> {
        let Scanned { imports, paths, words, .. } = &source.scanned;
        // Passing an item on is no use of it.
        let used = |import: &&Import| {
            !import.public || import.name.as_ref().is_some_and(|name| words.contains(name))
        };
        let imported = imports.iter().filter(used).filter_map(|import| {
            let Meaning { module, item } = self.meant(source, &import.path)?;
            // The import of a module is no use of it; naming an item in it is.
            let item = item.or_else(|| import.name.is_none().then(|| "*".to_owned()))?;
            self.use_of(source, &module, item, import.path.line)
        });
        let named = paths.iter().filter_map(|path| {
            let Meaning { module, item } = self.meant(source, path)?;
            let (last, around) = match &item {
                Some(item) => (item, &module[..]),
                // A path does not end in a module, so its last part means something else of the same name.
                None => module.split_last()?,
            };
            self.use_of(source, around, last.clone(), path.line)
        });
        imported.chain(named).collect()
    }

    fn meant(&self, source: &Source, path: &Named) -> Option<Meaning> {
        self.meaning(source.around(&path.inside), &path.parts, LONGEST_WAY)
    }

    fn use_of(&self, source: &Source, module: &[String], item: String, line: usize) -> Option<Use> {
        let place = |module| self.modules.get(module).cloned();
        let (from, to) = (place(&source.module[..])?, place(module)?);
        (from != to).then_some(Use { from, to, item, line })
    }

    /// The meaning of `parts` in `module`, unless it is in another crate. `way` is the number of imports that may be
    /// followed.
    fn meaning(&self, module: Module, parts: &[String], way: usize) -> Option<Meaning> {
        let first = parts.first()?;
        let up = parts.iter().take_while(|part| *part == "super").count();
        let (mut meant, rest) = match first.as_str() {
            "crate" => (Meaning { module: vec![], item: None }, &parts[1..]),
            "self" => (Meaning { module, item: None }, &parts[1..]),
            "super" => {
                let around = module[..module.len().checked_sub(up)?].to_vec();
                (Meaning { module: around, item: None }, &parts[up..])
            }
            // The name belongs to no module of this crate, or to none in this file.
            _ if !self.is_known(&module, first) => return None,
            _ => (Meaning { module, item: None }, parts),
        };
        for (at, part) in rest.iter().enumerate() {
            if meant.item.is_some() {
                break;
            }
            let is_last = at + 1 == rest.len();
            meant = self.looked_up(meant.module, part, is_last, way)?;
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
        let import = self.imports.get(&module).and_then(|names| names.get(name));
        match import {
            Some(parts) if is_last || !self.modules.contains_key(&child) => {
                self.meaning(module, parts, way.checked_sub(1)?)
            }
            _ if self.modules.contains_key(&child) => Some(Meaning { module: child, item: None }),
            _ => Some(Meaning { module, item: Some(name.to_owned()) }),
        }
    }
}

fn child(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The uses as `FROM:LINE ITEM TO`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let uses = uses(&Tree::of(&files), "a");
        let shown = |used: &Use| {
            let Use { from, to, item, line, .. } = used;
            format!("{}:{line} {item} {}", from.parts.join("/"), to.parts.join("/"))
        };
        let mut shown: Vec<_> = uses.iter().map(shown).collect();
        shown.sort();
        shown
    }

    #[test]
    fn a_file_uses_what_it_imports_and_what_it_names() {
        let one = "use crate::two::Two;\nuse std::fmt;\nfn f() -> crate::three::Three { fmt::x() }";
        let files = [("lib.rs", "mod one;"), ("one.rs", one), ("two.rs", ""), ("three.rs", "")];
        assert_eq!(found(&files), ["one:1 Two two", "one:3 Three three"]);
    }

    #[test]
    fn what_is_passed_on_counts_where_it_is() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\npub use one::One;\nuse std::fmt;"),
            ("one.rs", "use crate::fmt;"),
            ("two.rs", "use crate::{One, fmt::X};"),
        ];
        assert_eq!(found(&files), ["two:1 One one"]);
    }

    #[test]
    fn what_is_passed_on_and_used_is_a_use() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\npub use one::One;\npub use two::Two;\nfn f(_: Two) {}"),
            ("one.rs", ""),
            ("two.rs", ""),
        ];
        assert_eq!(found(&files), ["mod:4 Two two"]);
    }

    #[test]
    fn a_module_is_used_by_what_is_named_in_it() {
        let files = [
            ("main.rs", "mod one;\nmod two;\nfn main() { two::run(1) }"),
            ("one/mod.rs", "mod inner;\nuse inner::I;\npub const C: u8 = 1;"),
            ("one/inner.rs", "use super::C;\npub(in crate::one) struct I;"),
            ("two.rs", "use crate::one;\nuse crate::one::I;\nfn run() { one::C }"),
        ];
        let expected = [
            "mod:3 run two",
            "one/inner:1 C one/mod",
            "one/mod:2 I one/inner",
            "two:2 I one/inner",
            "two:3 C one/mod",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_function_may_be_called_as_its_module() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\nmod three;"),
            ("one/mod.rs", "mod live;\nmod real;\npub use live::live;\npub fn real() {}"),
            ("one/live.rs", "pub fn live() {}"),
            ("one/real.rs", ""),
            ("two.rs", "use crate::one::live;\nfn f() { crate::one::real() }"),
            ("three.rs", "pub(in crate::one) fn f() { crate::one::live() }"),
        ];
        let expected = ["three:1 live one/live", "two:1 live one/live", "two:2 real one/mod"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_program_beside_its_library_is_left_out() {
        let files =
            [("lib.rs", "pub mod one;"), ("main.rs", "mod a;"), ("one.rs", "use crate::X;")];
        assert_eq!(found(&files), ["one:1 X mod"]);
    }

    #[test]
    fn the_file_of_a_folder_may_stand_beside_it() {
        let files = [("one.rs", "mod inner;"), ("one/inner.rs", "use super::*;")];
        assert_eq!(found(&files), ["one/inner:1 * one/mod"]);
    }

    #[test]
    fn tests_may_use_anything() {
        let files = [
            ("one.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { use crate::two::X; }"),
            ("one/tests.rs", "use crate::two::X;"),
            ("two.rs", "mod inside { use super::Y; }"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn imports_in_a_circle_mean_nothing() {
        let files =
            [("one.rs", "use crate::two::A;\nuse rand::rand;"), ("two.rs", "use crate::one::A;")];
        assert!(found(&files).is_empty());
    }
}
