//! Hard limits with borrowing, the experiments of the patch set (September 2009): their cost to tasks without a limit,
//! and their effect on tasks with one.
//!
//! The document's tables are the first half (`founding`). The document has no figures for the purpose of a limit. So
//! the second half asks the users' questions: a limit is kept (`exact`), and it protects (`tenants`). All experiments
//! are simulated. Those that fit any machine also run on the runtime ([`live`]), beside programs in the document's three columns
//! (`columns`): task programs under the runtime's limit (`programs`), and the originals under the kernel's own
//! (`kernels_own`). `docs/figures/fidelity.md` has the kernel's
//! own limits on real CPUs beside the simulated ones.

mod columns;
mod exact;
mod founding;
mod kernels_own;
mod later;
mod live;
mod originals;
mod programs;
mod simulated;
mod tenants;

pub(crate) use live::{build_without_limit, live, live_without};
pub(crate) use simulated::{broken, experiment};

/// The number of CPUs of the document's machine.
const CPUS: u32 = 24;

/// The number of simulated runs of `--soak`, for each experiment.
const SOAK_RUNS: u64 = 10;

/// The names of the rows on real CPUs, for the page that has them.
#[cfg(test)]
pub(crate) fn live_names() -> Vec<String> {
    let all = kernels_own::names().into_iter().chain(programs::names());
    all.chain(crate::price::tests::with(&live::rows(2))).collect()
}
