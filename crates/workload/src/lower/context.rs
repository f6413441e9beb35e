//! The machine, the groups and the names that tasks refer to, and the warnings about all of them.

use super::cookies::Cookies;
use super::groups::Groups;
use super::objects::Names;
use super::warnings::Warnings;
use crate::overrides::DeadlinePolicy;
use runyard_engine::kernel::Model;
use std::path::PathBuf;

/// The state that the reader of tasks uses and extends.
pub(super) struct Context {
    /// The folder of the scenario's file, in which the files that it names are.
    pub(super) folder: PathBuf,
    /// The size of the machine.
    pub(super) cpus: usize,
    pub(super) model: Model,
    pub(super) deadline: DeadlinePolicy,
    pub(super) groups: Groups,
    pub(super) cookies: Cookies,
    pub(super) names: Names,
    pub(super) warnings: Warnings,
}
