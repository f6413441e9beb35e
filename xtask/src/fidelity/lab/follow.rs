//! Decision by decision: the engine follows a kernel's trace, and tells where the two part.
//!
//! A run queue of the engine gets what happened in the kernel, at its times: wake-ups, and the state in which each task
//! left the CPU. Its ticks are on the kernel's grid. At each switch it tells which task its own rules would have chosen,
//! and then takes the kernel's choice, with all vruntimes and lags as they are. So both have the same past at every
//! decision. The kernel's own charges (`sched_stat_runtime`) are the engine's clock. The lags of kernel threads at their
//! first wake-up are not known, and move the virtual clock by some microseconds while such a thread waits. So a decision
//! within [`NEAR`] of a tie is not judged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use runyard_engine::attr::{Attr, GroupId, LatencyNice, Nice, Policy, RtPrio, Weight};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::group::Groups;
use runyard_engine::limits::Pools;
use runyard_engine::run_queue::{Enqueue, Prev, Resched, RunQueue};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, QueueIndex, Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_workload::cpusets::Cpusets;
use runyard_workload::import::{IDLE, Left, Named, Record, What, records};
use runyard_workload::scenario::Scenario;

/// The one CPU.
const CPU: CpuId = CpuId(0);

/// The kernel's priority of nice 0.
const NICE_0: i32 = 120;

/// A kernel acts on a request to reschedule within this time, unless it waits: the rest of a system call, the interrupt's
/// end, and the switch.
const AT_ONCE: Nanos = Nanos::from_micros(100);

/// A place of a task that is known to so many nanoseconds.
const NEAR: i64 = 50_000;

/// For so long from the first switch to a task of the scenario no decision counts. Threads begin, and the trace does not
/// tell their places in the queue.
const UNKNOWN: Nanos = Nanos::from_millis(300);

/// What follows a request within so many instructions belongs to it: wake-ups by the same interrupt, and the way to the
/// switch.
const SOON: u64 = 7_500;

/// The ways in which a decision can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// The kernel takes the CPU from a task, and the engine would not.
    Takes,
    /// The engine would take the CPU from a task, and the kernel does not.
    Leaves,
    /// The task before has left or makes way, and both choose another one next.
    Chooses,
}

impl Way {
    const ALL: [Way; 3] = [Way::Takes, Way::Leaves, Way::Chooses];

    fn name(self) -> &'static str {
        match self {
            Way::Takes => "only the kernel preempts",
            Way::Leaves => "only the engine preempts",
            Way::Chooses => "another task is chosen",
        }
    }
}

/// What came of following a trace.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The decisions between tasks of the scenario.
    decisions: u64,
    /// The partings that a place within [`NEAR`] of the engine's would explain, or that are between groups.
    near: u64,
    parted: BTreeMap<Way, Vec<Parted>>,
}

#[derive(Debug)]
struct Parted {
    at: Time,
    what: String,
    /// The queues at that moment, without the event.
    picture: String,
}

impl Followed {
    /// Adds what came of the trace of another scenario.
    pub(super) fn add(&mut self, scenario: &str, other: Followed) {
        self.decisions += other.decisions;
        self.near += other.near;
        for (way, mut parted) in other.parted {
            for it in &mut parted {
                it.what = format!("{scenario}, {}", it.what);
            }
            self.parted.entry(way).or_default().extend(parted);
        }
    }

    /// The part of the decisions that differ, in per cent; `None` without decisions.
    pub(super) fn otherwise(&self) -> Option<f64> {
        let parted: usize = self.parted.values().map(Vec::len).sum();
        (self.decisions > 0).then(|| parted as f64 * 100.0 / self.decisions as f64)
    }

    /// The counts, and the first `most` partings of each way with the queues of that moment.
    pub(super) fn tell(&self, most: usize) -> String {
        let of = |way: Way| self.parted.get(&way).map_or(&[][..], Vec::as_slice);
        let mut text = format!("{} decisions", self.decisions);
        for way in Way::ALL {
            let _ = write!(text, ", {} {}", of(way).len(), way.name());
        }
        let _ = writeln!(text, "; {} near a tie", self.near);
        for parted in Way::ALL.into_iter().flat_map(|way| of(way).iter().take(most)) {
            let _ = writeln!(text, "at {}: {}\n{}", parted.at, parted.what, parted.picture);
        }
        text
    }
}

/// Follows the trace of a scenario's run, for `span` from the first switch to one of its tasks. An instruction takes two to
/// the power `shift` nanoseconds.
pub(super) fn follow(scenario: &Scenario, text: &str, span: Nanos, shift: u32) -> Followed {
    let mut follower = Follower::new(scenario, shift);
    follower.follow(text, span);
    follower.followed
}

/// The groups of a scenario on one CPU, each with its own weight.
struct Weights(Vec<GroupSpec>);

impl Weights {
    fn of(&self, group: GroupId) -> &GroupSpec {
        &self.0[group.0 as usize]
    }
}

impl Groups for Weights {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn parent(&self, group: GroupId) -> GroupId {
        self.of(group).parent
    }

    fn weight(&self, group: GroupId) -> Weight {
        if self.is_idle(group) { Weight::IDLE } else { self.of(group).weight }
    }

    fn is_idle(&self, group: GroupId) -> bool {
        self.of(group).idle
    }

    fn latency_nice(&self, group: GroupId) -> LatencyNice {
        self.of(group).latency_nice
    }

    fn exchange_load(&self, _: GroupId, _: u64, new: u64) -> u64 {
        new
    }

    fn exchange_blocked(&self, _: GroupId, _: u64, _: u64, new: u64) -> u64 {
        new
    }
}

impl Pools for Weights {}

/// A thread of the trace.
struct Thread {
    name: String,
    attr: Attr,
    /// The engine's part while the thread sleeps.
    parked: Option<Box<Task<()>>>,
}

/// The engine asks for a switch.
struct Asked {
    /// When it asked, or later: the kernel had not yet acted on a request of its own.
    since: Time,
    by: String,
    /// The task that would get the CPU, by what margin, and the queues of that moment.
    wants: Option<(u32, Option<i64>, String)>,
}

struct Follower {
    rq: RunQueue<(), Weights>,
    threads: BTreeMap<u32, Thread>,
    /// The attributes of the scenario's tasks, by the names of their threads.
    own: BTreeMap<String, Attr>,
    curr: u32,
    now: Time,
    /// The time of the last event, by the recorder's clock.
    recorded: Time,
    /// The kernel's clock, by its charges.
    charged_to: Time,
    /// How much later an event is recorded than it happens by that clock, in nanoseconds.
    ahead: i64,
    /// The first switch to a task of the scenario.
    begun: Option<Time>,
    asked: Option<Asked>,
    /// What follows a request within this time belongs to it.
    soon: Nanos,
    followed: Followed,
}

impl Follower {
    fn new(scenario: &Scenario, shift: u32) -> Follower {
        let cpusets = Cpusets::all_of(CpuSet::only(CPU));
        let first = |id: usize| scenario.tasks[id].first_attr(&cpusets).attr;
        let own =
            scenario.instances().map(|(id, _, name)| (super::comm(&name), first(id.0 as usize)));
        let groups = scenario.groups.iter().map(|group| group.spec).collect();
        Follower {
            own: own.collect(),
            rq: RunQueue::new(CPU, Arc::new(scenario.config()), Arc::new(Weights(groups))),
            threads: BTreeMap::new(),
            curr: IDLE,
            begun: None,
            now: Time::ZERO,
            recorded: Time::ZERO,
            charged_to: Time::ZERO,
            ahead: 0,
            asked: None,
            soon: Nanos(SOON << shift),
            followed: Followed::default(),
        }
    }

    fn follow(&mut self, text: &str, span: Nanos) {
        let records = records(text);
        let mut records = records.iter().peekable();
        while let Some(record) = records.next() {
            if self.begun.is_some_and(|begun| record.at > (begun + span).0) {
                break;
            }
            if let Some(asked) = self.asked.as_mut().filter(|_| record.resched) {
                asked.since = Time(record.at);
            }
            match record.what {
                What::Charged { tid, nanos } => self.charge(record.at, tid, nanos),
                // The kernel charges the running task before it enqueues the other one, and records it afterwards.
                What::Waking(task) | What::New(task) => {
                    let charged = |next: &Record<'_>| matches!(next.what, What::Charged { .. });
                    if let Some(Record { at, what: What::Charged { tid, nanos }, .. }) =
                        records.next_if(charged)
                    {
                        self.charge(at, tid, nanos);
                    }
                    self.go_on(record.at);
                    self.wake(task, matches!(record.what, What::New(_)));
                }
                What::Switch { prev, left, next } => {
                    self.go_on(record.at);
                    self.switch(prev, left, next);
                }
                _ => {}
            }
        }
    }

    /// The kernel charged the running task.
    fn charge(&mut self, at: u64, tid: u32, nanos: u64) {
        if tid == self.curr {
            self.charged_to = self.charged_to + Nanos(nanos);
            self.expire(self.charged_to, Time(at));
            self.ahead = at as i64 - self.charged_to.0 as i64;
        }
    }

    /// Goes on to the time of an event. While a fair task runs, the kernel's clock is that of its last charge.
    fn go_on(&mut self, at: u64) {
        let fair = self
            .threads
            .get(&self.curr)
            .is_some_and(|it| !matches!(it.attr.policy, Policy::Fifo(_) | Policy::RoundRobin(_)));
        let recorded = Time(at);
        if fair {
            self.settle(recorded);
            self.recorded = recorded;
        } else {
            let at = Time((at as i64 - self.ahead) as u64).max(self.now);
            self.expire(at, recorded);
            self.charged_to = at;
        }
    }

    /// Goes on to `at`, with the ticks until `recorded`: both clocks drift apart, and ticks are on the grid of the
    /// recording.
    fn expire(&mut self, at: Time, recorded: Time) {
        self.settle(recorded);
        self.recorded = recorded;
        while let Some(due) = self.rq.next_expiry().filter(|&due| due <= recorded) {
            self.now = at.max(self.now).max(due);
            let walk = if self.curr == IDLE { Walk::Idle } else { Walk::Busy };
            while self.rq.expire(self.now, walk).is_some() {}
            self.note_request("the tick");
        }
        self.now = at.max(self.now);
    }

    /// Acts on the engine's request for a switch, if the kernel made none. The task that runs may be the engine's choice as
    /// well: a decision that no trace shows.
    fn settle(&mut self, recorded: Time) {
        let Some(Asked { since, .. }) = self.asked else { return };
        if recorded.since(since) > self.soon {
            let picture = self.picture();
            let own = self.go_to(Prev::Preempted(()), self.curr);
            let margin = self.margin(self.curr, own, false);
            match self.asked.as_mut().filter(|_| own != self.curr) {
                Some(asked) if asked.wants.is_none() => asked.wants = Some((own, margin, picture)),
                Some(_) => {}
                None => self.asked = None,
            }
        }
        if recorded.since(since) > AT_ONCE
            && let Some(Asked { by, wants: Some((own, margin, picture)), .. }) = self.asked.take()
        {
            let (curr, own_name) = (self.name(self.curr), self.name(own));
            let what = format!("{by} would give the CPU of {curr} to {own_name}");
            let parted = Parted { at: since, what, picture };
            self.part(Way::Leaves, (self.curr, own), margin, parted);
        }
    }

    fn note_request(&mut self, by: &str) {
        if self.curr != IDLE && self.rq.resched() != Resched::No && self.asked.is_none() {
            self.asked = Some(Asked { since: self.recorded, by: by.to_owned(), wants: None });
        }
    }

    /// Makes a thread known, with its attributes of now.
    fn meet(&mut self, task: Named<'_>) {
        let attr = self.attr_of(task);
        let id = TaskId(u64::from(task.tid));
        let thread = self.threads.entry(task.tid).or_insert_with(|| Thread {
            name: String::new(),
            attr: attr.clone(),
            parked: Some(Task::new(id, attr.clone(), ())),
        });
        task.comm.clone_into(&mut thread.name);
        if thread.attr == attr {
            return;
        }
        thread.attr = attr.clone();
        if thread.parked.is_some() {
            thread.parked = Some(Task::new(id, attr, ()));
        } else if let Some(at) = self.place(task.tid) {
            let change =
                Change { policy: Some(attr.policy), group: Some(attr.group), ..Change::default() };
            // The kernel makes such a change at a time that the trace does not tell.
            let _ = self.rq.change(self.now, at, change);
            self.asked = None;
        }
    }

    /// The attributes by the thread's name and its priority in the kernel. A fair task of the scenario keeps its own once it
    /// has them: a priority that it inherits does not change its weight (`rt_mutex_setprio`), and the trace does not tell
    /// the two apart.
    fn attr_of(&self, task: Named<'_>) -> Attr {
        let normal = Attr::normal(CpuSet::only(CPU));
        let attr = self.own.get(task.comm).unwrap_or(&normal);
        let nice = || Nice::new(i64::from(task.prio - NICE_0)).unwrap_or(Nice::ZERO);
        let has_its_own = self.threads.get(&task.tid).is_some_and(|it| it.attr == *attr);
        let policy = match (task.prio, attr.policy) {
            (..100, own @ (Policy::Fifo(_) | Policy::RoundRobin(_))) => own,
            (prio @ ..100, _) => {
                Policy::Fifo(RtPrio::new(i64::from(99 - prio)).unwrap_or(RtPrio::MAX))
            }
            (_, own @ (Policy::Normal(_) | Policy::Batch(_))) if has_its_own => own,
            (_, Policy::Idle) => Policy::Idle,
            (_, Policy::Batch(_)) => Policy::Batch(nice()),
            _ => Policy::Normal(nice()),
        };
        Attr { policy, ..attr.clone() }
    }

    fn place(&self, tid: u32) -> Option<QueueIndex> {
        self.rq.tasks().iter().find(|(_, task)| task.id.0 == u64::from(tid)).map(|(at, _)| at)
    }

    fn wake(&mut self, task: Named<'_>, forked: bool) {
        self.meet(task);
        let parked = self.threads.get_mut(&task.tid).and_then(|thread| thread.parked.take());
        if let Some(mut parked) = parked {
            if forked {
                self.rq.fork(self.now, &mut parked);
            }
            let _ = self.rq.offer(self.now, parked, Enqueue::Woken).expect("the CPU is online");
            self.note_request(&format!("the wake-up of {}", task.comm));
        }
    }

    fn switch(&mut self, prev: Named<'_>, left: Left, next: Named<'_>) {
        for task in [prev, next] {
            if task.tid != IDLE {
                self.meet(task);
                // The trace begins in the middle, and may have no wake-up of a new thread.
                self.wake(task, false);
            }
        }
        if prev.tid != self.curr {
            self.run(prev.tid);
        }
        let _ = self.rq.at(self.now);
        let before = self.picture();
        let asked = self.asked.take().is_some();
        let state = match left {
            _ if prev.tid == IDLE => Prev::Idle,
            Left::Ready => Prev::Preempted(()),
            Left::Asleep | Left::Blocked => Prev::Blocked(()),
            Left::Exited => Prev::Exited,
        };
        let takes = matches!(state, Prev::Preempted(())) && !asked;
        let own = self.go_to(state, next.tid);
        if own == next.tid {
            return self.count(prev.tid, next.tid);
        }
        let (prev_name, next_name) = (self.name(prev.tid), self.name(next.tid));
        let (way, what) = match takes {
            true => (Way::Takes, format!("from {prev_name} to {next_name}")),
            false => {
                let own = self.name(own);
                (
                    Way::Chooses,
                    format!("after {prev_name} the kernel runs {next_name}, the engine {own}"),
                )
            }
        };
        self.count(prev.tid, next.tid);
        let margin = self.margin(next.tid, own, takes);
        self.part(way, (next.tid, own), margin, Parted { at: self.now, what, picture: before });
    }

    /// Runs a thread of which the trace says that it runs.
    fn run(&mut self, tid: u32) {
        let prev = if self.curr == IDLE { Prev::Idle } else { Prev::Preempted(()) };
        self.go_to(prev, tid);
    }

    /// Switches as the kernel did, and returns the engine's own choice.
    fn go_to(&mut self, prev: Prev<()>, next: u32) -> u32 {
        let exited = matches!(prev, Prev::Exited).then_some(self.curr);
        let wanted = (next != IDLE).then_some(TaskId(u64::from(next)));
        let followed = self.rq.follow(self.now, prev, wanted);
        let number = |id: TaskId| id.0 as u32;
        if let Some((parked, _)) = followed.switch.released
            && let Some(thread) = self.threads.get_mut(&number(parked.id))
        {
            thread.parked = Some(parked);
        }
        if let Some(exited) = exited {
            self.threads.remove(&exited);
        }
        self.curr = followed.switch.next.map_or(IDLE, |(id, ())| number(id));
        followed.own.map_or(IDLE, number)
    }

    fn is_own(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| self.own.contains_key(&thread.name))
    }

    fn count(&mut self, prev: u32, next: u32) {
        if self.begun.is_none() && self.is_own(next) {
            self.begun = Some(self.now);
        }
        self.followed.decisions += u64::from(self.knows(prev) && self.knows(next));
    }

    /// Whether the place of a task of the scenario is known.
    fn knows(&self, tid: u32) -> bool {
        self.begun.is_some_and(|begun| self.now.since(begun) > UNKNOWN) && self.is_own(tid)
    }

    /// Counts a parting between two tasks of the scenario.
    fn part(&mut self, way: Way, (kernel, own): (u32, u32), margin: Option<i64>, parted: Parted) {
        if !self.knows(kernel) || !self.knows(own) {
            return;
        }
        if margin.is_none_or(|margin| margin <= NEAR) {
            self.followed.near += 1;
        } else {
            self.followed.parted.entry(way).or_default().push(parted);
        }
    }

    /// Returns by how much a place would have to differ for the kernel's choice to be the engine's too, in nanoseconds.
    /// `None` if they are members of different queues. Between classes there is no such distance.
    fn margin(&self, kernel: u32, own: u32, own_runs: bool) -> Option<i64> {
        let place = |tid: u32| self.rq.place(self.place(tid)?);
        let (Some(theirs), Some(ours)) = (place(kernel), place(own)) else { return Some(i64::MAX) };
        if theirs.group != ours.group {
            return None;
        }
        let later = theirs.deadline - ours.deadline;
        let sooner = if ours.ahead <= 0 { later.min(-ours.ahead) } else { 0 };
        let keeps = match own_runs && ours.ahead <= 0 {
            true => (ours.keeps - ours.ahead).min(-ours.ahead),
            false => 0,
        };
        let chosen = theirs.ahead.max(sooner).max(keeps);
        // A task in its turn goes on if it is eligible, whoever else is.
        let goes_on = kernel == self.curr && theirs.ahead < theirs.keeps;
        Some(if goes_on { theirs.ahead.min(chosen) } else { chosen })
    }

    fn name(&self, tid: u32) -> String {
        self.threads
            .get(&tid)
            .map_or("idle".to_owned(), |thread| format!("{} ({tid})", thread.name))
    }

    fn picture(&self) -> String {
        let mut picture = self.rq.to_string();
        for (tid, thread) in &self.threads {
            let id = TaskId(u64::from(*tid));
            picture = picture.replace(&format!("{id} "), &format!("{id}={} ", thread.name));
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_workload::Overrides;

    const SCENARIO: &str = r#"{"machine": {"cpus": 1, "kernel": "6.12", "tick_hz": 250}, "global": {"duration": 1},
        "tasks": {"a": {"run": 10000}, "b": {"run": 10000}}}"#;

    /// A recording of two hogs that begin after an idle time, where one of them is stopped by the tick at `until_ms`.
    fn recording(until_ms: u64) -> String {
        let mut text = String::new();
        let switch = |text: &mut String, us: u64, prev: &str, state: &str, next: &str| {
            let named = |task: &str| match task {
                "a" => ("a", 1),
                "b" => ("b", 2),
                _ => ("swapper/0", 0),
            };
            let ((prev, prev_pid), (next, next_pid)) = (named(prev), named(next));
            let _ = writeln!(
                text,
                "{prev}-{prev_pid} [000] d..2. 1.{us:06}: sched_switch: prev_comm={prev} prev_pid={prev_pid} \
                 prev_prio=120 prev_state={state} ==> next_comm={next} next_pid={next_pid} next_prio=120"
            );
        };
        let charge = |text: &mut String, us: u64, comm: &str, pid: u32, ran_us: u64| {
            let _ = writeln!(
                text,
                "{comm}-{pid} [000] d..2. 1.{us:06}: sched_stat_runtime: comm={comm} pid={pid} \
                 runtime={ran_us}000 [ns]"
            );
        };
        for (pid, comm) in [(1, "a"), (2, "b")] {
            let _ = writeln!(
                text,
                "<idle>-0 [000] d.h2. 1.000{pid}00: sched_waking: comm={comm} pid={pid} prio=120 target_cpu=000"
            );
        }
        switch(&mut text, 1_000, "idle", "R", "a");
        for ms in (4..until_ms).step_by(4) {
            let ran = if ms == 4 { 3_001 } else { 4_000 };
            charge(&mut text, ms * 1_000 + 1, "a", 1, ran);
        }
        let ran = if until_ms == 4 { 3_001 } else { 4_000 };
        charge(&mut text, until_ms * 1_000 + 1, "a", 1, ran);
        switch(&mut text, until_ms * 1_000 + 5, "a", "R", "b");
        charge(&mut text, until_ms * 1_000 + 2_000, "b", 2, 1_999);
        text
    }

    fn followed(text: &str) -> Followed {
        let scenario =
            runyard_workload::parse("-", SCENARIO, &Overrides::default()).unwrap().scenario;
        let mut follower = Follower::new(&scenario, 1);
        // The places are known from the start.
        follower.begun = Some(Time::ZERO);
        follower.follow(text, Nanos::from_secs(10));
        follower.followed
    }

    #[test]
    fn a_kernel_that_decides_as_the_engine_does_parts_nowhere() {
        let followed = followed(&recording(4));
        assert_eq!((followed.decisions, followed.near), (1, 0));
        assert!(followed.parted.is_empty(), "{}", followed.tell(9));
    }

    #[test]
    fn a_task_that_is_left_its_cpu_for_a_tick_longer_is_told_with_the_queues() {
        let followed = followed(&recording(8));
        let [parted] = &followed.parted[&Way::Leaves][..] else { panic!("{}", followed.tell(9)) };
        assert_eq!(parted.what, "the tick would give the CPU of a (1) to b (2)");
        assert!(parted.picture.contains("=b SCHED_OTHER 0"), "{}", parted.picture);
        assert_eq!(followed.parted.len(), 1);
    }
}
