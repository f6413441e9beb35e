//! The accounts that every run must satisfy, computed from its events alone, by other code than the simulator's.
//!
//! * Time does not run back. A CPU executes the task that it switched to, and is idle only after a switch to no task. A
//!   task has at most one CPU, is woken only while it sleeps, and is chosen only while it waits. So no task is lost,
//!   and none is in two places.
//! * The activities of a CPU cover the run, and the states of a task cover its life. The time that CPUs executed equals
//!   the time that tasks ran, to the nanosecond. The reports' own accounts agree.
//! * Every step follows the language: see [`crate::oracle`].

use crate::oracle::Oracle;
use crate::rig::Run;
use runyard_engine::attr::{GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::features::Feature;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::DEFAULT_SLACK;
use runyard_workload::Scenario;
use runyard_workload::arrivals::Receiver;
use runyard_workload::scenario::{TaskSpec, TimedChange};
use std::collections::BTreeSet;

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle,
    /// The CPU idles although tasks wait, because of their cookies.
    Forced,
    Overhead,
    Exec(TaskId),
}

#[derive(Clone, Debug)]
struct Cpu {
    doing: Doing,
    since: Time,
    holder: Option<TaskId>,
    /// The groups that are throttled here; the root stands for real-time tasks as such.
    throttled: BTreeSet<GroupId>,
    idle: Nanos,
    /// The part of the idle time that was forced.
    forced: Nanos,
    overhead: Nanos,
    executed: Nanos,
}

/// The state of a task in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Unborn,
    Asleep,
    Queued,
    On(CpuId),
    Gone,
}

/// A task, as its events describe it.
#[derive(Debug)]
pub struct Known<'s> {
    pub spec: &'s TaskSpec,
    pub name: String,
    pub life: Life,
    /// The begin of its life, and the time since when it is in its current state.
    born: Time,
    since: Time,
    pub runtime: Nanos,
    wait: Nanos,
    sleep: Nanos,
    /// Its own policy, not an inherited one.
    pub policy: Policy,
    /// Its task group.
    group: GroupId,
    /// Its timer slack, while it is not real-time.
    pub slack: Nanos,
    /// The begin of its last stretch on a CPU.
    pub executes_since: Time,
    /// Whether the timeline stopped it.
    stopped: bool,
}

/// The accounts of a run.
#[derive(Debug)]
pub struct Ledger<'s> {
    now: Time,
    cpus: Vec<Cpu>,
    tasks: Vec<Known<'s>>,
    oracle: Oracle<'s>,
    scenario: &'s Scenario,
    /// Whether affinities hold. They do not if the last of a task's CPUs may go offline, or if they change.
    affinities_hold: bool,
    /// Whether an owner of a mutex may use more than its group's budget.
    inherits: bool,
    /// Whether the kernel's bandwidth throttles task by task: each goes on to its return to user mode.
    by_task: bool,
    parents: Vec<GroupId>,
    /// Whether a CPU was found idle that had switched to a task.
    idle_with_a_task: bool,
}

impl<'s> Ledger<'s> {
    pub fn of(run: &'s Run) -> Ledger<'s> {
        let Run { scenario, outcome, .. } = run;
        let cpu = Cpu {
            doing: Doing::Idle,
            since: Time::ZERO,
            holder: None,
            throttled: BTreeSet::new(),
            idle: Nanos::ZERO,
            forced: Nanos::ZERO,
            overhead: Nanos::ZERO,
            executed: Nanos::ZERO,
        };
        let known = |task: &runyard_sim::Simulated| {
            let spec = thread(scenario, &task.thread);
            Known {
                spec,
                name: task.name.clone(),
                life: Life::Unborn,
                born: Time::ZERO,
                since: Time::ZERO,
                runtime: Nanos::ZERO,
                wait: Nanos::ZERO,
                sleep: Nanos::ZERO,
                policy: task.policy,
                group: task.group,
                slack: spec.properties.slack.unwrap_or(DEFAULT_SLACK),
                executes_since: Time::ZERO,
                stopped: false,
            }
        };
        Ledger {
            now: Time::ZERO,
            cpus: vec![cpu; scenario.machine.topology.cpus()],
            tasks: outcome.tasks.iter().map(known).collect(),
            oracle: Oracle::of(scenario, outcome.tasks.len()),
            scenario,
            affinities_hold: !scenario.timeline.iter().any(|timed| moves(&timed.change))
                && scenario.groups.iter().all(|group| group.cpuset.is_none()),
            inherits: scenario.objects.inherit(),
            by_task: scenario.model.config(scenario.machine.topology).rules.throttles_tasks,
            parents: scenario.groups.iter().map(|group| group.spec.parent).collect(),
            idle_with_a_task: false,
        }
    }

    /// Returns whether the limit of a group holds fair tasks only: the kernel's bandwidth.
    fn is_fair_only(&self, group: GroupId) -> bool {
        let limit = self.scenario.groups[group.index()].spec.limit;
        self.scenario.features.has(Feature::CfsBandwidth)
            && !limit.is_some_and(|it| it.is_per_cpu())
    }

    /// Returns a group and those above it, without the root.
    fn lineage(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let below_root = |group: GroupId| (group != GroupId::ROOT).then_some(group);
        let parent = move |group: &GroupId| below_root(self.parents[group.index()]);
        std::iter::successors(below_root(group), parent)
    }

    /// Returns the throttled groups at and above that of a task.
    fn throttled_above(&self, cpu: CpuId, task: TaskId) -> impl Iterator<Item = GroupId> {
        let throttled = &self.cpus[cpu.index()].throttled;
        self.lineage(self.tasks[task.index()].group).filter(|group| throttled.contains(group))
    }

    /// Checks the events of the run in order.
    ///
    /// # Panics
    /// At the first violation.
    #[track_caller]
    pub fn hold(mut self, run: &Run) {
        for (at, event) in run.events.iter().enumerate() {
            if let Some(wrong) = self.enter(event).err() {
                let seen = &run.events[at.saturating_sub(200)..=at];
                let name = |task: TaskId| run.outcome.tasks[task.index()].name.clone();
                let picture = runyard_report::timeline(seen, &name);
                panic!("at {}: {wrong}, but {event:?}\n{picture}", event.at);
            }
        }
        self.close(run);
    }

    fn enter(&mut self, event: &Event) -> Result<(), String> {
        let Event { at, cpu, what } = *event;
        want(at >= self.now, "time does not run back")?;
        self.now = at;
        match what {
            What::Spawn { task } => {
                want(self.known(task).life == Life::Unborn, "a task is born once")?;
                // A fork takes time, and several tasks may be in one.
                let slack_of = |parent: TaskId| self.tasks[parent.index()].slack;
                let inherited = self.oracle.forkers().map(slack_of).max();
                let known = self.known(task);
                known.slack = known.spec.properties.slack.or(inherited).unwrap_or(known.slack);
                known.born = at;
                self.becomes(task, Life::Asleep);
            }
            What::Wake { task, since, .. } => {
                want(self.known(task).life == Life::Asleep, "a task that is woken sleeps")?;
                want(since <= at, "a condition comes true before the wake-up")?;
                if !self.known(task).stopped {
                    self.oracle.woken(task, &self.tasks[task.index()], since, at)?;
                }
                self.becomes(task, Life::Queued);
            }
            What::Switch { prev, next } => self.switch(cpu, prev, next)?,
            What::Exec { task, policy } => {
                want(self.cpus[cpu.index()].holder == Some(task), "a CPU executes its task")?;
                want(self.known(task).policy == policy, "it is accounted under its policy")?;
                let throttled = &self.cpus[cpu.index()].throttled;
                let rt = throttled.contains(&GroupId::ROOT) && policy.class().has_rt_budget();
                want(!rt, "no real-time task executes where they are throttled")?;
                // In 6.18 a fair task goes on to its next step.
                let may =
                    |group| self.is_fair_only(group) && (self.by_task || !policy.class().is_fair());
                let below = self.throttled_above(cpu, task).any(|group| !may(group));
                want(!below || self.inherits, "no task executes below a throttled group")?;
                self.turn(cpu, Doing::Exec(task));
                self.known(task).executes_since = at;
            }
            What::Overhead => self.turn(cpu, Doing::Overhead),
            What::Idle | What::ForcedIdle { .. } => {
                want(self.cpus[cpu.index()].holder.is_none(), "a CPU with a task is not idle")?;
                let idle = what == What::Idle;
                self.turn(cpu, if idle { Doing::Idle } else { Doing::Forced });
            }
            What::Arrived { arrivals, refused } => {
                let to = self.scenario.arrivals[arrivals as usize].to;
                if let (Receiver::Semaphore(id), false) = (to, refused) {
                    self.oracle.is_posted(id);
                }
            }
            What::Timeline { change } => self.change(change),
            What::Step { task, phase, step } => self.step(cpu, task, (phase, step))?,
            What::Changed { task, policy, group, .. } => {
                let known = self.known(task);
                (known.policy, known.group) = (policy, group);
            }
            What::Throttled { group } => {
                let new = self.cpus[cpu.index()].throttled.insert(group);
                want(new, "a group that is throttled was not")?;
            }
            What::Unthrottled { group } => {
                let known = self.cpus[cpu.index()].throttled.remove(&group);
                want(known, "a group that is unthrottled was throttled")?;
            }
            _ => {}
        }
        want(!self.idle_with_a_task, "a CPU that switched to a task was not idle")
    }

    fn step(&mut self, cpu: CpuId, task: TaskId, (phase, step): (u32, u32)) -> Result<(), String> {
        let at = self.now;
        want(!self.known(task).stopped, "a task that is stopped takes no step")?;
        let doing = self.cpus[cpu.index()].doing;
        want(doing == Doing::Exec(task), "a step is taken by executing it")?;
        let is_fair = self.tasks[task.index()].policy.class().is_fair();
        let below = is_fair && self.throttled_above(cpu, task).next().is_some();
        want(!below || self.inherits, "no fair task takes a step below a throttled group")?;
        self.turn(cpu, doing);
        self.oracle.ends(task, &self.tasks[task.index()], at)?;
        let allowed = self.known(task).enter_phase(phase as usize, cpu);
        want(allowed || !self.affinities_hold, "a task executes where it may")?;
        self.oracle.begins(task, &self.tasks[task.index()], (phase, step), at)
    }

    fn switch(
        &mut self,
        cpu: CpuId,
        prev: Option<(TaskId, Left)>,
        next: Option<TaskId>,
    ) -> Result<(), String> {
        let holder = self.cpus[cpu.index()].holder;
        want(prev.map(|(task, _)| task) == holder, "a CPU switches from its task")?;
        // The events after the switch give the CPU's activity; until then it does not execute. An idle CPU that finds
        // no task stays idle without an event.
        let doing = self.cpus[cpu.index()].doing;
        let idle = matches!(doing, Doing::Idle | Doing::Forced);
        self.turn(cpu, if idle { doing } else { Doing::Overhead });
        if let Some((task, left)) = prev {
            want(self.known(task).life == Life::On(cpu), "a task leaves the CPU that it has")?;
            let life = match left {
                Left::Preempted | Left::Yielded => Life::Queued,
                Left::Blocked => Life::Asleep,
                Left::Exited => Life::Gone,
            };
            if left == Left::Exited && !self.known(task).stopped {
                self.oracle.ends(task, &self.tasks[task.index()], self.now)?;
            }
            self.becomes(task, life);
        }
        if let Some(task) = next {
            want(self.known(task).life == Life::Queued, "a task that is chosen waits")?;
            self.becomes(task, Life::On(cpu));
        }
        self.cpus[cpu.index()].holder = next;
        Ok(())
    }

    /// Notes the tasks that a change of the timeline stops.
    fn change(&mut self, nth: u32) {
        let change = &self.scenario.timeline[nth as usize].change;
        let TimedChange::Stop(task) = change else { return };
        let name = &self.scenario.tasks[task.0 as usize].name;
        for known in self.tasks.iter_mut().filter(|known| known.spec.name == *name) {
            known.stopped |= !matches!(known.life, Life::Unborn | Life::Gone);
        }
    }

    fn known(&mut self, task: TaskId) -> &mut Known<'s> {
        &mut self.tasks[task.index()]
    }

    fn turn(&mut self, cpu: CpuId, doing: Doing) {
        let now = self.now;
        let own = &mut self.cpus[cpu.index()];
        let span = now.since(own.since);
        match own.doing {
            Doing::Idle | Doing::Forced => {
                self.idle_with_a_task |= own.holder.is_some() && span > Nanos::ZERO;
                own.idle += span;
                own.forced += if own.doing == Doing::Forced { span } else { Nanos::ZERO };
            }
            Doing::Overhead => own.overhead += span,
            Doing::Exec(task) => {
                own.executed += span;
                let known = &mut self.tasks[task.index()];
                known.runtime += span;
                // The time on a CPU counted as waiting until the task turned out to be executing.
                known.settle(now);
                known.wait = known.wait.saturating_sub(span);
            }
        }
        (own.since, own.doing) = (now, doing);
    }

    fn becomes(&mut self, task: TaskId, life: Life) {
        let now = self.now;
        let known = self.known(task);
        known.settle(now);
        known.life = life;
    }

    /// Closes and compares the accounts at the end of the run.
    #[track_caller]
    fn close(mut self, run: &Run) {
        self.now = run.end();
        for cpu in 0..self.cpus.len() {
            self.turn(CpuId::at(cpu), Doing::Idle);
        }
        let totals = run.totals();
        let mut executed = Nanos::ZERO;
        for (at, own) in self.cpus.iter().enumerate() {
            let parts = own.idle + own.overhead + own.executed;
            run.is(&format!("time of CPU {at}"), parts, run.end().since(Time::ZERO));
            let told = totals.cpu(CpuId::at(at));
            run.is(&format!("CPU {at}, forced idle"), told.forced, own.forced);
            let told = (told.idle, told.overhead, told.rt + told.normal + told.idle_policy);
            run.is(&format!("CPU {at}"), told, (own.idle, own.overhead, own.executed));
            executed += own.executed;
        }
        let mut ran = Nanos::ZERO;
        for (at, known) in self.tasks.iter_mut().enumerate() {
            known.settle(run.end());
            let name = known.name.as_str();
            if known.life == Life::Unborn {
                let comes = !run.scenario.timeline.is_empty();
                run.holds(comes, &format!("{name} was born"));
                continue;
            }
            let life = known.since.since(known.born);
            run.is(&format!("life of {name}"), known.runtime + known.wait + known.sleep, life);
            let told = totals.task(TaskId(at as u64)).expect("a task with events has an account");
            let told = (told.runtime, told.wait, told.sleep);
            run.is(&format!("account of {name}"), told, (known.runtime, known.wait, known.sleep));
            ran += known.runtime;
        }
        run.is("the time that CPUs executed", executed, ran);
        let cut_short = !run.outcome.violations.is_empty() || run.scenario.duration.is_some();
        let left = self.oracle.hope(&self.tasks).filter(|_| !cut_short);
        run.is("no task is left that could go on", left, None::<String>);
    }
}

impl Known<'_> {
    /// Applies the properties of a phase, and returns whether they allow the task on `cpu`.
    fn enter_phase(&mut self, phase: usize, cpu: CpuId) -> bool {
        let (thread, phase) = (&self.spec.properties, &self.spec.phases[phase].properties);
        self.slack = phase.slack.unwrap_or(self.slack);
        phase.cpus.as_ref().or(thread.cpus.as_ref()).is_none_or(|cpus| cpus.contains(cpu))
    }

    fn settle(&mut self, now: Time) {
        let span = now.since(self.since);
        match self.life {
            Life::Asleep => self.sleep += span,
            Life::Queued | Life::On(_) => self.wait += span,
            Life::Unborn | Life::Gone => {}
        }
        if self.life != Life::Gone {
            self.since = now;
        }
    }
}

/// Returns whether a task may execute elsewhere than its program says after a change.
fn moves(change: &TimedChange) -> bool {
    match change {
        TimedChange::Cpu { .. } => true,
        TimedChange::Task { properties, .. } => properties.cpus.is_some(),
        _ => false,
    }
}

/// Returns a thread object by its name.
fn thread<'s>(scenario: &'s Scenario, name: &str) -> &'s TaskSpec {
    let spec = scenario.tasks.iter().find(|spec| spec.name == name);
    spec.unwrap_or_else(|| panic!("{name} is a thread object"))
}

/// Checks an expectation. `what` describes it in the error.
pub fn want(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
