//! The causes of all waits. The sums of each report are compared with a naive walk over all events, which asks after each
//! event why each task waits. So are the steps of a history, which must not change the sums.

use crate::late::{Cpu, Doing, importance, report, report_by, threads};
use crate::rig::{FREE, Run, ms, world};
use runyard_engine::attr::{Cookie, GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Level;
use runyard_report::{Cause, CauseTimes, Collector, Report};
use runyard_workload::scenario::{Costs, TaskAttr};
use std::collections::BTreeMap;

/// The number of events, times the number of tasks, that the naive walk examines.
const PATIENCE: usize = 1 << 17;

/// Compares the sums of waits of a report with the events.
pub fn hold(run: &Run, report: &Report) {
    if run.events.len() * report.tasks.len() > PATIENCE {
        return;
    }
    let with_history = report_by(run, Collector::with_history());
    let history = with_history.history.as_ref().expect("it is kept");
    let naive = Naive::new(run, history.step_ns).walk();
    for (at, (told, beside)) in report.tasks.iter().zip(&with_history.tasks).enumerate() {
        let waits = naive.tasks.get(&TaskId(at as u64)).map(|task| task.waits);
        run.is(&format!("{} waits", told.name), &told.waits, &Some(waits.unwrap_or_default()));
        run.is(&format!("{} waits with a history", told.name), &beside.waits, &told.waits);
    }
    let machine = |report: &Report| (report.machine.waits, report.machine.wasted);
    run.is("waits with a history", machine(&with_history), machine(report));
    let mut steps = naive.steps;
    steps.values_mut().for_each(|steps| steps.resize(history.rt_ns.len(), 0));
    run.is("the steps of waits", &history.waits, &Some(steps));
    for (cause, steps) in history.waits.iter().flatten() {
        let all = report.machine.waits.map(|waits| waits[*cause]);
        run.is(&format!("the steps of {cause:?}"), Some(steps.iter().sum::<u64>()), all);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Status {
    #[default]
    Away,
    Interrupted,
    Queued,
}

struct Task<'r> {
    attr: &'r TaskAttr,
    status: Status,
    /// It has run since it was chosen last.
    executes: Option<CpuId>,
    on: CpuId,
    in_flight: bool,
    lost: bool,
    unswitched: bool,
    passed_over: bool,
    placed: bool,
    waits: CauseTimes,
}

struct Naive<'r> {
    run: &'r Run,
    tasks: BTreeMap<TaskId, Task<'r>>,
    cpus: Vec<Cpu>,
    due: Vec<bool>,
    /// The task that executed last since the CPU was idle.
    last: Vec<Option<(TaskId, Policy)>>,
    step_ns: u64,
    /// By cause, the waits of all tasks in each step, up to the last step with some.
    steps: BTreeMap<Cause, Vec<u64>>,
}

impl<'r> Naive<'r> {
    fn new(run: &'r Run, step_ns: u64) -> Naive<'r> {
        let cpus = run.scenario.machine.topology.cpus();
        Naive {
            run,
            tasks: BTreeMap::new(),
            cpus: vec![Cpu::idle(); cpus],
            due: vec![false; cpus],
            last: vec![None; cpus],
            step_ns,
            steps: BTreeMap::new(),
        }
    }

    fn walk(mut self) -> Naive<'r> {
        let mut asked = self.run.asked.iter().peekable();
        let mut now = Time::ZERO;
        for (nth, event) in self.run.events.iter().enumerate() {
            while let Some((_, task, attr)) = asked.next_if(|(at, ..)| *at <= nth) {
                self.asks(*task, attr);
            }
            self.pass(now, event.at);
            now = event.at;
            self.event(event);
            self.unplace();
        }
        self.pass(now, self.run.end());
        self
    }

    /// Gives a span to the causes of all waits.
    fn pass(&mut self, from: Time, to: Time) {
        let span = to.since(from);
        if span == Nanos::ZERO {
            return;
        }
        let waiting = self.tasks.iter().filter(|(_, it)| it.status != Status::Away);
        let causes: Vec<_> = waiting.map(|(id, it)| (*id, self.cause(it))).collect();
        for (id, cause) in causes {
            self.tasks.get_mut(&id).unwrap().waits[cause] += span.0;
            let steps = self.steps.entry(cause).or_default();
            for step in from.0 / self.step_ns..to.0.div_ceil(self.step_ns) {
                let (begin, end) = (step * self.step_ns, (step + 1) * self.step_ns);
                steps.resize(steps.len().max(step as usize + 1), 0);
                steps[step as usize] += to.0.min(end) - from.0.max(begin);
            }
        }
    }

    fn asks(&mut self, id: TaskId, attr: &'r TaskAttr) {
        let task = self.tasks.entry(id).or_insert_with(|| Task {
            attr,
            status: Status::Away,
            executes: None,
            on: CpuId(0),
            in_flight: false,
            lost: false,
            unswitched: false,
            passed_over: false,
            placed: false,
            waits: CauseTimes::default(),
        });
        task.attr = attr;
        if task.status == Status::Queued && !task.in_flight {
            self.come(id);
        }
    }

    fn event(&mut self, event: &Event) {
        let at = event.cpu.index();
        match event.what {
            What::Exec { task, policy } => {
                self.stop(event.cpu, Some(task));
                let another = self.last[at].map(|(last, _)| last) != Some(task);
                (self.cpus[at].doing, self.cpus[at].exec) =
                    (Doing::Exec(task, policy), Some((task, policy)));
                self.last[at] = Some((task, policy));
                let it = self.tasks.get_mut(&task).unwrap();
                (it.status, it.executes) = (Status::Away, Some(event.cpu));
                if another {
                    self.switch(event.cpu);
                }
            }
            What::Overhead => {
                self.stop(event.cpu, None);
                let idle = !matches!(self.cpus[at].doing, Doing::Exec(..));
                let idle = idle && self.cpus[at].doing != Doing::Overhead(false);
                self.cpus[at].doing = Doing::Overhead(idle);
            }
            What::Idle | What::ForcedIdle { .. } => {
                self.stop(event.cpu, None);
                let idle = event.what == What::Idle;
                self.cpus[at].doing = if idle { Doing::Idle } else { Doing::Forced };
                (self.cpus[at].exec, self.last[at]) = (None, None);
                self.switch(event.cpu);
            }
            What::Switch { prev: Some((task, left)), next } => {
                self.leave(event.cpu, (task, left), next);
            }
            What::Wake { task, .. } => {
                let it = self.tasks.get_mut(&task).unwrap();
                if it.status == Status::Away && it.executes.is_none() {
                    (it.status, it.on, it.lost, it.in_flight) =
                        (Status::Queued, event.cpu, false, false);
                    self.come(task);
                }
            }
            What::Moved { task } => {
                let it = self.tasks.get_mut(&task).unwrap();
                (it.on, it.in_flight) = (event.cpu, it.status == Status::Queued);
            }
            What::Landed { task } => {
                let it = self.tasks.get_mut(&task).unwrap();
                if std::mem::take(&mut it.in_flight) {
                    self.come(task);
                }
            }
            What::PassedOver { task } => {
                let it = &self.tasks[&task];
                let waits = it.status == Status::Queued && !it.in_flight && it.on == event.cpu;
                let passes = waits && self.throttled(it).is_none() && self.last[at].is_some();
                self.tasks.get_mut(&task).unwrap().passed_over |= passes;
            }
            What::SwitchDue => self.due[at] = true,
            What::Throttled { group } => {
                self.cpus[at].throttled.insert(group);
            }
            What::Unthrottled { group } => {
                self.cpus[at].throttled.remove(&group);
            }
            _ => {}
        }
    }

    /// Notes that a CPU does not execute its task, unless it goes on with it.
    fn stop(&mut self, cpu: CpuId, but: Option<TaskId>) {
        let Doing::Exec(task, _) = self.cpus[cpu.index()].doing else { return };
        if Some(task) != but {
            let it = self.tasks.get_mut(&task).unwrap();
            if it.status == Status::Away && it.executes == Some(cpu) {
                (it.status, it.on) = (Status::Interrupted, cpu);
            }
        }
    }

    fn leave(&mut self, cpu: CpuId, (task, left): (TaskId, Left), next: Option<TaskId>) {
        let stays = matches!(left, Left::Preempted | Left::Yielded);
        if stays && next == Some(task) {
            return;
        }
        if matches!(self.cpus[cpu.index()].doing, Doing::Exec(it, _) if it == task) {
            self.cpus[cpu.index()].doing = Doing::Overhead(false);
        }
        let it = self.tasks.get_mut(&task).unwrap();
        it.executes = None;
        match (stays, it.status) {
            (true, Status::Queued) => {}
            (true, _) => {
                (it.status, it.on) = (Status::Queued, cpu);
                (it.lost, it.in_flight) = (left == Left::Preempted, false);
                self.come(task);
            }
            (false, _) => it.status = Status::Away,
        }
    }

    /// Notes that a task came to the run queue of its CPU.
    fn come(&mut self, id: TaskId) {
        let it = &self.tasks[&id];
        let (own, at) = (importance(it.attr.policy), it.on.index());
        let unswitched = self.last[at].is_some_and(|(_, policy)| importance(policy) < own);
        let is_free = match self.cpus[at].doing {
            Doing::Idle => true,
            Doing::Exec(_, policy) => importance(policy) < own,
            Doing::Forced | Doing::Overhead(_) => false,
        };
        let placed = !is_free && self.free(it, None).0;
        let it = self.tasks.get_mut(&id).unwrap();
        (it.unswitched, it.passed_over, it.placed) = (unswitched, false, placed);
    }

    /// Notes that a CPU executes another task, or none.
    fn switch(&mut self, cpu: CpuId) {
        self.due[cpu.index()] = false;
        for it in self.tasks.values_mut().filter(|it| it.on == cpu && !it.in_flight) {
            (it.unswitched, it.passed_over) = (false, false);
        }
    }

    fn unplace(&mut self) {
        let lost =
            |(id, it): (&TaskId, &Task<'_>)| (it.placed && !self.free(it, None).0).then_some(*id);
        let lost: Vec<_> = self.tasks.iter().filter_map(lost).collect();
        for id in lost {
            self.tasks.get_mut(&id).unwrap().placed = false;
        }
    }

    /// Returns whether a CPU is free that a task may use, and whether another one is. One does not count.
    fn free(&self, it: &Task<'_>, but: Option<usize>) -> (bool, bool) {
        let own = importance(it.attr.policy);
        let heeds = threads(self.run) > 1;
        let topology = self.run.scenario.machine.topology;
        let is_idle = |cpu: usize| self.cpus[cpu].doing == Doing::Idle;
        let is_free = |&cpu: &usize| match (self.cpus[cpu].doing, self.cpus[cpu].exec) {
            (Doing::Idle, _) => !heeds || topology.span(CpuId::at(cpu), Level::Smt).all(is_idle),
            (Doing::Exec(..) | Doing::Overhead(false), Some((_, policy))) => {
                importance(policy) < own
            }
            _ => false,
        };
        let affinity = &it.attr.affinity;
        let may = |cpu: usize| {
            affinity.contains(CpuId::at(cpu)) && (affinity.len() > 1 || self.cpus.len() == 1)
        };
        let mut free = (false, false);
        for cpu in (0..self.cpus.len()).filter(|&cpu| Some(cpu) != but).filter(is_free) {
            *(if may(cpu) { &mut free.0 } else { &mut free.1 }) = true;
        }
        free
    }

    fn throttled(&self, it: &Task<'_>) -> Option<Cause> {
        let is_rt = importance(it.attr.policy) > 0;
        let all = &self.cpus[it.on.index()].throttled;
        let mut at = it.attr.group;
        if is_rt {
            return all.contains(&GroupId::ROOT).then_some(Cause::RtThrottled);
        }
        while at != GroupId::ROOT {
            if all.contains(&at) {
                return Some(Cause::Throttled);
            }
            at = self.run.scenario.groups[at.index()].spec.parent;
        }
        None
    }

    fn cookie(&self, id: TaskId) -> Option<u32> {
        let attr = self.tasks[&id].attr;
        self.run.scenario.cookie_of(attr.cookie, attr.group).map(Cookie::get)
    }

    fn cause(&self, it: &Task<'_>) -> Cause {
        if it.status == Status::Interrupted {
            return Cause::Cost;
        }
        if it.in_flight {
            return Cause::Migration;
        }
        if let Some(cause) = self.throttled(it) {
            return cause;
        }
        let at = it.on.index();
        let (task, other) = match self.cpus[at].doing {
            Doing::Forced => return Cause::CoreCookie,
            Doing::Idle | Doing::Overhead(_) => return Cause::Cost,
            Doing::Exec(..) if self.due[at] => return Cause::Kernel,
            Doing::Exec(task, policy) => (task, importance(policy)),
        };
        let own = importance(it.attr.policy);
        let cookie = self.run.scenario.cookie_of(it.attr.cookie, it.attr.group).map(Cookie::get);
        let differs = threads(self.run) > 1 && self.cookie(task) != cookie;
        let (inside, outside) = self.free(it, Some(at));
        match () {
            () if differs && (it.passed_over || other < own) => Cause::CoreCookie,
            () if other < own && it.unswitched && !it.passed_over => Cause::Cost,
            () if inside && it.placed => Cause::Placement,
            () if inside => Cause::Balance,
            () if outside => Cause::Affinity,
            () if it.passed_over => Cause::ProtectedSlice,
            () if other == own && own <= 0 => Cause::Turn,
            () if it.lost => Cause::Preempted,
            () => Cause::Important,
        }
    }
}

/// Returns the waits of `task`.
#[track_caller]
fn waits(run: &Run, task: &str) -> CauseTimes {
    let report = report(run);
    report.tasks.iter().find(|it| it.name == task).and_then(|it| it.waits).expect("they are known")
}

/// A limit of 2 ms in 10 ms: a task of 6 ms runs in three periods, and is throttled in the middle of its run.
#[test]
fn a_task_waits_for_the_budget_of_its_group_in_the_middle_of_its_run() {
    let text = "{'groups': {'/g': {'runtime': 2000, 'period': 10000}},
        'tasks': {'t': {'group': '/g', 'loop': 1, 'run': 6000}}}";
    let run = world().run_text(&text.replace('\'', "\""));
    let told = waits(&run, "t");
    assert_eq!(told.longest().first().map(|it| it.0), Some(Cause::Throttled), "{told:?}");
    assert!(told[Cause::Throttled] * 100 >= told.total() * 99, "{told:?}");
}

/// A real-time task that loses its CPU to a more important one, fair tasks in turn, and a woken one.
#[test]
fn a_wait_for_others_is_told_by_how_it_began() {
    let run = world().run(
        "'rt': {'loop': 1, 'delay': 1000, 'policy': 'SCHED_FIFO', 'priority': 9, 'run': 3000},
         'low': {'loop': 1, 'policy': 'SCHED_FIFO', 'priority': 5, 'run': 2000},
         'late': {'loop': 1, 'delay': 2000, 'policy': 'SCHED_FIFO', 'priority': 5, 'run': 100}",
    );
    let of = |task, cause| waits(&run, task)[cause];
    assert_eq!(of("low", Cause::Preempted), 3_000_000);
    assert_eq!(of("late", Cause::Important), 3_000_000);
    let run = world().run("'a': {'loop': 1, 'run': 20000}, 'b': {'loop': 1, 'run': 20000}");
    let [a, b] = ["a", "b"].map(|task| waits(&run, task));
    assert!(a[Cause::Turn] > 0 && b[Cause::Turn] > 0, "{a:?} {b:?}");
    assert_eq!(
        a.total() + b.total(),
        a[Cause::Turn] + b[Cause::Turn] + a[Cause::ProtectedSlice] + b[Cause::ProtectedSlice]
    );
}

/// A system call of 5 ms keeps a waiting task off under voluntary preemption, and a migration takes its time.
#[test]
fn the_kernel_and_a_migration_are_causes() {
    let text = "{'machine': {'cpus': 1, 'preemption': 'none'}, 'tasks': {
        'call': {'loop': 1, 'kernel': 5000, 'run': 10},
        'rt': {'loop': 1, 'delay': 1000, 'policy': 'SCHED_FIFO', 'priority': 9, 'run': 100}}}";
    let run = world().run_text(&text.replace('\'', "\""));
    assert_eq!(waits(&run, "rt")[Cause::Kernel], 4_000_000, "{:?}", waits(&run, "rt"));

    let costs = Costs { migration: Nanos(50_000), ..FREE };
    let run = world().cpus(2).costs(costs).run("'hog': {'instance': 3, 'loop': 1, 'run': 30000}");
    let all = report(&run).machine.waits.expect("they are known");
    assert!(
        all[Cause::Migration] >= 50_000 && all[Cause::Migration].is_multiple_of(50_000),
        "{all:?}"
    );
}

/// Two tasks are bound to one CPU of two. The other CPU is idle while one of them waits.
#[test]
fn idle_time_beside_a_task_that_may_not_use_it_is_wasted_by_affinity() {
    let run = world().cpus(2).run("'t': {'instance': 2, 'cpus': [0], 'loop': 1, 'run': 5000}");
    let machine = report(&run).machine;
    assert_eq!(run.end(), ms(10));
    assert_eq!(machine.wasted.map(|it| it[Cause::Affinity]), machine.wasted_ns);
    assert_eq!(machine.wasted, machine.waits, "one task waits, and one CPU is idle");
    assert!(machine.wasted_ns >= Some(5_000_000), "{machine:?}");
}
