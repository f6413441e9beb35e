//! The simulator, told as scenarios: a text in rt-app's language, a machine, and what must come of
//! it. See [`rig`] for how they run and what every run is held to.

mod balance;
mod barging;
mod cores;
mod costs;
mod endings;
mod fair;
mod hotplug;
mod inheritance;
mod kernels;
mod language;
mod late;
mod latency;
mod ledger;
mod limits;
mod log;
mod oracle;
mod random;
mod real_time;
mod repeatable;
mod replay;
mod rig;
mod sharing;
mod smt;
mod ticks;
mod timers;
mod tunables;
