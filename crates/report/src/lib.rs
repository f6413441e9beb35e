//! Pure functions from the events of a host to reports for people and scripts.
//!
//! Nothing here reads a clock, an environment variable or a terminal: the same events give the same bytes on every
//! machine.
//!
//! ```text
//! Event, Event, ... -> Collector -> Totals + RunInfo -> Report -> JSON | text | page
//!                                                  two Reports -> what changed
//! last Events                                                  -> timeline
//! ```

mod account;
mod balance;
mod chains;
mod change;
mod changed;
mod collect;
mod column;
mod cookies;
mod course;
mod figure;
mod folded;
mod groups;
mod histogram;
mod history;
pub mod html;
mod json;
mod judged;
mod lanes;
mod median;
mod names;
mod pressure;
mod ranks;
mod reference;
mod report;
mod schedstat;
mod series;
pub mod statistics;
mod story;
mod stretches;
mod text;
mod timeline;
mod trace;
mod units;
mod waits;
mod why;
mod within;

pub use account::{CpuTotals, TaskTotals};
pub use balance::{BalanceReport, BalanceTotals};
pub use chains::{BlockedReport, ChainInfo, ChainReport, Chains, Hand, HopReport, SlowReport};
pub use change::{Changes, Sheet};
pub use changed::Changed;
pub use collect::{Collector, Counts, Totals};
pub use cookies::{CookieReport, cookie_reports};
pub use course::SeriesReport;
pub use figure::{Figure, LatencyReport};
pub use groups::{GroupCpuReport, GroupInfo, GroupReport, GroupUsage, LimitReport, group_reports};
pub use histogram::Histogram;
pub use judged::{Asked, Judged, NOISE, Verdict, judged, metric_title};
pub use names::Names;
pub use pressure::Pressure;
pub use reference::reference;
pub use report::{
    CpuReport, EngineReport, MachineReport, Report, RunInfo, SCHEMA, TaskInfo, TaskReport, Timed,
    TimersReport, Violation,
};
pub use schedstat::{SchedstatVersion, difference};
pub use series::{CpuHistory, Distribution, HistoryReport, distributions};
pub use story::{WokenBy, story};
pub use stretches::Stretches;
pub use text::{Checks, TaskRows, by_cause, render, table};
pub use timeline::timeline;
pub use trace::{Kept, TraceForm};
pub use units::{MetricUnit, span};
pub use why::{
    BlameReport, Cause, CauseEntry, CauseTimes, DoingReport, Explained, Explanation, PartReport,
    RanReport, WorstReport,
};
