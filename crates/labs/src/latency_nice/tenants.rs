//! The cost of keeping tenants apart that do not trust each other, by core scheduling and by switching SMT off.
//!
//! The announcement of core scheduling (v6, V. Pillai, June 2020) has no figures of it, but three statements. With half
//! of the hardware threads busy, cookies, SMT off and no separation are similar. With all threads busy and as many
//! cookies, cookies are like SMT off. With several threads of each cookie, cookies are better. The fourth load is that
//! of an operator: tasks that serve requests and need the second hardware threads now and then.
//!
//! The machine is the default of `runyard sim`, `6.18 + founding`: Linux 6.18 is the newest modelled kernel, and has
//! core scheduling.

use crate::claims::{Claim, ClaimVerdict};
use crate::figure::{micros, percent, rounded};
use crate::virtual_time::{self, simulate};
use runyard_engine::attr::Cookie;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::Update;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use runyard_report::{Collector, Histogram, table};
use runyard_sim::Observer;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::Step;

const SCENARIO: &str = include_str!("../../scenarios/core-scheduling.json");

/// The period of each task's requests, as in the shipped scenario.
const PERIOD: Nanos = Nanos::from_micros(1_429);

/// The piece of work after which a busy task's progress is counted.
const PIECE: Nanos = Nanos::from_millis(1);

/// The counted part of a run begins when the balancer has settled. Forced idle time counts from the start.
const FROM: Time = Time(1_000_000_000);
const LENGTH: Nanos = Nanos::from_secs(4);

/// A number of tenants with a number of tasks each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    tenants: u32,
    tasks: u32,
    does: Does,
}

/// The work of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// They never block.
    Compute,
    /// They wait for requests, as in the shipped scenario.
    Serve,
}

/// The rows of the table.
pub(super) const LOADS: [Load; 4] = [
    Load { tenants: 4, tasks: 1, does: Does::Compute },
    Load { tenants: 8, tasks: 1, does: Does::Compute },
    Load { tenants: 4, tasks: 2, does: Does::Compute },
    Load { tenants: 4, tasks: 4, does: Does::Serve },
];

/// The ways of keeping tenants apart: the columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apart {
    Nothing,
    Tenants,
    Tasks,
    NoSmt,
}

pub(super) const WAYS: [Apart; 4] = [Apart::Nothing, Apart::Tenants, Apart::Tasks, Apart::NoSmt];

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The number of finished pieces of work or requests.
    pub(super) done: u64,
    /// The times of requests, from their arrival.
    pub(super) took: Histogram,
    /// The forced idle time of the CPUs, and the time of all CPUs.
    pub(super) forced: Nanos,
    pub(super) of: Nanos,
}

/// The shipped scenario.
pub(super) fn shipped() -> Scenario {
    virtual_time::shipped("core-scheduling.json", SCENARIO)
}

impl Load {
    fn name(self) -> String {
        let (tenants, tasks) = (self.tenants, self.tasks);
        match (self.does, tasks) {
            (Does::Compute, 1) => format!("{tenants} tenants, 1 busy task each"),
            (Does::Compute, _) => format!("{tenants} tenants, {tasks} busy tasks each"),
            (Does::Serve, _) => format!("{tenants} tenants, {tasks} tasks each that serve"),
        }
    }

    fn scenario(self, apart: Apart) -> Result<Scenario, Failure> {
        let mut scenario = shipped();
        let cookies = match apart {
            Apart::Nothing | Apart::NoSmt => 0,
            Apart::Tenants => self.tenants,
            Apart::Tasks => self.tenants * self.tasks,
        };
        scenario.cookies = (1..=cookies).map(|nth| format!("cookie-{nth}")).collect();
        let template = scenario.tasks[0].clone();
        let all = 0..self.tenants * self.tasks;
        scenario.tasks = all
            .map(|nth| {
                let mut task = template.clone();
                (task.name, task.instances) = (format!("task-{nth}"), 1);
                let cookie = nth.checked_rem(cookies).and_then(|nth| Cookie::new(nth + 1));
                task.properties.cookie = cookie.map_or(Update::Keep, Update::Set);
                if self.does == Does::Compute {
                    task.phases[0].steps = [Step::Run(Draw::Fixed(PIECE))].into();
                }
                task
            })
            .collect();
        if apart == Apart::NoSmt {
            let cores = scenario.machine.topology.cpus() / scenario.machine.topology.threads();
            scenario.machine.topology = Topology::flat(cores as u32).map_err(Failure::input)?;
            scenario.machine.smt = None;
        }
        scenario.duration = Some(LENGTH);
        Ok(scenario)
    }

    /// Runs the load with this seed.
    pub(super) fn run(self, apart: Apart, seed: u64) -> Result<Cell, Failure> {
        let scenario = self.scenario(apart)?;
        let mut answers = Answers {
            serve: self.does == Does::Serve,
            due: vec![None; scenario.tasks.len()],
            ..Answers::default()
        };
        simulate(&scenario, seed, &mut answers)?;
        let Answers { mut cell, collector, .. } = answers;
        let totals = collector.finish(Time::ZERO + LENGTH);
        let cpus = scenario.machine.topology.cpus();
        let forced = (0..cpus).map(|cpu| totals.cpu(CpuId::at(cpu)).forced);
        cell.forced = forced.fold(Nanos::ZERO, |sum, one| sum + one);
        cell.of = Nanos(totals.duration().0 * cpus as u64);
        Ok(cell)
    }
}

/// Counts the finished pieces, and measures the times of requests.
#[derive(Debug, Default)]
struct Answers {
    /// Whether the tasks wait for requests.
    serve: bool,
    /// The arrival of the request that each task handles or waits for; `None` before its first step.
    due: Vec<Option<Time>>,
    cell: Cell,
    collector: Collector,
}

impl Observer for &mut Answers {
    fn event(&mut self, event: &Event) {
        self.collector.event(event);
        match event.what {
            What::Wake { task, since, .. } => {
                if let Some(due) = &mut self.due[task.index()] {
                    *due = since;
                }
            }
            What::Step { task, step: 0, .. } => {
                if let Some(due) = self.due[task.index()]
                    && event.at >= FROM
                {
                    self.cell.done += 1;
                    if self.serve {
                        self.cell.took.record(event.at.since(due));
                    }
                }
                // A late task does not wait for its next request.
                self.due[task.index()] =
                    self.due[task.index()].map_or(Some(event.at), |due| Some(due + PERIOD));
            }
            _ => {}
        }
    }
}

impl Cell {
    /// The sum of several runs.
    pub(super) fn sum(all: impl IntoIterator<Item = Cell>) -> Option<Cell> {
        all.into_iter().reduce(|mut sum, one| {
            sum.took.merge(&one.took);
            let (forced, of) = (sum.forced + one.forced, sum.of + one.of);
            Cell { done: sum.done + one.done, forced, of, ..sum }
        })
    }

    /// The finished work, relative to the work without separation.
    fn times(&self, nothing: &Cell) -> f64 {
        rounded(self.done as f64 / nothing.done.max(1) as f64, 3)
    }

    fn forced_percent(&self) -> f64 {
        percent(self.forced.0 as f64 / self.of.0.max(1) as f64)
    }

    fn p99(&self) -> f64 {
        self.took.quantile(990).map_or(f64::NAN, micros)
    }
}

/// A row of the table.
pub(super) type Row = [Cell; WAYS.len()];

/// The largest difference between a throughput and that without separation, or with SMT off, where the two are claimed
/// to be similar. In sixteen seeds they differed by less than 0.001.
const SIMILAR: f64 = 0.02;

/// The least factor by which tenants of two busy tasks get more done with a cookie each than with SMT off. In sixteen
/// seeds it was 1.2, which is everything that the second threads add.
const MORE_DONE: f64 = 1.15;

/// The least factor by which the 99th percentile of requests is smaller with a cookie for each tenant than with SMT
/// off. In eight times two seeds it was 1.13 to 1.24.
const SOONER: f64 = 1.05;

/// The results of each of [`LOADS`].
#[derive(Clone, Debug)]
pub(super) struct Table(pub(super) [Row; LOADS.len()]);

/// Each load with each way.
pub(super) fn cases() -> Vec<(Load, Apart)> {
    LOADS.into_iter().flat_map(|load| WAYS.map(|apart| (load, apart))).collect()
}

impl Table {
    /// Adds up the runs of each of the [cases](cases()).
    pub(super) fn of(runs: Vec<Vec<Cell>>) -> Table {
        let sum = |runs| Cell::sum(runs).expect("there is a seed");
        let mut sums = runs.into_iter().map(sum);
        Table(LOADS.map(|_| WAYS.map(|_| sums.next().expect("as many as there are cases"))))
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let [half, full, shared, serving] = &self.0;
        let claim = |nth: usize, what: &str, unit: &str, [before, after]: [f64; 2], holds: bool| {
            let what = format!("{}: {what}", LOADS[nth].name());
            Claim::of(what, unit, [Some(before), Some(after)], ClaimVerdict::of(holds))
        };
        let times = |row: &Row, apart| row[apart as usize].times(&row[Apart::Nothing as usize]);
        let all = WAYS.map(|apart| times(half, apart));
        let most = all.into_iter().fold(0.0, f64::max);
        let least = all.into_iter().fold(f64::INFINITY, f64::min);
        let both = |row| [times(row, Apart::NoSmt), times(row, Apart::Tenants)];
        let (full, shared) = (both(full), both(shared));
        let p99 = [Apart::NoSmt, Apart::Tenants].map(|apart| serving[apart as usize].p99());
        let similar = least >= 1.0 - SIMILAR && most <= 1.0 + SIMILAR;
        let done = "done, SMT off and cookies";
        let alike = (full[1] / full[0] - 1.0).abs() <= SIMILAR;
        let (times, better) = ("times nothing", shared[1] >= shared[0] * MORE_DONE);
        let sooner = p99[1] * SOONER <= p99[0];
        vec![
            claim(0, "done, most and least of all ways", times, [most, least], similar),
            claim(1, done, times, full, alike),
            claim(2, done, times, shared, better),
            claim(3, "p99, SMT off and cookies", "us", p99, sooner),
        ]
    }

    /// The table as text.
    pub(super) fn text(&self) -> String {
        let header = [
            "tenants, 4 cores with two threads",
            "nothing",
            "a cookie a tenant",
            "a cookie a task",
            "SMT off",
        ];
        let mut text = table(&header, 1);
        for (load, row) in LOADS.iter().zip(&self.0) {
            let mut add = |what: &str, cell: &dyn Fn(&Cell) -> String| {
                let name = std::iter::once(format!("{}: {what}", load.name()));
                text.add_row(name.chain(row.iter().map(cell)));
            };
            let nothing = &row[Apart::Nothing as usize];
            add("done, times nothing", &|cell| format!("{:.3}", cell.times(nothing)));
            add("forced idle, %", &|cell| format!("{:.2}", cell.forced_percent()));
            if load.does == Does::Serve {
                add("p99, us", &|cell| format!("{:.1}", cell.p99()));
            }
        }
        text.trim_fmt() + "\n"
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::claims;
    use runyard_engine::task::TaskId;

    fn cell(done: u64, p99: u64) -> Cell {
        let mut took = Histogram::default();
        took.record(Nanos::from_micros(p99));
        Cell { done, took, ..Cell::default() }
    }

    pub(in super::super) fn good() -> Table {
        let row = |done: [u64; 4]| done.map(|done| cell(done, 1));
        let [nothing, tenants, tasks, off] =
            [1_300, 2_200, 4_500, 4_500].map(|p99| cell(1_000, p99));
        Table([
            row([1_000; 4]),
            row([1_000, 830, 830, 833]),
            row([1_000, 1_000, 830, 833]),
            [nothing, tenants, tasks, off],
        ])
    }

    /// The claims that fail if one cell has these results and the others are good.
    fn failed(row: usize, apart: Apart, cell: Cell) -> Vec<String> {
        let mut table = good();
        table.0[row][apart as usize] = cell;
        let failed = claims::tests::failed(table.claims());
        failed.iter().map(|what| what.split_once(':').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn what_the_announcement_says_holds() {
        assert_eq!(claims::tests::failed(good().claims()), [""; 0]);
        assert_eq!(good().claims().len(), LOADS.len());
    }

    #[test]
    fn each_claim_can_fail() {
        let half = "4 tenants, 1 busy task each";
        for (apart, done) in [(Apart::Tenants, 970), (Apart::Tasks, 970), (Apart::NoSmt, 1_030)] {
            assert_eq!(failed(0, apart, cell(done, 1)), [half]);
        }
        for done in [800, 860] {
            assert_eq!(failed(1, Apart::Tenants, cell(done, 1)), ["8 tenants, 1 busy task each"]);
        }
        assert_eq!(failed(2, Apart::Tenants, cell(940, 1)), ["4 tenants, 2 busy tasks each"]);
        let served = "4 tenants, 4 tasks each that serve";
        assert_eq!(failed(3, Apart::Tenants, cell(1_000, 4_400)), [served]);
        assert_eq!(failed(3, Apart::Tenants, Cell::default()), [served]);
    }

    #[test]
    fn a_tenant_or_each_of_its_tasks_has_a_cookie_or_none_has() {
        for (load, apart) in cases() {
            let scenario = load.scenario(apart).unwrap();
            let cookies: std::collections::BTreeSet<_> = scenario
                .tasks
                .iter()
                .filter_map(|task| match task.properties.cookie {
                    Update::Set(cookie) => Some(cookie),
                    _ => None,
                })
                .collect();
            let expected = match apart {
                Apart::Nothing | Apart::NoSmt => 0,
                Apart::Tenants => load.tenants,
                Apart::Tasks => load.tenants * load.tasks,
            };
            assert_eq!(cookies.len(), expected as usize, "{load:?} {apart:?}");
            assert_eq!(scenario.tasks.len(), (load.tenants * load.tasks) as usize);
            let threads = scenario.machine.topology.threads();
            assert_eq!(
                (threads, scenario.machine.topology.cpus()),
                match apart {
                    Apart::NoSmt => (1, 4),
                    _ => (2, 8),
                }
            );
        }
    }

    #[test]
    fn the_shipped_scenario_asks_for_seven_tenths_of_the_machine() {
        let shipped = shipped();
        assert_eq!((shipped.cookies.len(), shipped.instances().count()), (4, 16));
        for task in &shipped.tasks {
            let steps: Vec<_> = task.phases[0].steps.iter().collect();
            let [Step::Timer { period, .. }, Step::Run(Draw::Exponential(work))] = steps[..] else {
                panic!("{steps:?}")
            };
            assert_eq!(period, Draw::Fixed(PERIOD));
            let load = 16.0 * work.0 as f64 / PERIOD.0 as f64 / (4.0 * 1.2);
            assert!((load - 0.7).abs() < 0.001, "{load}");
        }
    }

    #[test]
    fn a_request_takes_as_long_as_from_its_period_to_the_next_wait() {
        let mut answers = Answers { serve: true, due: vec![None], ..Answers::default() };
        let task = TaskId(0);
        let step = |step| What::Step { task, phase: 0, step };
        let wake = |since: u64| What::Wake { task, since: Time(FROM.0 + since), by: None };
        let period = PERIOD.0;
        // The first request has to wait for the task; the second does not, since the first took too long; the third is
        // not finished.
        for (at, what) in [
            (100, wake(0)),
            (200, step(0)),
            (period + 50, wake(period)),
            (period + 70, step(1)),
            (2 * period + 500, step(0)),
            (2 * period + 500, step(1)),
            (2 * period + 800, step(0)),
            (3 * period + 10, wake(3 * period)),
        ] {
            let event = Event { at: Time(FROM.0 + at), cpu: CpuId(0), what };
            (&mut &mut answers).event(&event);
        }
        let Cell { done, took, .. } = answers.cell;
        assert_eq!((done, took.count()), (2, 2));
        assert_eq!((took.min(), took.max()), (Some(Nanos(800)), Some(Nanos(period + 500))));
    }
}
