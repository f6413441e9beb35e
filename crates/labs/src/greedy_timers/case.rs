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
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use runyard_sim::{Observer, Options, Sim};
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TaskSpec};
use runyard_workload::{Overrides, Scenario, parse};

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
pub(super) const DEFAULT_SLACK: Nanos = Nanos::from_micros(50);

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
    /// Daemons that the document may have had, with the other unknown properties of its machine.
    Assumed(Guess),
    /// Those whose timers were recorded.
    Recorded,
}

/// The values that the document does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    /// The number of daemons of each period.
    pub(super) daemons: u32,
    /// The divisor of all periods.
    pub(super) hurry: u64,
    /// The time that a daemon computes, on average.
    pub(super) work: Nanos,
    /// The slack of the cycles' timers.
    pub(super) cycle_slack: Nanos,
    /// The largest difference between a cycle's computing time and 4 ms.
    pub(super) uneven: Nanos,
    /// Whether the daemons wait in `poll`.
    pub(super) poll: bool,
    pub(super) tick_hz: u32,
    /// The numbers of nodes, of cores in each, and of threads in each core.
    pub(super) topology: (u32, u32, u32),
}

impl Guess {
    /// The values of the shipped scenario.
    pub(super) const SHIPPED: Guess = Guess {
        daemons: 8,
        hurry: 1,
        work: Nanos::from_micros(100),
        cycle_slack: DEFAULT_SLACK,
        uneven: Nanos::from_micros(100),
        poll: true,
        tick_hz: 1_000,
        topology: (2, 4, 2),
    };
}

impl Case {
    /// The document's cases, by their numbers there.
    pub(super) const DOCUMENTS: [Case; 4] = Case::with(Daemons::Assumed(Guess::SHIPPED));

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
            Daemons::Assumed(_) => case,
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
        let mut scenario = self.scenario()?;
        scenario.use_model(model);
        scenario.duration = Some(SETTLE + Nanos::from_secs(seconds));
        let busy = scenario.tasks[CYCLE].instances + scenario.tasks[HOG].instances;
        let mut counter = TimerCounter {
            first_daemon: busy as usize,
            last: Vec::new(),
            idle: vec![Some(Time::ZERO); scenario.machine.topology.cpus()],
            greedy: None,
            counted: Counted { seconds, ..Counted::default() },
        };
        let options = Options { seed, ..Options::default() };
        let outcome = Sim::new(&scenario, options, &mut counter).map_err(Failure::input)?.run();
        Ok(counter.finish(outcome.end))
    }

    fn scenario(self) -> Result<Scenario, Failure> {
        let Case { load, slack, daemons } = self;
        let mut scenario = daemons.shipped();
        let instances = |of| if load == of { BUSY } else { 0 };
        scenario.tasks[CYCLE].instances = instances(Load::Cycles);
        scenario.tasks[HOG].instances = instances(Load::Hogs);
        match daemons {
            Daemons::Assumed(guess) => guess.apply(&mut scenario, slack)?,
            Daemons::Recorded => {
                for TaskSpec { properties, .. } in &mut scenario.tasks[DAEMONS..] {
                    properties.slack = properties.slack.max(Some(slack));
                }
            }
        }
        Ok(scenario)
    }
}

impl Daemons {
    /// The shipped scenario.
    fn shipped(self) -> Scenario {
        let (name, text) = match self {
            Daemons::Assumed(_) => ("greedy-timers.json", ASSUMED),
            Daemons::Recorded => ("recorded-timers.json", RECORDED),
        };
        let parsed = parse(name, text, &Overrides::default());
        parsed.expect("the scenario that comes with the program is right").scenario
    }
}

impl Guess {
    fn apply(self, scenario: &mut Scenario, slack: Nanos) -> Result<(), Failure> {
        let (nodes, cores, threads) = self.topology;
        scenario.machine.topology = Topology::new(nodes, cores, threads).map_err(Failure::input)?;
        scenario.machine.tick_hz = self.tick_hz;
        let cycle = &mut scenario.tasks[CYCLE];
        cycle.properties.slack = Some(self.cycle_slack);
        cycle.phases[0].steps.change(|step| match step {
            Step::Run(Draw::Uniform(least, most)) => {
                let mean = Nanos((least.0 + most.0) / 2);
                Step::Run(Draw::Uniform(mean - self.uneven, mean + self.uneven))
            }
            other => other,
        });
        scenario.tasks[DAEMONS..].iter_mut().for_each(|daemon| self.change(daemon, slack));
        Ok(())
    }

    fn change(self, daemon: &mut TaskSpec, slack: Nanos) {
        daemon.instances = self.daemons;
        let steps = &mut daemon.phases[0].steps;
        let Some(Step::Sleep(Draw::Fixed(period))) = steps.get(1) else {
            unreachable!("a daemon computes and sleeps");
        };
        let period = Nanos(period.0 / self.hurry);
        *steps = [Step::Run(Draw::Exponential(self.work)), Step::Sleep(Draw::Fixed(period))].into();
        daemon.delay = Draw::Uniform(Nanos::ZERO, period);
        let least = if self.poll { Nanos(period.0 / POLL_ACCURACY) } else { Nanos::ZERO };
        daemon.properties.slack = Some(slack.max(least));
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
    pub(super) all: Kind,
    pub(super) daemons: Kind,
    /// The idle time of all CPUs together.
    pub(super) idle: Nanos,
    /// The fraction of the CPUs' time that was not idle.
    pub(super) busy: f64,
}

/// The counts of some tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Kind {
    /// The number of times that a task first executed on another CPU than before.
    pub(super) migrations: u64,
    /// The number of wake-ups by timers.
    pub(super) timers: u64,
    /// The number of these that the regular walk would have left.
    pub(super) greedy: u64,
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
    pub(super) fn greedy(&self, kind: fn(&Counted) -> Kind) -> f64 {
        self.spread(|run| kind(run).greedy as f64 / kind(run).timers.max(1) as f64).mean
    }
}

impl Counted {
    pub(super) fn a_minute(&self, count: u64) -> f64 {
        count as f64 * MINUTE / self.seconds as f64
    }
}

/// Counts from the events alone, beginning at [`SETTLE`].
struct TimerCounter {
    first_daemon: usize,
    /// The last CPU of each task.
    last: Vec<Option<CpuId>>,
    /// The instant from which each CPU is idle.
    idle: Vec<Option<Time>>,
    /// Set when a timer has just expired, to whether the greedy walk ran it. The wake-up that follows names the task.
    greedy: Option<bool>,
    counted: Counted,
}

impl Observer for &mut TimerCounter {
    fn event(&mut self, event: &Event) {
        match event.what {
            What::TimerExpired { greedy } => self.greedy = Some(greedy),
            What::Wake { task, by: None, .. } => {
                if let Some(greedy) = self.greedy.take() {
                    self.count(task, event.at, |kind| {
                        kind.timers += 1;
                        kind.greedy += u64::from(greedy);
                    });
                }
            }
            What::Exec { task, .. } => {
                self.end_idle(event.cpu, event.at);
                if self.last.len() <= task.index() {
                    self.last.resize(task.index() + 1, None);
                }
                let last = self.last[task.index()].replace(event.cpu);
                if last.is_some_and(|last| last != event.cpu) {
                    self.count(task, event.at, |kind| kind.migrations += 1);
                }
            }
            What::Overhead => self.end_idle(event.cpu, event.at),
            What::Idle => self.idle[event.cpu.index()] = Some(event.at),
            _ => {}
        }
    }
}

impl TimerCounter {
    fn count(&mut self, task: TaskId, at: Time, add: impl Fn(&mut Kind)) {
        if at < Time::ZERO + SETTLE {
            return;
        }
        add(&mut self.counted.all);
        if task.index() >= self.first_daemon {
            add(&mut self.counted.daemons);
        }
    }

    fn end_idle(&mut self, cpu: CpuId, at: Time) {
        if let Some(since) = self.idle[cpu.index()].take() {
            let from = since.max(Time::ZERO + SETTLE);
            self.counted.idle += at.max(from).since(from);
        }
    }

    fn finish(mut self, end: Time) -> Counted {
        let cpus = self.idle.len();
        for cpu in (0..cpus).map(CpuId::at) {
            self.end_idle(cpu, end);
        }
        let time = end.since(Time::ZERO + SETTLE).0 as f64 * cpus as f64;
        self.counted.busy = 1.0 - self.counted.idle.0 as f64 / time;
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_scenarios_are_cases() {
        for case in [Case::DOCUMENTS[2], Case::RECORDED[1]] {
            let (shipped, made) = (case.daemons.shipped(), case.scenario().unwrap());
            assert_eq!(format!("{made:?}"), format!("{shipped:?}"));
        }
    }

    #[test]
    fn recorded_timers_have_at_least_the_slack_of_the_case() {
        let slacks = |case: Case| {
            let daemons = case.scenario().unwrap().tasks.split_off(DAEMONS);
            daemons.iter().map(|it| it.properties.slack.unwrap().0 / 1_000).collect::<Vec<_>>()
        };
        let [_, little, much, _] = Case::RECORDED.map(slacks);
        assert_eq!(little, [100, 200, 200, 60_000, 60_000, 50]);
        assert_eq!(much, [10_000, 10_000, 10_000, 60_000, 60_000, 10_000]);
    }

    #[test]
    fn the_cases_have_the_same_daemons() {
        for case in Case::DOCUMENTS {
            let scenario = case.scenario().unwrap();
            let daemons = &scenario.tasks[DAEMONS..];
            assert_eq!(daemons.iter().map(|daemon| daemon.instances).sum::<u32>(), 80);
            let busy = scenario.tasks[..DAEMONS].iter().map(|task| task.instances).sum::<u32>();
            assert_eq!(busy, if case.load == Load::Nothing { 0 } else { BUSY }, "{case:?}");
            let slack = |at: usize| daemons[at].properties.slack.unwrap();
            let most = Nanos::from_micros(6_300).max(case.slack);
            assert_eq!((slack(0), slack(9)), (case.slack.max(Nanos::from_micros(100)), most));
        }
    }

    #[test]
    fn what_is_counted_is_who_expired_and_who_moved() {
        let counted = Counted { seconds: 1, ..Counted::default() };
        let idle = vec![Some(Time::ZERO); 2];
        let mut counter =
            TimerCounter { first_daemon: 1, last: Vec::new(), idle, greedy: None, counted };
        let policy = runyard_engine::attr::Policy::Idle;
        let begin = Time::ZERO + SETTLE;
        let exec = |task| What::Exec { task: TaskId(task), policy };
        let wake = |task| What::Wake { task: TaskId(task), since: begin, by: None };
        let mut told = |ms, cpu, what| {
            let at = begin + Nanos::from_millis(ms);
            (&mut &mut counter).event(&Event { at, cpu: CpuId(cpu), what });
        };
        for (task, greedy) in [(0, false), (1, true), (1, false)] {
            told(100, 0, What::TimerExpired { greedy });
            told(100, 0, wake(task));
        }
        // A wake-up by another task.
        told(100, 0, wake(1));
        told(200, 0, exec(1));
        told(300, 0, What::Idle);
        told(300, 1, exec(1));
        told(400, 1, exec(1));
        told(500, 0, exec(0));
        let Counted { all, daemons, busy, .. } = counter.finish(begin + Nanos::from_secs(1));
        assert_eq!(all, Kind { migrations: 1, timers: 3, greedy: 1 });
        assert_eq!(daemons, Kind { migrations: 1, timers: 2, greedy: 1 });
        assert!((busy - 0.65).abs() < 1e-9, "{busy}");
    }

    #[test]
    fn nothing_counts_before_the_tasks_have_spread() {
        let mut counter = TimerCounter {
            first_daemon: 0,
            last: vec![Some(CpuId(1))],
            idle: Vec::new(),
            greedy: None,
            counted: Counted::default(),
        };
        counter.count(TaskId(0), Time(SETTLE.0 - 1), |kind| kind.migrations += 1);
        assert_eq!(counter.counted.all.migrations, 0);
        counter.count(TaskId(0), Time(SETTLE.0), |kind| kind.migrations += 1);
        assert_eq!(counter.counted.all.migrations, 1);
    }
}
