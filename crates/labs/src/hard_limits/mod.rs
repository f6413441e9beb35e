//! Hard limits with borrowing, the experiments of the patch set (September 2009): what they cost whom they
//! do not concern, and what they give whom they do.
//!
//! The document's tables are the first half (`founding`). It has no figures for what a limit is for, so
//! the second half is what a user asks of it: that it is kept (`exact`), and protects (`tenants`). All of
//! them are simulated; what fits any machine is asked of the runtime too ([`live()`]). What the kernel's own
//! limits do on the CPUs that there are, beside the simulated ones, is in `docs/figures/fidelity.md`.

mod exact;
mod founding;
mod live;
mod meter;
mod setting;
mod simulated;
mod tenants;

pub use live::live;
pub use simulated::simulated;
