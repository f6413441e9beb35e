//! From events to totals: [`Collector`] takes each [`Event`] of a run as it happens, and [`Totals`] are the results.
//!
//! Hosts emit millions of events a second, so an event may cost a few nanoseconds. Accounts are in arrays indexed by
//! CPU and by task, and only their growth allocates. `account` has the meaning of the events for one CPU and for one
//! task.
//!
//! Invariants, asserted by [`Collector::check`]:
//! * The parts of each CPU's account sum to its time, and the parts of each task's account to its life.
//! * A CPU executes a task exactly if the task executes on this CPU. So the time that CPUs spent in tasks is the time
//!   that tasks ran, to the nanosecond.
//! * Each switch to a task on some CPU is a switch of that task.
//! * The parts of each of the worst wake-ups of a task sum to the whole wait, and the first of them is the longest.
//! * The causes of the waits of each task sum to the time that it waited. Those of all CPUs, and those of all groups, sum to
//!   those of all tasks.
//! * The time that CPUs were forced idle is the time that cookies forced them idle, to the nanosecond.
//!
//! They hold for every stream of events, even a wrong one. Two rules make this so:
//! * The clock of the collector never runs back. If a host's events of different CPUs are out of order, a late event
//!   counts as if it came together with the latest one before it. The error of a span is at most the delay.
//! * A CPU whose task has left, by its own switch or by executing elsewhere, works for the scheduler until another
//!   event changes that.

use crate::account::{CpuAccount, CpuTotals, Doing, Executes, TaskAccount, TaskTotals};
use crate::balance::{BalanceReport, BalanceTotals, Balances};
use crate::cookies;
use crate::course::{Courses, SeriesReport};
use crate::histogram::Histogram;
use crate::history::History;
use crate::lanes::Lanes;
use crate::names::Names;
use crate::pressure::{Pressure, Pressures};
use crate::schedstat::{Schedstat, SchedstatVersion};
use crate::waits::{WaitSteps, Waits};
use crate::why::{Bad, BlameReport, Cause, CauseTimes, Explained, Explanation, Why};
use crate::within::TasksWithin;
use runyard_engine::attr::{Attr, Cookie, GroupId, Policy};
use runyard_engine::balance::IdleKind;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::{Level, Topology};
use std::ops::Range;

/// The receiver of the events of one run, which begins at [`Time::ZERO`] with all CPUs idle.
#[derive(Debug, Default)]
pub struct Collector {
    clock: Time,
    /// The beginning of the part of the run that counts.
    begin: Time,
    cpus: Vec<CpuAccount>,
    tasks: Vec<TaskAccount>,
    /// The time that tasks ran in groups that were neither their first nor their last.
    passed_groups: Vec<Nanos>,
    /// The time that CPUs were forced idle, by the [place](cookies::place) of the cookie that caused it.
    forced_idle: Vec<Nanos>,
    counts: Counts,
    balances: Balances,
    /// Kept only for reports that show the history.
    history: Option<Box<History>>,
    /// Kept only for reports that show the worst wake-ups.
    why: Option<Box<Why>>,
    /// Kept only for a timeline.
    lanes: Option<Box<Lanes>>,
    /// Kept only for the text of `/proc/schedstat`.
    schedstat: Option<Box<Schedstat>>,
    /// Kept only if the host tells why tasks wait.
    waits: Option<Box<Waits>>,
    /// Kept only with a history and the waits.
    wait_steps: Option<Box<WaitSteps>>,
    /// Kept only if the host tells the groups of tasks.
    pressures: Option<Box<Pressures>>,
    /// Kept only for figures of spans of the run.
    within: Option<Box<TasksWithin>>,
    /// Kept only for reports that show latencies over time.
    courses: Option<Box<Courses>>,
}

/// The counts of the machine as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All events except those that only explain waits.
    pub events: u64,
    /// Decisions of the scheduler, with any result.
    pub decisions: u64,
    /// Timer interrupts, including ticks.
    pub timer_interrupts: u64,
    /// Timers armed. Here and below, ticks do not count.
    pub timers_armed: u64,
    /// Timers that expired and were run.
    pub timers_expired: u64,
    /// Expired timers that only the greedy walk ran so early.
    pub timers_greedy: u64,
    /// Timers cancelled before they expired.
    pub timers_cancelled: u64,
}

/// The accounts of a finished run; nothing in them is open.
#[derive(Debug)]
pub struct Totals(Collector);

impl Collector {
    /// A collector that also keeps the history of the CPUs, in half a MiB for a run of any length.
    #[must_use]
    pub fn with_history() -> Collector {
        Collector { history: Some(Box::new(History::new())), ..Collector::default() }
    }

    /// A collector that also keeps the occupancy of the first 1,024 CPUs: 16 bytes for each span, about five spans for a
    /// switch, and at most 80 MB.
    #[must_use]
    pub fn with_timeline() -> Collector {
        Collector { lanes: Some(Box::new(Lanes::new())), ..Collector::with_history() }
    }

    /// The same collector, which also finds the worst wake-ups of each task. `tasks` is the expected number of tasks.
    #[must_use]
    pub fn with_worst(self, tasks: usize) -> Collector {
        Collector { why: Some(Box::new(Why::new(tasks))), ..self }
    }

    /// The same collector, which also sums all waits by cause, with a history also in each of its steps. The host must explain
    /// waits, and report the attributes of tasks ([`Collector::asks`]). All events are of CPUs of this machine.
    #[must_use]
    pub fn with_waits(self, machine: Explained) -> Collector {
        let wait_steps = self.history.as_ref().map(|_| Box::new(WaitSteps::new(Time::ZERO)));
        Collector { waits: Some(Box::new(Waits::new(machine))), wait_steps, ..self }
    }

    /// The same collector, which also finds the causes of the worst wake-ups. The host must report the attributes of
    /// tasks ([`Collector::asks`]).
    #[must_use]
    pub fn with_causes(self, tasks: usize, machine: Explained) -> Collector {
        Collector { why: Some(Box::new(Why::explaining(tasks, machine))), ..self }
    }

    /// The same collector, which also keeps the counters of `/proc/schedstat` for the CPUs of `topology`
    /// ([`Totals::schedstat`]).
    #[must_use]
    pub fn with_schedstat(self, topology: Topology) -> Collector {
        Collector { schedstat: Some(Box::new(Schedstat::new(topology))), ..self }
    }

    /// The same collector, which also counts the [pressure](Pressure) on task groups, given by their parents. The host
    /// must report the attributes of tasks ([`Collector::asks`]).
    #[must_use]
    pub fn with_pressure(self, parents: &[Option<GroupId>]) -> Collector {
        Collector { pressures: Some(Box::new(Pressures::new(parents))), ..self }
    }

    /// The same collector, which also keeps the wake-up latencies that end within each of these spans of the run
    /// ([`Totals::wakeups_within`]).
    #[must_use]
    pub fn with_spans(self, spans: &[Range<Time>]) -> Collector {
        let within = (!spans.is_empty()).then(|| Box::new(TasksWithin::new(spans)));
        Collector { within, ..self }
    }

    /// The same collector, which also keeps wake-up latencies over time: of the first threads, by their numbers, and of the
    /// first task groups, given with their parents. The host must report the threads ([`Collector::runs`]) and the attributes
    /// of tasks ([`Collector::asks`]).
    #[must_use]
    pub fn with_series(
        self,
        threads: Vec<String>,
        groups: Vec<(String, Option<GroupId>)>,
    ) -> Collector {
        Collector { courses: Some(Box::new(Courses::new(threads, groups))), ..self }
    }

    /// Asks for the wait of `task` that begins at `since`, part by part ([`Totals::explanation`]). Only a collector
    /// that looks for the worst wake-ups heeds this.
    pub fn watch(&mut self, task: TaskId, since: Time) {
        if let Some(why) = &mut self.why {
            why.watch(task, since);
        }
    }

    /// Asks for the sums of all waits of `task` in `span` ([`Totals::told`]). Only a collector that looks for causes heeds
    /// this.
    pub fn tell(&mut self, task: TaskId, span: Range<Time>) {
        if let Some(why) = &mut self.why {
            why.tell(task, span);
        }
    }

    /// Makes the rest of the run all that counts, from `at` on. Spans count with their part after it; a wake-up's latency
    /// that ends after it counts whole.
    pub fn count_from(&mut self, at: Time) {
        self.clock = self.clock.max(at);
        let now = self.clock;
        self.begin = now;
        self.cpus.iter_mut().for_each(|cpu| cpu.count_from(now));
        self.tasks.iter_mut().for_each(|task| task.count_from(now));
        self.passed_groups.clear();
        self.forced_idle.clear();
        (self.counts, self.balances) = (Counts::default(), Balances::default());
        self.history = self.history.take().map(|_| Box::new(History::new()));
        self.lanes = self.lanes.take().map(|_| Box::new(Lanes::new()));
        self.waits.iter_mut().for_each(|waits| waits.count_from(now));
        self.wait_steps.iter_mut().for_each(|steps| **steps = WaitSteps::new(now));
        self.why.iter_mut().for_each(|why| why.forget_worst());
        self.schedstat.iter_mut().for_each(|schedstat| schedstat.forget());
        self.pressures.iter_mut().for_each(|pressures| pressures.count_from(now));
        self.courses.iter_mut().for_each(|courses| courses.forget());
    }

    /// Notes that `task` runs the program of this thread.
    pub fn runs(&mut self, task: TaskId, thread: u32) {
        if let Some(courses) = &mut self.courses {
            courses.runs(task, thread as usize);
        }
    }

    /// Notes the present attributes of `task`, and the slack that its timers have. Its `cookie` is its own or that of its
    /// task group.
    pub fn asks(&mut self, task: TaskId, attr: &Attr, slack: Nanos, cookie: Option<Cookie>) {
        self.count_interrupted(None, task);
        if let Some(waits) = &mut self.waits {
            waits.asks(task, attr, cookie, self.clock);
        }
        if let Some(why) = &mut self.why {
            why.asks(task, attr, slack, cookie);
        }
        if let Some(pressures) = &mut self.pressures {
            pressures.asks(task, attr.group);
        }
        if let Some(courses) = &mut self.courses {
            courses.joins(task, attr.group);
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        self.clock = self.clock.max(event.at);
        if self.wait_steps.as_ref().is_some_and(|steps| steps.is_due(self.clock)) {
            self.count_wait_steps();
        }
        self.counts.events += 1;
        match event.what {
            What::Exec { task, policy } => self.execute(event.cpu, task, policy),
            What::Overhead => self.turn(event.cpu, Doing::Overhead),
            What::Idle => self.turn(event.cpu, Doing::Idle),
            What::ForcedIdle { cookie } => self.turn(event.cpu, Doing::Forced { cookie }),
            What::Switch { prev, next } => self.switch(event.cpu, prev, next),
            What::Wake { task, since, by } => {
                let now = self.clock;
                let account = self.task(task);
                let was_queued = account.is_queued();
                let counts = account.wake(since, by, now);
                if !was_queued && account.is_queued() {
                    self.begin_wait(task, (event.cpu, false));
                }
                self.count_wakeup(event.cpu, task, by);
                if let Some(why) = self.why.as_mut().filter(|_| counts) {
                    why.wake((task, since), event.cpu, (by.is_none(), now));
                }
            }
            What::Spawn { task } => {
                let now = self.clock;
                self.task(task).spawn(now);
            }
            What::TimerInterrupt => self.counts.timer_interrupts += 1,
            What::TimerArmed => self.counts.timers_armed += 1,
            What::TimerExpired { greedy } => {
                self.counts.timers_expired += 1;
                self.counts.timers_greedy += u64::from(greedy);
            }
            What::TimerCancelled => self.counts.timers_cancelled += 1,
            What::Changed { task, group, .. } => self.join(task, group),
            What::Balanced(balanced) => self.balances.add(balanced),
            What::Throttled { .. } | What::Unthrottled { .. } => self.note(event),
            What::Moved { .. }
            | What::Landed { .. }
            | What::SwitchDue
            | What::PassedOver { .. } => {
                self.counts.events -= 1;
                self.note(event);
            }
            What::Late { .. } | What::Acts { .. } => self.counts.events -= 1,
            What::Step { .. } | What::Timeline { .. } | What::Arrived { .. } => {}
        }
        if let Some(schedstat) = &mut self.schedstat {
            schedstat.event(event);
        }
        if let Some(pressures) = &mut self.pressures {
            pressures.event(event, self.clock);
        }
    }

    /// Ends the run at `at`, and with it every open span.
    #[must_use]
    pub fn finish(mut self, at: Time) -> Totals {
        self.clock = self.clock.max(at);
        let now = self.clock;
        self.count_wait_steps();
        for (cpu, account) in self.cpus.iter().enumerate() {
            let (cpu, span) = (CpuId::at(cpu), within(self.begin, account.since()..now));
            if let Some(history) = &mut self.history {
                history.add(cpu, account.doing(), span.clone());
            }
            if let Some(lanes) = &mut self.lanes {
                lanes.add(cpu, account.doing(), span);
            }
        }
        if let Some(history) = &mut self.history {
            history.reach(within(self.begin, now..now).end);
        }
        for cpu in &self.cpus {
            if let Doing::Forced { cookie } = cpu.doing() {
                charge(&mut self.forced_idle, cookie, now.since(cpu.since()));
            }
        }
        self.cpus.iter_mut().for_each(|cpu| cpu.close_stretch(now));
        self.tasks.iter_mut().for_each(|task| task.close_stretch(now));
        for task in (0..self.tasks.len() as u64).map(TaskId) {
            self.count_interrupted(None, task);
        }
        if let Some(waits) = &mut self.waits {
            waits.finish(now);
            self.wait_steps.iter_mut().for_each(|steps| steps.finish(&waits.sums(now), now));
        }
        if let Some(why) = &mut self.why {
            why.finish(now);
        }
        if let Some(schedstat) = &mut self.schedstat {
            for (id, task) in (0..).map(TaskId).zip(&self.tasks) {
                let cpu = task.last_cpu().unwrap_or(CpuId::at(0));
                schedstat.wait(cpu, id, task.totals.wait);
            }
        }
        if cfg!(debug_assertions) {
            self.check();
        }
        Totals(self)
    }

    /// Asserts the conservation laws, in time proportional to the number of CPUs and tasks.
    ///
    /// # Panics
    /// If a law is broken.
    pub fn check(&self) {
        self.cpus.iter().for_each(|cpu| cpu.check(self.begin));
        self.tasks.iter().for_each(TaskAccount::check);

        let mut ran = Nanos::ZERO;
        let mut executing = 0;
        for (id, task) in (0..).map(TaskId).zip(&self.tasks) {
            ran += task.totals.runtime;
            if let Some((cpu, span)) = task.open_execution(self.clock) {
                assert!(self.cpus[cpu.index()].executes(id), "{id} is not executed by CPU {cpu}");
                ran += span;
                executing += 1;
            }
        }
        let spent = self.cpus.iter().fold(Nanos::ZERO, |sum, cpu| {
            sum + cpu.totals.executing() + cpu.open_execution(self.clock)
        });
        assert_eq!(spent, ran, "CPUs executed what tasks ran");
        let busy = |cpu: &&CpuAccount| matches!(cpu.doing(), Doing::Exec { .. });
        assert_eq!(self.cpus.iter().filter(busy).count(), executing, "a CPU executes nobody");

        if let Some(history) = &self.history {
            let sum = |part: fn(&CpuTotals) -> Nanos| -> u64 {
                self.cpus.iter().map(|cpu| part(&cpu.totals).0).sum()
            };
            let parts =
                [sum(|t| t.rt), sum(|t| t.normal), sum(|t| t.idle_policy), sum(|t| t.overhead)];
            assert_eq!(history.sums(), parts, "the steps of a kind sum to what CPUs did of it");
        }

        if let Some(why) = &self.why {
            for (id, task) in (0..).map(TaskId).zip(&self.tasks) {
                why.check(id, task.totals.wakeup_latency.max());
            }
        }

        if let Some(broken) = self.broken_waits() {
            panic!("{broken}");
        }

        let sum = |spans: &mut dyn Iterator<Item = Nanos>| spans.fold(Nanos::ZERO, |a, b| a + b);
        let by_cpu = sum(&mut self.cpus.iter().map(|cpu| cpu.totals.forced));
        let by_cookie = sum(&mut self.forced_idle.iter().copied());
        assert_eq!(by_cpu, by_cookie, "CPUs were forced idle as long as cookies forced them");

        let switches: u64 = self.cpus.iter().map(|cpu| cpu.totals.switches).sum();
        let switched_in: u64 = self.tasks.iter().map(|task| task.totals.switches).sum();
        assert_eq!(switches, switched_in, "who is switched in has a CPU");
    }

    /// Says where the causes of the waits are not all of them.
    fn broken_waits(&self) -> Option<String> {
        let waits = self.waits.as_ref()?;
        let tasks = (0..).map(TaskId).zip(&self.tasks);
        for (id, task) in tasks {
            let (Nanos(all), Nanos(interrupted)) = task.waited(self.clock);
            let causes = waits.waited(id, self.clock);
            if all != causes + interrupted {
                let parts = format!("{causes} ns by cause, and was interrupted for {interrupted}");
                return Some(format!("{id} waited {all} ns, {parts}"));
            }
        }
        let steps = self.wait_steps.as_ref();
        waits.broken_sums().or_else(|| steps?.broken(&waits.sums(self.clock)))
    }

    /// Ends the steps of the waits that end up to now. No event of now is noted yet.
    #[cold]
    fn count_wait_steps(&mut self) {
        let (Some(steps), Some(waits)) = (&mut self.wait_steps, &self.waits) else { return };
        while let Some(end) = steps.next(self.clock) {
            let mut sums = waits.sums(end);
            for (cpu, task) in waits.executed_last() {
                sums[Cause::Cost] += self.tasks[task.index()].interrupted_on(cpu, end).0;
            }
            steps.count(&sums);
        }
    }

    #[inline]
    fn execute(&mut self, cpu: CpuId, task: TaskId, policy: Policy) {
        self.turn(cpu, Doing::Exec { task, policy });
        let now = self.clock;
        let Executes { was_queued, left, waited } = self.task(task).execute(cpu, now);
        if let Some(schedstat) = &mut self.schedstat {
            schedstat.wait(cpu, task, self.tasks[task.index()].totals.wait);
        }
        if was_queued {
            self.end_wait(task);
        }
        if let Some((since, is_longest)) = waited {
            if let Some(within) = &mut self.within {
                within.record(task.index(), now, now.since(since));
            }
            if let Some(courses) = &mut self.courses {
                courses.record(task, within(self.begin, now..now).end, now.since(since));
            }
            if let Some(why) = &mut self.why {
                why.ends(task, policy, (since, now));
            }
            if let Some(lanes) = &mut self.lanes {
                lanes.waited(within(self.begin, since..now), is_longest);
            }
        } else if let Some(why) = &mut self.why {
            why.returns(task, policy, now);
        }
        if let Some(former) = left {
            self.count_interrupted(Some(former), task);
            if self.cpu(former).executes(task) {
                self.turn(former, Doing::Overhead);
            }
        }
    }

    /// Counts a wake-up for `/proc/schedstat`, unless it begins the task's life.
    #[inline]
    fn count_wakeup(&mut self, to: CpuId, task: TaskId, by: Option<TaskId>) {
        if let Some(schedstat) = &mut self.schedstat
            && self.tasks[task.index()].totals.wakeups > 1
        {
            let waker = by.and_then(|by| self.tasks.get(by.index())?.last_cpu());
            schedstat.wake(to, waker);
        }
    }

    /// Notes that a task begins to wait in the run queue of a CPU, or has `lost` it.
    #[inline]
    fn begin_wait(&mut self, task: TaskId, (cpu, lost): (CpuId, bool)) {
        if let Some(waits) = &mut self.waits {
            waits.begin(task, (cpu, lost), self.clock);
        }
    }

    /// Notes that a task waits in a run queue no more.
    #[inline]
    fn end_wait(&mut self, task: TaskId) {
        if let Some(waits) = &mut self.waits {
            waits.end(task, self.clock);
        }
    }

    /// Gives the waits in which a task had this CPU, or the one where it executed last, to their cause.
    #[inline]
    fn count_interrupted(&mut self, cpu: Option<CpuId>, task: TaskId) {
        if self.waits.is_none() {
            return;
        }
        let account = self.task(task);
        let (interrupted, cpu) = (account.take_interrupted(), cpu.or(account.last_cpu()));
        if let (Some(waits), Some(cpu)) = (&mut self.waits, cpu) {
            waits.count_interrupted(task, cpu, interrupted);
        }
    }

    fn note(&mut self, event: &Event) {
        if let Some(waits) = &mut self.waits {
            waits.note(event, self.clock);
        }
        if let Some(why) = &mut self.why {
            why.note(event, self.clock);
        }
    }

    #[inline]
    fn turn(&mut self, cpu: CpuId, doing: Doing) {
        let now = self.clock;
        let account = self.cpu(cpu);
        let since = account.since();
        let did = account.turn_to(doing, now);
        if let Some(waits) = &mut self.waits {
            waits.turn(cpu, doing, now);
        }
        if let Some(why) = &mut self.why {
            why.turn(cpu, doing, now);
        }
        if let Some(history) = &mut self.history {
            history.add(cpu, did, within(self.begin, since..now));
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.add(cpu, did, within(self.begin, since..now));
        }
        match did {
            Doing::Exec { task, .. } => self.task(task).interrupt(cpu, now),
            Doing::Forced { cookie } => charge(&mut self.forced_idle, cookie, now.since(since)),
            Doing::Idle | Doing::Overhead => {}
        }
    }

    #[inline]
    fn switch(&mut self, cpu: CpuId, prev: Option<(TaskId, Left)>, next: Option<TaskId>) {
        self.counts.decisions += 1;
        let switched_in = next.filter(|&next| prev.is_none_or(|(prev, _)| prev != next));
        if let Some(next) = switched_in {
            self.cpu(cpu).totals.switches += 1;
            self.task(next).totals.switches += 1;
        }
        if let Some((task, left)) = prev {
            if left == Left::Preempted && switched_in.is_some() {
                self.task(task).totals.preemptions += 1;
            }
            let stays = next == Some(task) && matches!(left, Left::Preempted | Left::Yielded);
            self.put_prev(cpu, task, (!stays).then_some(left));
        }
    }

    /// Notes that after a decision `task` stays on `cpu` or has `left` it.
    #[inline]
    fn put_prev(&mut self, cpu: CpuId, task: TaskId, left: Option<Left>) {
        let Some(left) = left else {
            return self.task(task).stay();
        };
        if self.cpu(cpu).executes(task) {
            self.turn(cpu, Doing::Overhead);
        }
        let now = self.clock;
        let account = self.task(task);
        let was_queued = account.is_queued();
        account.leave(cpu, left, now);
        let lost = left == Left::Preempted;
        match (was_queued, account.is_queued()) {
            (false, true) => {
                self.begin_wait(task, (cpu, lost));
                if let Some(why) = self.why.as_mut().filter(|_| left != Left::Blocked) {
                    why.loses(task, (cpu, lost), now);
                }
            }
            (true, false) => self.end_wait(task),
            _ => {}
        }
        self.count_interrupted(None, task);
    }

    fn join(&mut self, task: TaskId, group: GroupId) {
        let now = self.clock;
        if let Some((passed, runtime)) = self.task(task).join(group, now) {
            grow(&mut self.passed_groups, passed.index(), || Nanos::ZERO);
            self.passed_groups[passed.index()] += runtime;
        }
    }

    #[inline]
    fn cpu(&mut self, cpu: CpuId) -> &mut CpuAccount {
        let begin = self.begin;
        grow(&mut self.cpus, cpu.index(), || CpuAccount::new(begin));
        &mut self.cpus[cpu.index()]
    }

    #[inline]
    fn task(&mut self, task: TaskId) -> &mut TaskAccount {
        grow(&mut self.tasks, task.index(), TaskAccount::unborn);
        &mut self.tasks[task.index()]
    }
}

impl Totals {
    /// The duration of the part of the run that counts.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        self.0.clock.since(self.0.begin)
    }

    /// The beginning of that part.
    #[must_use]
    pub fn begin(&self) -> Time {
        self.0.begin
    }

    /// The account of `cpu`. A CPU without an event was idle.
    #[must_use]
    pub fn cpu(&self, cpu: CpuId) -> CpuTotals {
        let unnamed = CpuTotals { idle: self.duration(), ..CpuTotals::default() };
        self.0.cpus.get(cpu.index()).map_or(unnamed, |account| account.totals)
    }

    /// The account of `task`; `None` if no event named it.
    #[must_use]
    pub fn task(&self, task: TaskId) -> Option<&TaskTotals> {
        self.0.tasks.get(task.index()).map(|account| &account.totals)
    }

    /// The [watched](Collector::watch) wait, with these names; `None` if there was none. A wait without an end ends with the
    /// run.
    #[must_use]
    pub fn explanation(&self, names: &dyn Names) -> Option<Explanation> {
        self.0.why.as_ref()?.explanation(names)
    }

    /// The waits that the request of this number [asked](Collector::tell) for, by cause and by those who caused them, the
    /// longest first. What is forgotten is not among them.
    #[must_use]
    pub fn told(&self, request: usize, names: &dyn Names) -> Vec<BlameReport> {
        self.0.why.as_ref().map_or_else(Vec::new, |why| why.told(request, names))
    }

    /// Says where the causes of the waits of tasks, CPUs or groups are not all of them; `None` if they are. They always are.
    #[must_use]
    pub fn broken_waits(&self) -> Option<String> {
        self.0.broken_waits()
    }

    /// The waits by cause; `None` if they were not kept.
    pub(crate) fn waits(&self) -> Option<&Waits> {
        self.0.waits.as_deref()
    }

    /// The idle CPU time that waiting tasks could have used, by what kept them from it; `None` if it was not kept.
    pub(crate) fn wasted(&self) -> Option<CauseTimes> {
        let mut wasted = self.waits()?.wasted();
        let forced = self.0.cpus.iter().map(|cpu| cpu.totals.forced.0).sum::<u64>();
        wasted[Cause::CoreCookie] += forced;
        Some(wasted)
    }

    /// The wake-up latencies of `task` that ended within a span; `None` if the collector did not
    /// [keep](Collector::with_spans) it.
    #[must_use]
    pub fn wakeups_within(&self, task: TaskId, span: &Range<Time>) -> Option<&Histogram> {
        self.0.within.as_ref()?.of(task.index(), span)
    }

    /// The latencies over time; empty if they were not kept.
    pub(crate) fn series(&self) -> Vec<SeriesReport> {
        self.0.courses.as_ref().map_or_else(Vec::new, |courses| courses.reports(self.duration()))
    }

    /// The worst wake-ups of `task`, the longest first.
    pub(crate) fn worst(&self, task: TaskId) -> &[Bad] {
        self.0.why.as_ref().map_or(&[], |why| why.worst(task))
    }

    /// The waits by cause in the steps of the history; `None` if they were not kept.
    pub(crate) fn wait_steps(&self) -> Option<&WaitSteps> {
        self.0.wait_steps.as_deref()
    }

    /// The history of the CPUs; `None` if it was not kept.
    pub(crate) fn history(&self) -> Option<&History> {
        self.0.history.as_deref()
    }

    /// The counters of the run as the text of `/proc/schedstat`. `None` if the collector did not
    /// [keep](Collector::with_schedstat) them.
    #[must_use]
    pub fn schedstat(&self, version: SchedstatVersion) -> Option<String> {
        let kept = self.0.schedstat.as_ref()?;
        Some(kept.text(version, self.duration(), |cpu| self.cpu(cpu)))
    }

    /// The occupancy of the CPUs; `None` if it was not kept.
    pub(crate) fn lanes(&self) -> Option<&Lanes> {
        self.0.lanes.as_deref()
    }

    /// The time that CPUs were forced idle because their cores ran tasks of `cookie`, or tasks without a cookie.
    #[must_use]
    pub fn forced_idle(&self, cookie: Option<Cookie>) -> Nanos {
        self.0.forced_idle.get(cookies::place(cookie)).copied().unwrap_or(Nanos::ZERO)
    }

    /// The counts of the machine as a whole.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.counts
    }

    /// The results of balancing at `level`, by CPUs in the state `moment`.
    #[must_use]
    pub fn balance(&self, level: Level, idle_kind: IdleKind) -> BalanceTotals {
        self.0.balances.of(level, idle_kind)
    }

    /// The results of balancing, for each level and moment with a pass.
    pub(crate) fn balance_rows(&self) -> Vec<BalanceReport> {
        self.0.balances.rows()
    }

    /// The pressure on a task group; `None` if the collector did not [count](Collector::with_pressure) it.
    #[must_use]
    pub fn pressure(&self, group: GroupId) -> Option<Pressure> {
        self.0.pressures.as_ref()?.of(group, self.0.clock)
    }

    /// The time that tasks ran in each of `groups` task groups while they were in the group itself. `first` gives the
    /// first group of each task.
    ///
    /// # Panics
    /// If a task was in a group that is not among the `groups`.
    #[must_use]
    pub fn group_runtimes(
        &self,
        groups: usize,
        first: impl IntoIterator<Item = (TaskId, GroupId)>,
    ) -> Vec<Nanos> {
        let mut runtimes = self.0.passed_groups.clone();
        assert!(runtimes.len() <= groups, "a task was in a group that does not exist");
        runtimes.resize(groups, Nanos::ZERO);
        for (task, group) in first {
            if let Some(account) = self.0.tasks.get(task.index()) {
                let (runtime, last) = account.shares();
                runtimes[group.index()] += runtime;
                if let Some((group, runtime)) = last {
                    runtimes[group.index()] += runtime;
                }
            }
        }
        runtimes
    }
}

/// A span as part of the time since `begin`.
fn within(begin: Time, span: Range<Time>) -> Range<Time> {
    let since = |at: Time| Time(at.0.saturating_sub(begin.0));
    since(span.start)..since(span.end)
}

/// Notes that a CPU was forced idle for `span` because of `cookie`.
#[cold]
fn charge(forced_idle: &mut Vec<Nanos>, cookie: Option<Cookie>, span: Nanos) {
    let place = cookies::place(cookie);
    grow(forced_idle, place, || Nanos::ZERO);
    forced_idle[place] += span;
}

/// Makes `accounts` have one at `index`.
#[inline(always)]
fn grow<T>(accounts: &mut Vec<T>, index: usize, new: impl FnMut() -> T) {
    if index >= accounts.len() {
        grow_to(accounts, index + 1, new);
    }
}

#[cold]
fn grow_to<T>(accounts: &mut Vec<T>, len: usize, new: impl FnMut() -> T) {
    accounts.resize_with(len, new);
}
