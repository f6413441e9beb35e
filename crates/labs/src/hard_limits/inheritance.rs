//! Bandwidth inheritance: a task without a limit needs a mutex that a task of a limited group holds.
//!
//! The document leaves it for later. Before, the mutex hands over and lends nothing: a holder that is out of budget keeps
//! the others waiting for its next period. After, it inherits: the holder goes on, and its group owes the time.

use crate::claims::{Claim, ClaimVerdict};
use crate::figure::micros;
use crate::usage::{Usage, Window};
use crate::virtual_time::{scenario, simulate};
use runyard_engine::event::{Event, What};
use runyard_engine::kernel::Model;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_sim::Observer;

/// A worker of a group that may use a tenth of its CPU holds the mutex for 3 ms at a time. A request on another CPU needs
/// it every 37 ms for 0.1 ms.
const SCENARIO: &str = r#"{
    "machine": {"cpus": 2, "kernel": "6.1 + founding", "costs": {"jitter_ns": 0}},
    "global": {"duration": 10},
    "mutexes": {"m": "KIND"},
    "groups": {"/limited": {"runtime": 10000, "period": 100000}},
    "tasks": {
        "worker": {"group": "/limited", "cpus": [0], "lock": "m", "run": 3000, "unlock": "m", "run1": 1000},
        "request": {
            "cpus": [1], "timer": {"ref": "unique", "period": 37000, "mode": "absolute"},
            "lock": "m", "run": 100, "unlock": "m",
        },
    },
}"#;

const WORKER: usize = 0;
const REQUEST: TaskId = TaskId(1);

/// The steps of a request at which it asks for the mutex, and at which it has it.
const ASKS: u32 = 1;
const HAS: u32 = 2;

/// The longest wait with inheritance: the worker's time with the mutex, and the machine's own work.
const LONGEST: Nanos = Nanos::from_micros(3_200);

/// The least longest wait before, from the end of a budget to the next period. A tenth of a period has budget.
const LONG: Nanos = Nanos::from_millis(50);

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waited {
    longest: Nanos,
    /// The time that the limited group had, as a part of its limit.
    had: f64,
}

/// The results with a mutex that hands over, and with one that inherits.
pub(super) fn pair(model: Model) -> Result<[Waited; 2], Failure> {
    Ok([run(model, "hand_over")?, run(model, "inherit")?])
}

fn run(model: Model, kind: &str) -> Result<Waited, Failure> {
    let mut scenario = scenario("inheritance.json", &SCENARIO.replace("KIND", kind))?;
    scenario.use_model(model);
    let mut waits = Waits {
        usage: Usage::new(Window::ALL, Nanos::from_millis(100), 2),
        asked: None,
        longest: Nanos::ZERO,
    };
    let outcome = simulate(&scenario, 0, &mut waits)?;
    let used = waits.usage.finish(outcome.end);
    let limit = outcome.end.since(Time::ZERO).0 as f64 / 10.0;
    Ok(Waited { longest: waits.longest, had: used.of(WORKER..WORKER + 1).0 as f64 / limit })
}

/// The claim about the longest wait. A limit is kept all the same.
pub(super) fn claim([before, after]: [Waited; 2]) -> Claim {
    let what = "a request waits for a mutex of a group out of budget: longest wait, inheriting";
    let kept = (after.had - 1.0).abs() <= 0.02;
    let verdict = ClaimVerdict::of(kept && before.longest >= LONG && after.longest <= LONGEST);
    Claim::of(what, "us", [before, after].map(|it| Some(micros(it.longest))), verdict)
}

#[derive(Debug)]
struct Waits {
    usage: Usage,
    asked: Option<Time>,
    longest: Nanos,
}

impl Observer for &mut Waits {
    fn event(&mut self, event: &Event) {
        (&mut self.usage).event(event);
        match event.what {
            What::Step { task: REQUEST, step: ASKS, .. } => self.asked = Some(event.at),
            What::Step { task: REQUEST, step: HAS, .. } => {
                let waited = self.asked.take().map(|asked| event.at.since(asked));
                self.longest = self.longest.max(waited.unwrap_or_default());
            }
            _ => {}
        }
    }
}
