//! Pure functions from what happened on a host to what people and scripts read.
//!
//! ```text
//! Event, Event, ... -> Collector -> Totals + RunInfo -> Report -> JSON | text
//! last Events                                                  -> timeline
//! ```
//! Nothing here reads a clock, an environment variable or a terminal: the same events give the same
//! bytes on every machine.

mod account;
mod claims;
mod collect;
mod histogram;
mod json;
mod report;
mod text;
mod timeline;
mod trace;
mod units;

pub use account::{CpuTotals, TaskTotals};
pub use claims::{Claim, Claims, Experiment, Verdict};
pub use collect::{Collector, Counts, Totals};
pub use histogram::Histogram;
pub use report::{
    CpuReport, EngineReport, Figure, GroupInfo, GroupReport, LatencyReport, MachineReport, Report,
    RunInfo, SCHEMA, TaskInfo, TaskReport, TimersReport, Violation,
};
pub use text::{Checks, render};
pub use timeline::timeline;
pub use trace::TraceForm;
