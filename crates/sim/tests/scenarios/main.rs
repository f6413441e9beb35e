//! The tests of the simulator as scenarios: a text in rt-app's language, a machine, and the expected result. See
//! [`rig`] for the way they run and for the checks of every run.

mod balance;
mod bandwidth;
mod barging;
mod cores;
mod costs;
mod cpusets;
#[expect(dead_code, reason = "xtask, which has this text too, uses the rest")]
mod dice;
mod draw;
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
mod lock;
mod log;
mod oracle;
mod preemption;
mod pressure;
mod random;
mod real_time;
mod repeatable;
mod replay;
mod requests;
mod rig;
mod sharing;
mod smt;
mod ticks;
mod timeline;
mod timers;
mod tunables;
mod waits;
