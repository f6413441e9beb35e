//! The section `mutexes`, an extension: the kind of each mutex. An unlisted mutex is as in rt-app, which uses a mutex
//! of the C library. The first task to arrive takes it, and with `pi_enabled` it has priority inheritance.

use super::warnings::Warnings;
use crate::diagnostic::{Fault, quoted};
use crate::json::Node;
use crate::scenario::{MutexKind, Objects};
use std::collections::BTreeMap;

/// The kinds of the mutexes.
pub(super) struct Kinds {
    /// The listed kinds by name, with the places of the names.
    listed: BTreeMap<String, (usize, MutexKind)>,
    others: MutexKind,
}

pub(super) fn read(section: Option<Node<'_>>, pi_enabled: bool) -> Result<Kinds, Fault> {
    let mut listed = BTreeMap::new();
    for member in section.map(Node::object).transpose()?.into_iter().flatten() {
        let kind = match &*member.value.text()? {
            "barge" => MutexKind::Barge,
            "hand_over" => MutexKind::HandOver,
            "inherit" => MutexKind::Inherit,
            _ => return Err(member.value.expected("\"barge\", \"hand_over\" or \"inherit\"")),
        };
        listed.insert(member.key().into_owned(), (member.at, kind));
    }
    let others = if pi_enabled { MutexKind::Inherit } else { MutexKind::default() };
    Ok(Kinds { listed, others })
}

impl Kinds {
    pub(super) fn of(&self, name: &str) -> MutexKind {
        self.listed.get(name).map_or(self.others, |&(_, kind)| kind)
    }

    /// Warns about listed mutexes that no task uses.
    pub(super) fn warn_of_unknown(&self, objects: &Objects, warnings: &mut Warnings) {
        for (name, &(at, _)) in &self.listed {
            if !objects.mutexes.iter().any(|(known, _)| known == name) {
                warnings.instead(at, format!("no task has a mutex called {}", quoted(name)));
            }
        }
    }
}
