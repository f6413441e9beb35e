//! The warnings about a scenario, each once.

use crate::diagnostic::{Fault, quoted};
use crate::json::Member;
use crate::nearest::did_you_mean;
use crate::shape::Shape;
use std::collections::BTreeSet;

/// The warnings for the user, each once.
#[derive(Default)]
pub(super) struct Warnings {
    told: BTreeSet<String>,
    faults: Vec<Fault>,
}

impl Warnings {
    /// Warns about an unknown key of one of rt-app's objects.
    pub(super) fn unknown(&mut self, member: Member<'_>, shape: Shape) {
        let known = shape.words();
        let near = did_you_mean(&member.key(), known.iter().copied());
        let what = format!("is not known here and has no effect{near}");
        self.once(member, &what);
    }

    /// Warns about an event in a thread object that has phases.
    pub(super) fn beside_phases(&mut self, member: Member<'_>) {
        self.once(member, "has no effect beside `phases`");
    }

    pub(super) fn once(&mut self, member: Member<'_>, what: &str) {
        self.instead(member.at, format!("{} {what}", quoted(&member.key())));
    }

    /// Warns about a difference from rt-app. `what` names the effect instead.
    pub(super) fn instead(&mut self, at: usize, what: impl Into<String>) {
        let what = what.into();
        if self.told.insert(what.clone()) {
            self.faults.push(Fault::new(at, what));
        }
    }

    pub(super) fn into_faults(self) -> Vec<Fault> {
        self.faults
    }
}
