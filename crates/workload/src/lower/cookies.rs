//! The cookies of threads, phases and task groups, by name. Tasks with different cookies never run on one core at the
//! same time (core scheduling, an extension).

use super::objects::Table;
use super::warnings::Warnings;
use crate::diagnostic::Fault;
use crate::json::Node;
use runyard_engine::attr::Cookie;
use runyard_engine::topology::Topology;

/// The cookies, numbered from 1 in the order of their first mention.
#[derive(Default)]
pub(super) struct Cookies {
    names: Table,
    /// The place of the first mention.
    first_at: Option<usize>,
}

impl Cookies {
    /// Returns the cookie that `node` names; none if the name is empty.
    pub(super) fn named(&mut self, node: Node<'_>) -> Result<Option<Cookie>, Fault> {
        let name = &*node.text()?;
        if name.is_empty() {
            return Ok(None);
        }
        self.first_at.get_or_insert(node.at());
        Ok(Cookie::new(self.names.id(name).0 + 1))
    }

    /// Warns if the machine has no core that two tasks could share.
    pub(super) fn warn_of_no_effect(&self, topology: Topology, warnings: &mut Warnings) {
        if let Some(at) = self.first_at.filter(|_| topology.threads() == 1) {
            warnings.instead(at, "no core has two threads, so cookies have no effect");
        }
    }

    /// Returns the names, in the order of their numbers.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names.into_names()
    }
}
