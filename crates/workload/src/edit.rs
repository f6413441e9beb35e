//! The application of settings to the text of a scenario.
//!
//! A setting is an edit of the text. Its value replaces the old one, or a key is added before the other members of its
//! object. The new text is then read like any other. So a setting has the same meaning as an edit of the file by
//! construction. An error in it is reported at its origin: [`Edited`] knows for each byte its place in the file, or the
//! setting that it comes from.
//!
//! Each edit scans the text up to its place, and moves the rest. That is cheap compared with the check that the text is
//! JSON. The file has passed that check, and an edit of whole values preserves the result. Large objects are scanned
//! once for all settings ([`Index`]).

use crate::diagnostic::{Diagnostic, Fault, Place, locate, quoted};
use crate::json::{self, Keys, Member, Node};
use crate::nearest::{advice, nearest};
use crate::overrides::Overrides;
use crate::setting::{Path, Segment, Setting};
use crate::shape::{self, Shape};
use crate::tunables;
use runyard_engine::topology::Topology;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A text with settings applied to it.
#[derive(Debug)]
pub(crate) struct Edited<'t> {
    file: &'t str,
    original: &'t str,
    settings: &'t [Setting],
    text: Cow<'t, str>,
    /// The origins of the parts of the text, in order.
    parts: Vec<Part>,
    /// A setting gives the size of the machine.
    sizes: bool,
    index: Index<'t>,
}

/// The keys of large objects of the file, by the places where the objects begin. An edit adds no existing key, and
/// removes single keys of task groups and changes only, which are too small for an index. So the index stays valid for
/// the unchanged parts of the file.
#[derive(Debug, Default)]
struct Index<'t>(BTreeMap<usize, Keys<'t>>);

/// The number of members of an object that are examined before its keys are put into the index.
const FEW: usize = 64;

/// A part of a text: its begin and its origin.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: usize,
    from: Origin,
}

/// The origin of a byte.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// This place of the file.
    File(usize),
    /// The setting with this number.
    Setting(usize),
}

/// A change of a text.
struct Edit {
    /// The range that is replaced.
    at: usize,
    end: usize,
    /// The text before the new value and after it.
    before: String,
    after: String,
}

impl Edit {
    /// Returns an edit that replaces a value, which may be absent.
    fn replacing(old: Node<'_>) -> Edit {
        let (at, after) = (old.at(), String::new());
        match old.is_absent() {
            true => Edit { at, end: at, before: ": ".to_owned(), after },
            false => Edit { at, end: at + old.source().len(), before: String::new(), after },
        }
    }

    /// Returns an edit that removes a member of an object, or puts another one in its place.
    fn removing(object: Node<'_>, members: &[Member<'_>], at: usize, replaced: bool) -> Edit {
        let end = |member: Member<'_>| member.value.at() + member.value.source().len();
        let (first, next) = (members[at].at, members.get(at + 1));
        let (at, end) = match (replaced, next, at.checked_sub(1)) {
            (true, ..) => (first, end(members[at])),
            (false, Some(next), _) => (first, next.at),
            (false, None, Some(before)) => (end(members[before]), end(members[at])),
            (false, None, None) => (object.at() + 1, object.at() + object.source().len() - 1),
        };
        Edit { at, end, before: String::new(), after: String::new() }
    }

    /// Returns an edit that adds a value before all members of an object, with `keys` on the way to the value.
    fn adding(object: Node<'_>, keys: &[Segment]) -> Edit {
        let at = object.at() + 1;
        let keys: Vec<_> = keys.iter().map(|segment| json::text_of(&segment.key)).collect();
        let before = keys.join(": {") + ": ";
        Edit { at, end: at, before, after: "}".repeat(keys.len() - 1) + ", " }
    }
}

impl<'t> Edited<'t> {
    /// Returns the text without any setting.
    pub(crate) fn not(file: &'t str, text: &'t str) -> Edited<'t> {
        let parts = vec![Part { at: 0, from: Origin::File(0) }];
        let (original, text) = (text, Cow::Borrowed(text));
        let index = Index::default();
        Edited { file, original, settings: &[], text, parts, sizes: false, index }
    }

    /// Applies `settings` to the text, from the first to the last.
    pub(crate) fn new(
        file: &'t str,
        text: &'t str,
        settings: &'t [Setting],
    ) -> Result<Edited<'t>, Diagnostic> {
        let mut edited = Edited { settings, ..Edited::not(file, text) };
        for (nth, setting) in settings.iter().enumerate() {
            edited.set(nth).map_err(|what| Diagnostic { place: place(setting), what })?;
        }
        Ok(edited)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the file.
    pub(crate) fn file(&self) -> &'t str {
        self.file
    }

    /// Returns the other overrides of the command line. A size of the machine given there is applied before the
    /// settings.
    pub(crate) fn overrides(&self, over: &Overrides) -> Overrides {
        match self.sizes && !over.real_cores {
            true => Overrides { cpus: None, topology: None, ..over.clone() },
            false => over.clone(),
        }
    }

    /// Returns the diagnostics of the faults, in the order of their places in the file, and then of the settings.
    pub(crate) fn locate(&self, faults: Vec<Fault>) -> Vec<Diagnostic> {
        let (mut of_file, mut of_settings) = (Vec::new(), Vec::new());
        for fault in faults {
            match self.origin(fault.at) {
                Origin::File(at) => of_file.push(Fault { at, ..fault }),
                Origin::Setting(nth) => of_settings.push((nth, fault.what)),
            }
        }
        of_settings.sort_by_key(|&(nth, _)| nth);
        let mut located = locate(self.file, self.original, of_file);
        let settings = of_settings.into_iter();
        located.extend(
            settings.map(|(nth, what)| Diagnostic { place: place(&self.settings[nth]), what }),
        );
        located
    }

    /// Returns the warnings about settings without an effect: those of the simulated machine in a run on a real one.
    pub(crate) fn without_effect(&self, real_machine: bool) -> impl Iterator<Item = Diagnostic> {
        let of_machine = |setting: &&Setting| match setting.path().segments() {
            [section] => section.key == "machine",
            [section, key, ..] => section.key == "machine" && key.key != "kernel",
            [] => false,
        };
        let what =
            "has no effect: the run is on this machine, and --cpus sets how many CPUs it uses";
        let settings = self.settings.iter().filter(move |_| real_machine).filter(of_machine);
        settings.map(|setting| Diagnostic { place: place(setting), what: what.to_owned() })
    }

    /// Adds the settings to an error that the text does not have without them.
    pub(crate) fn blamed_on_settings(&self, error: Diagnostic) -> Diagnostic {
        const SHOWN: usize = 3;
        let shown = self.settings.iter().take(SHOWN);
        let shown: Vec<_> = shown.map(|setting| place(setting).to_string()).collect();
        let more = if self.settings.len() > SHOWN { " ..." } else { "" };
        Diagnostic { what: format!("{} (with {}{more})", error.what, shown.join(" ")), ..error }
    }

    /// Returns the origin of the byte at `at`.
    fn origin(&self, at: usize) -> Origin {
        let part = self.parts[self.parts.partition_point(|part| part.at <= at) - 1];
        match part.from {
            Origin::File(from) => Origin::File(from + (at - part.at)),
            setting @ Origin::Setting(_) => setting,
        }
    }

    /// Applies one of the settings.
    fn set(&mut self, nth: usize) -> Result<(), String> {
        let setting = &self.settings[nth];
        self.respell(setting.path(), nth);
        let edit = self.edit(setting.path())?;
        self.carry_out(edit, setting.value(), nth);
        let keys: Vec<_> = setting.path().segments().iter().map(|segment| &*segment.key).collect();
        match keys[..] {
            ["machine"] => {
                let machine = member(json::beginning(&self.text), "machine");
                let sized = |key| machine.is_some_and(|machine| member(machine, key).is_some());
                self.sizes |= sized("cpus") || sized("topology");
            }
            ["machine", "cpus"] => self.fit("topology", nth, |shape, cpus| {
                let shape: Topology = shape.text().ok()?.parse().ok()?;
                let cpus = cpus.natural("", 1..=u32::MAX).ok()?;
                let flat = Topology::flat(cpus).ok()?;
                (shape.cpus() != flat.cpus()).then(|| json::text_of(&flat.to_string()))
            }),
            ["machine", "topology"] => self.fit("cpus", nth, |_, shape| {
                let shape: Topology = shape.text().ok()?.parse().ok()?;
                Some(shape.cpus().to_string())
            }),
            _ => {}
        }
        Ok(())
    }

    /// Returns the edit that puts a value at `path`.
    fn edit(&mut self, path: &Path) -> Result<Edit, String> {
        let segments = path.segments();
        let (mut at, mut shape) = (json::beginning(&self.text).at(), shape::ROOT);
        for (depth, segment) in segments.iter().enumerate() {
            let found = self.found(at, segment);
            let step = Step { path: segments, depth, node: json::value_at(&self.text, at), shape };
            at = match found.map_or_else(|| step.item(), |found| Ok(Some(found)))? {
                Some(next) => next,
                None => return step.add(),
            };
            shape = shape.behind(&segment.key);
        }
        Ok(Edit::replacing(json::value_at(&self.text, at)))
    }

    /// Removes the other spellings of what a setting of a task group gives. A part of a `cpu.max` that the setting does
    /// not give stays, as `runtime` or `period`.
    fn respell(&mut self, path: &Path, nth: usize) {
        let [section, name, key] = path.segments() else { return };
        if !["groups", "timeline"].contains(&&*section.key) {
            return;
        }
        loop {
            let root = json::beginning(&self.text);
            let Some(section) = member(root, &section.key) else { return };
            let group = match section.list() {
                Ok(mut items) => name.key.parse().ok().and_then(|at| items.nth(at)),
                Err(_) => member(section, &name.key),
            };
            let Some(group) = group.filter(|group| group.is_object()) else { return };
            let members: Vec<_> = group.members().collect();
            let other = |it: &Member<'_>| shape::are_one_thing(&key.key, &it.key());
            let Some(at) = members.iter().position(other) else { return };
            let rest = kept_of_max(&key.key, members[at]);
            let edit = Edit::removing(group, &members, at, rest.is_some());
            self.carry_out(edit, &rest.unwrap_or_default(), nth);
        }
    }

    /// Returns the place of the value that `segment` names in the object at `at`, if there is one.
    fn found(&mut self, at: usize, segment: &Segment) -> Option<usize> {
        let nth = segment.nth as usize - 1;
        let object = Some(json::value_at(&self.text, at)).filter(|node| node.is_object())?;
        let mut few = 0;
        let first = object.members().take(FEW).inspect(|_| few += 1);
        let found = first.filter(|member| member.key() == segment.key).nth(nth);
        if found.is_some() || few < FEW {
            return found.map(|member| member.value.at());
        }
        let Origin::File(from) = self.origin(at) else {
            let mut alike = object.members().filter(|member| member.key() == segment.key);
            return alike.nth(nth).map(|member| member.value.at());
        };
        let original = self.original;
        let keys = self.index.0.entry(from);
        let keys = keys.or_insert_with(|| Keys::of(json::value_at(original, from).members()));
        let place = keys.places(&segment.key).nth(nth)?;
        let key = self.placed(place)?;
        Some(json::value_of_key_at(&self.text, key)?.at())
    }

    /// Returns the current place of the byte at `from` of the file.
    fn placed(&self, from: usize) -> Option<usize> {
        let ends = self.parts.iter().skip(1).map(|part| part.at).chain([self.text.len()]);
        self.parts.iter().zip(ends).find_map(|(part, end)| match part.from {
            Origin::File(begin) if (begin..begin + (end - part.at)).contains(&from) => {
                Some(part.at + (from - begin))
            }
            _ => None,
        })
    }

    /// Adapts the machine's `other` key after a setting of the number of CPUs, or of their shape. `new` computes the
    /// value of that key from both.
    fn fit(&mut self, other: &str, nth: usize, new: impl Fn(Node<'_>, Node<'_>) -> Option<String>) {
        self.sizes = true;
        let set = if other == "cpus" { "topology" } else { "cpus" };
        let fitting = || {
            let machine = member(json::beginning(&self.text), "machine")?;
            let old = member(machine, other)?;
            Some((Edit::replacing(old), new(old, member(machine, set)?)?))
        };
        if let Some((edit, value)) = fitting() {
            self.carry_out(edit, &value, nth);
        }
    }

    fn carry_out(&mut self, edit: Edit, value: &str, nth: usize) {
        let Edit { at, end, before, after } = edit;
        let behind = self.origin(end);
        let new = [&before, value, &after].concat();
        self.text.to_mut().replace_range(at..end, &new);
        let first = self.parts.partition_point(|part| part.at < at);
        let last = self.parts.partition_point(|part| part.at <= end);
        let inserted =
            [Part { at, from: Origin::Setting(nth) }, Part { at: at + new.len(), from: behind }];
        self.parts.splice(first..last, inserted);
        for part in &mut self.parts[first + 2..] {
            part.at = part.at - end + at + new.len();
        }
    }
}

/// Returns the member that stands for the part of a `cpu.max` that `key` does not set, if `member` is one.
fn kept_of_max(key: &str, member: Member<'_>) -> Option<String> {
    if member.key() != "cpu.max" {
        return None;
    }
    let text = member.value.text().map_or_else(|_| member.value.source().to_owned(), Into::into);
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next()?, words.next());
    match key {
        "period" if quota == "max" => Some("\"runtime\": -1".to_owned()),
        "period" => Some(format!("\"runtime\": {quota}")),
        _ => period.map(|period| format!("\"period\": {period}")),
    }
}

/// Returns the place of a setting in diagnostics.
fn place(setting: &Setting) -> Place {
    Place::Setting(setting.shown())
}

fn member<'v>(object: Node<'v>, key: &str) -> Option<Node<'v>> {
    let mut members = object.is_object().then(|| object.members()).into_iter().flatten();
    members.find(|member| member.key() == key).map(|member| member.value)
}

/// A step along a path.
struct Step<'v, 'p> {
    path: &'p [Segment],
    /// The number of the next segment.
    depth: usize,
    /// The value reached so far, and its shape.
    node: Node<'v>,
    shape: Shape,
}

impl Step<'_, '_> {
    fn segment(&self) -> &Segment {
        &self.path[self.depth]
    }

    /// Returns the path so far.
    fn here(&self) -> String {
        match self.depth {
            0 => "the scenario".to_owned(),
            depth => shown(&self.path[..depth]),
        }
    }

    /// Returns the place of the item that the next segment names in a list; `None` in an object.
    fn item(&self) -> Result<Option<usize>, String> {
        let Segment { key, nth } = self.segment();
        if self.node.is_object() {
            return Ok(None);
        }
        let Ok(mut items) = self.node.list() else {
            return Err(format!(
                "{} is {}: it has no {}",
                self.here(),
                self.node.shown(),
                quoted(key)
            ));
        };
        let index = key.parse::<usize>().ok().filter(|_| *nth == 1);
        let count = items.clone().count();
        match index.and_then(|index| items.nth(index)) {
            Some(item) => Ok(Some(item.at())),
            None => Err(format!("{} is a list of {count}, counted from 0", self.here())),
        }
    }

    /// Returns the edit that adds the absent value that the next segment names.
    fn add(&self) -> Result<Edit, String> {
        let rest = &self.path[self.depth..];
        let mut shape = self.shape;
        for (further, segment) in rest.iter().enumerate() {
            let is_new = segment.nth == 1;
            match shape.known(&segment.key).filter(|_| is_new) {
                Some(known) => shape = known,
                None if further == 0 => return Err(self.unknown()),
                None => return Err(unknown_below(&self.path[..=self.depth + further], shape)),
            }
        }
        Ok(Edit::adding(self.node, rest))
    }

    /// Returns the error that the next segment names no value.
    fn unknown(&self) -> String {
        let Segment { key, nth } = self.segment();
        let alike = self.node.members().filter(|member| member.key() == *key).count();
        if alike > 0 {
            return format!("{} has {} only {}", self.here(), quoted(key), times(alike, *nth));
        }
        let there: Vec<_> = self.node.members().map(|member| member.key().into_owned()).collect();
        if let Shape::Named(names) = self.shape {
            let there: Vec<_> = there.iter().map(String::as_str).collect();
            let advice = self.advice(key, &there);
            return format!("no {} is called {}{advice}", names.what, quoted(key));
        }
        let events = there.iter().filter(|there| self.shape.known(there).is_none());
        let mut known: Vec<&str> = events.map(String::as_str).collect();
        known.dedup();
        known.extend(self.shape.keys());
        let of_group = self.depth == 2 && self.path[0].key == "groups";
        if let Some(what) = shape::foreign_word(key).filter(|_| of_group) {
            return format!("{} {what}", quoted(key));
        }
        let what = format!("{} is not known in {}", quoted(key), self.here());
        match self.elsewhere() {
            Some(path) => format!("{what}; did you mean {path}?"),
            None => what + &self.advice(key, &known),
        }
    }

    /// Returns a hint: the nearest right path, or the known keys.
    fn advice(&self, key: &str, known: &[&str]) -> String {
        let Some(near) = nearest(key, known.iter().copied()) else { return advice(key, known) };
        let mut path = self.path.to_vec();
        path[self.depth] = Segment { key: near.to_owned(), nth: 1 };
        format!("; did you mean {}?", shown(&path))
    }

    /// Returns the path of a key with this name in another section.
    fn elsewhere(&self) -> Option<String> {
        let key = &self.segment().key;
        if let Shape::Program(_) = self.shape {
            let phases = member(self.node, "phases").filter(|phases| phases.is_object())?;
            let phase = phases.members().find(|phase| member(phase.value, key).is_some())?;
            let mut path = self.path.to_vec();
            let key = phase.key().into_owned();
            let inserted = ["phases".to_owned(), key].map(|key| Segment { key, nth: 1 });
            path.splice(self.depth..self.depth, inserted);
            return Some(shown(&path));
        }
        if self.depth > 0 {
            return None;
        }
        let last = &self.path.last()?.key;
        if let Some(tunable) = tunables::ALL.iter().find(|tunable| tunable.name() == last) {
            return Some(tunable.path.to_owned());
        }
        let named = |section: &&&str| {
            member(self.node, section).is_some_and(|section| member(section, key).is_some())
        };
        let section = ["tasks", "groups", "chains"].iter().find(named)?;
        Some(format!("{section}.{}", shown(self.path)))
    }
}

/// Returns the error that nothing can be added at the end of `path`, where no object exists yet. The last segment is
/// not known in `shape`.
fn unknown_below(path: &[Segment], shape: Shape) -> String {
    let (last, before) = path.split_last().expect("a path has a segment");
    if let Shape::Named(names) = shape {
        return format!("no {} is called {}", names.what, quoted(&last.key));
    }
    let keys = shape.keys();
    let what = format!("{} is not known in {}", quoted(&last.key), shown(before));
    match nearest(&last.key, keys.iter().copied()) {
        Some(near) => format!("{what}; did you mean {}.{near}?", shown(before)),
        None => what + &advice(&last.key, &keys),
    }
}

fn times(alike: usize, nth: u32) -> String {
    match alike {
        1 => "once".to_owned(),
        _ => format!("{alike} times, and no number {nth}"),
    }
}

/// Returns a path as it is written.
fn shown(path: &[Segment]) -> String {
    path.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}
