//! SCHED_IDLE soakers and a normal task, the experiment of the balancer for SCHED_IDLE tasks (2010).
//!
//! On every CPU a soaker uses the time that no other task wants. Then a normal task comes, which weighs several hundred
//! times as much. The machine has enough work to be busy, yet the document's machine was idle for a sixth of its time.
//! The experiment judges the idle CPU time, and the normal task's part of a CPU.
//!
//! The document has one machine. The other machines are here because a balancer may be right for one normal task on
//! four nodes, and wrong for several tasks, for many nodes, or where the weights come from task groups instead of
//! policies. These cases are simulated. [`live()`] runs on this machine's CPUs, on the runtime.

mod case;
mod live;
mod power;
mod simulated;

pub use live::live;
pub use simulated::{simulated, simulated_without};

/// The claims on this host, with any figures: for the page that names them.
#[cfg(test)]
pub(crate) fn named(host: &str) -> Vec<crate::Claim> {
    if host == "sim" { simulated::tests::named() } else { live::tests::named() }
}
