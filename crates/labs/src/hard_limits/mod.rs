//! Hard limits with borrowing, the experiments of the patch set (September 2009): their cost to tasks without a limit,
//! and their effect on tasks with one.
//!
//! The document's tables are the first half (`founding`). The document has no figures for the purpose of a limit. So
//! the second half asks the users' questions: a limit is kept (`exact`), and it protects (`tenants`). All experiments
//! are simulated. Those that fit any machine also run on the runtime ([`live()`]), beside the kernel's own limit
//! (`kernels_own`). `docs/figures/fidelity.md` has the kernel's
//! own limits on real CPUs beside the simulated ones.

mod borrowing;
mod exact;
mod founding;
mod inheritance;
mod kernels_own;
mod live;
mod offline;
mod originals;
mod setting;
mod simulated;
mod tenants;

pub use live::{build_without_limit, live, live_without};
pub use simulated::{simulated, simulated_without};

/// The claims on this host, with any figures: for the page that names them.
#[cfg(test)]
pub(crate) fn named(host: &str) -> Vec<crate::Claim> {
    if host == "sim" { simulated::tests::named() } else { live::tests::named() }
}
