//! The document's four cases, each a variant of one scenario, and their runs.
//!
//! The document gives 16 logical CPUs, their load, the cycle of its 16 tasks, and the slack. The following is assumed:
//! * The machine has two sockets of four cores with two threads each, and a tick of 1 ms.
//! * The cycle is 4 ms of computing, give or take 2.5 %, and `usleep(1000)` with a slack of 50 us in every case. With
//!   10 ms of slack the CPUs would be a third busy, not four fifths.
//! * There are 80 daemons, eight for each of ten periods from 100 ms to 6.3 s. A daemon computes for 100 us at a time
//!   on average; together they wake up 212 times a second. Their number is fitted to the migrations of case 1 before: a
//!   timer that expires on a busy CPU moves its task whenever another CPU of the socket is idle.
//! * They wait as daemons do, in `poll` or `epoll_wait`. There the kernel makes the slack at least a thousandth of the
//!   timeout (`select_estimate_accuracy`, since 2.6.28).
//!
//! The same cases have, instead of these daemons, those whose timers were recorded (`docs/figures/timers/recorded.json`).

use crate::spread::Spread;
use crate::usage::{Account, Usage, Window};
use crate::virtual_time::{self, simulate};
use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TaskSpec};

/// The scenarios: cycles, a thread of hogs without an instance, and daemons. With assumed daemons it is case 2, with
/// recorded ones case 1.
const ASSUMED: &str = include_str!("../../scenarios/greedy-timers.json");
const RECORDED: &str = include_str!("../../scenarios/recorded-timers.json");
const CYCLE: usize = 0;
const HOG: usize = 1;
const DAEMONS: usize = 2;

/// The number of tasks that compute, one for each CPU.
const BUSY: u32 = 16;

/// The time before counting begins: the tasks begin together on one CPU, and spread.
const SETTLE: Nanos = Nanos::from_secs(2);

/// The number of seeds, as in the document (`perf stat -r 5`).
pub(super) const SEEDS: u64 = 5;

/// The unit of time of the document's migrations, in seconds.
pub(super) const MINUTE: f64 = 60.0;

/// The kernel's default slack.
const DEFAULT_SLACK: Nanos = Nanos::from_micros(50);

/// The document's larger slack.
pub(super) const MUCH_SLACK: Nanos = Nanos::from_millis(10);

/// `poll` makes the slack at least this fraction of the timeout.
const POLL_ACCURACY: u64 = 1_000;

/// The load of the CPUs besides the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Nothing,
    Cycles,
    Hogs,
}

/// A load, and the daemons beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) load: Load,
    /// The least slack of the daemons' timers.
    pub(super) slack: Nanos,
    pub(super) daemons: Daemons,
}

/// The daemons of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Daemons {
    /// Daemons that the document may have had.
    Assumed,
    /// Those whose timers were recorded.
    Recorded,
}

impl Case {
    /// The document's cases, by their numbers there.
    pub(super) const DOCUMENTS: [Case; 4] = Case::with(Daemons::Assumed);

    /// The same with recorded timers.
    pub(super) const RECORDED: [Case; 4] = Case::with(Daemons::Recorded);

    const fn with(daemons: Daemons) -> [Case; 4] {
        [
            Case { load: Load::Nothing, slack: DEFAULT_SLACK, daemons },
            Case { load: Load::Cycles, slack: DEFAULT_SLACK, daemons },
            Case { load: Load::Cycles, slack: MUCH_SLACK, daemons },
            Case { load: Load::Hogs, slack: DEFAULT_SLACK, daemons },
        ]
    }

    /// The case's number in the document.
    pub(super) fn number(self) -> usize {
        match (self.load, self.slack == MUCH_SLACK) {
            (Load::Nothing, _) => 0,
            (Load::Cycles, false) => 1,
            (Load::Cycles, true) => 2,
            (Load::Hogs, _) => 3,
        }
    }

    /// The case's name in claims.
    pub(super) fn name(self) -> String {
        let case = ["daemons alone", "cycles, slack 50 us", "cycles, slack 10 ms", "hogs"];
        let number = self.number();
        let case = format!("{number}: {}", case[number]);
        match self.daemons {
            Daemons::Assumed => case,
            Daemons::Recorded => format!("recorded timers, {case}"),
        }
    }

    /// Runs all seeds, each for so many seconds, without the greedy walk and with it.
    pub(super) fn pair(self, seconds: u64, done: impl Fn() + Sync) -> Result<Pair, Failure> {
        let runs = |model: Model| -> Result<Vec<Counted>, Failure> {
            let run = |seed| self.run(model, seed, seconds).inspect(|_| done());
            (1..=SEEDS).map(run).collect()
        };
        let (before, after) =
            rayon::join(|| runs(Experiment::GreedyTimers.before()), || runs(Model::default()));
        Ok(Pair { before: Runs(before?), after: Runs(after?) })
    }

    fn run(self, model: Model, seed: u64, seconds: u64) -> Result<Counted, Failure> {
        let mut scenario = self.scenario();
        scenario.use_model(model);
        scenario.duration = Some(SETTLE + Nanos::from_secs(seconds));
        let length = Nanos::from_secs(seconds);
        let window = Window { from: Time::ZERO + SETTLE, end: Time::MAX };
        let mut usage = Usage::new(window, length, scenario.machine.topology.cpus());
        let end = simulate(&scenario, seed, &mut usage)?.end;
        let used = usage.finish(end);
        let busy = scenario.tasks[CYCLE].instances + scenario.tasks[HOG].instances;
        Ok(Counted {
            seconds,
            all: used.account(0..usize::MAX),
            daemons: used.account(busy as usize..usize::MAX),
            busy: used.sum().busy(),
        })
    }

    fn scenario(self) -> Scenario {
        let Case { load, slack, daemons } = self;
        let mut scenario = daemons.shipped();
        let instances = |of| if load == of { BUSY } else { 0 };
        scenario.tasks[CYCLE].instances = instances(Load::Cycles);
        scenario.tasks[HOG].instances = instances(Load::Hogs);
        for TaskSpec { properties, phases, .. } in &mut scenario.tasks[DAEMONS..] {
            // The kernel's own slack of each: assumed daemons wait in `poll`.
            let kernels = match (daemons, phases[0].steps.get(1)) {
                (Daemons::Assumed, Some(Step::Sleep(Draw::Fixed(period)))) => {
                    Some(Nanos(period.0 / POLL_ACCURACY))
                }
                _ => properties.slack,
            };
            properties.slack = kernels.max(Some(slack));
        }
        scenario
    }
}

impl Daemons {
    /// The shipped scenario.
    fn shipped(self) -> Scenario {
        match self {
            Daemons::Assumed => virtual_time::shipped("greedy-timers.json", ASSUMED),
            Daemons::Recorded => virtual_time::shipped("recorded-timers.json", RECORDED),
        }
    }
}

/// The runs without the greedy walk and with it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) before: Runs,
    pub(super) after: Runs,
}

/// The runs of one case, with different seeds.
#[derive(Clone, Debug)]
pub(super) struct Runs(pub(super) Vec<Counted>);

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    pub(super) seconds: u64,
    pub(super) all: Account,
    pub(super) daemons: Account,
    /// The fraction of the CPUs' time that was not idle.
    pub(super) busy: f64,
}

impl Runs {
    /// The spread of a figure over the runs.
    pub(super) fn spread(&self, of: impl Fn(&Counted) -> f64) -> Spread {
        Spread::of(&self.0.iter().map(of).collect::<Vec<_>>())
    }

    /// The migrations a minute.
    pub(super) fn migrations(&self) -> Spread {
        self.spread(|run| run.a_minute(run.all.migrations))
    }

    /// The migrations for each expired timer.
    pub(super) fn by_timer(&self) -> Spread {
        self.spread(|run| run.all.migrations as f64 / run.all.timers.max(1) as f64)
    }

    /// The fraction of the timers of `kind` that only the greedy walk ran.
    pub(super) fn greedy(&self, kind: fn(&Counted) -> Account) -> f64 {
        self.spread(|run| kind(run).greedy as f64 / kind(run).timers.max(1) as f64).mean
    }
}

impl Counted {
    pub(super) fn a_minute(&self, count: u64) -> f64 {
        count as f64 * MINUTE / self.seconds as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_scenarios_are_cases() {
        for case in [Case::DOCUMENTS[2], Case::RECORDED[1]] {
            let (shipped, made) = (case.daemons.shipped(), case.scenario());
            assert_eq!(format!("{made:?}"), format!("{shipped:?}"));
        }
    }

    #[test]
    fn recorded_timers_have_at_least_the_slack_of_the_case() {
        let slacks = |case: Case| {
            let daemons = case.scenario().tasks.split_off(DAEMONS);
            daemons.iter().map(|it| it.properties.slack.unwrap().0 / 1_000).collect::<Vec<_>>()
        };
        let [_, little, much, _] = Case::RECORDED.map(slacks);
        assert_eq!(little, [100, 200, 200, 60_000, 60_000, 50]);
        assert_eq!(much, [10_000, 10_000, 10_000, 60_000, 60_000, 10_000]);
    }

    #[test]
    fn the_cases_have_the_same_daemons() {
        for case in Case::DOCUMENTS {
            let scenario = case.scenario();
            let daemons = &scenario.tasks[DAEMONS..];
            assert_eq!(daemons.iter().map(|daemon| daemon.instances).sum::<u32>(), 80);
            let busy = scenario.tasks[..DAEMONS].iter().map(|task| task.instances).sum::<u32>();
            assert_eq!(busy, if case.load == Load::Nothing { 0 } else { BUSY }, "{case:?}");
            let slack = |at: usize| daemons[at].properties.slack.unwrap();
            let most = Nanos::from_micros(6_300).max(case.slack);
            assert_eq!((slack(0), slack(9)), (case.slack.max(Nanos::from_micros(100)), most));
        }
    }
}
