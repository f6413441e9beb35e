//! The event loop of a paused runtime: it selects the next event in virtual time, and its time.
//!
//! The loop asks the machine which task each simulated CPU runs, as workers do on real CPUs ([`crate::worker`]). A poll
//! takes no time. A task that computes has its CPU until its span is over, or until the machine takes the CPU away. In
//! that case the rest of its span is kept.
//!
//! At one instant several events may be possible. The seed decides which comes first. When none is left, the clock
//! advances to the next timer, tick or end of a computation.
//!
//! Invariants: the clock advances only if no event is left; a task computes on one CPU at a time, and continues after
//! exactly the time that it asked for; the order of all events depends only on the program and the seed.

use crate::os::here::BEGIN;
use crate::os::here::{self, Here};
use crate::os::sync::{Arc, AtomicBool, Ordering, lock};
use crate::paused::hands::{Hand, Hands, Order, Report};
use crate::shared::Shared;
use crate::shared::paused::{Host, Look, Refused};
use crate::task::{Cell, Job, Todo};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Prev, Released, Switch};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem;

/// Maximum number of events at one instant, and of further ones for each live task. A test that exceeds it is reported
/// as an endless loop. A poll takes about ten microseconds of real time, so this is detected after a second.
const MOST_AT_ONCE: usize = 100_000;
const MORE_FOR_EACH: usize = 100;

/// The condition at which the clockwork stops.
pub(crate) enum Goal<'a> {
    /// The main future was woken.
    Woken(&'a AtomicBool),
    /// Virtual time has reached this instant.
    Time(Time),
    /// No task is left.
    NoTasks,
}

/// An event that is possible now.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The goal is reached.
    Stop,
    /// Timers and ticks of a CPU are due.
    Expire(CpuId),
    /// A CPU checks the task that waits for the end of a poll.
    Look(CpuId),
    /// A CPU schedules.
    Switch(CpuId),
    /// A task has computed for its span.
    GoOn(CpuId),
}

/// The activity of a simulated CPU.
enum Doing {
    Idle,
    /// Its task left it in this way. The cell is that of a task that is over.
    Between(Prev<Job>, Option<Arc<Cell>>),
    /// Its task computes.
    Computes(Stretch),
}

/// A computation of a task on a CPU.
struct Stretch {
    job: Job,
    /// Time at which its span is over.
    until: Time,
    preemptible: bool,
}

struct Cpu {
    doing: Doing,
    /// The task of the CPU.
    curr: Option<TaskId>,
    kicked: bool,
    look: Option<Look>,
}

/// A task in the middle of a poll.
struct Computing {
    hand: Hand,
    /// The rest of its span, while it has no CPU.
    left: Nanos,
    preemptible: bool,
}

/// The event loop, between two steps.
pub(crate) struct Clockwork {
    shared: Arc<Shared>,
    now: Time,
    cpus: Vec<Cpu>,
    hands: Hands,
    computing: BTreeMap<TaskId, Computing>,
    /// Number of events at this instant. `last` is the task that was polled last.
    nr_at_once: usize,
    last: Option<Arc<Cell>>,
}

impl Clockwork {
    pub(crate) fn new(shared: &Arc<Shared>) -> Clockwork {
        let config = shared.scheduler.machine().config();
        let cpu = |_| Cpu { doing: Doing::Idle, curr: None, kicked: false, look: None };
        let mut clockwork = Clockwork {
            shared: shared.clone(),
            now: BEGIN,
            cpus: config.topology.iter().map(cpu).collect(),
            hands: Hands::new(shared),
            computing: BTreeMap::new(),
            nr_at_once: 0,
            last: None,
        };
        // The seed decides at which point of a tick the test begins.
        clockwork.now = BEGIN + Nanos(clockwork.host().draw(config.tick.0 as usize) as u64);
        clockwork
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    fn host(&self) -> &Host {
        self.shared.scheduler.paused().expect("the runtime is paused")
    }

    /// Runs events until `goal`.
    ///
    /// # Errors
    /// If the test cannot go on, with the reason as a text for people.
    pub(crate) fn go(&mut self, goal: &Goal<'_>) -> Result<(), String> {
        loop {
            self.take_requests()?;
            let acts = self.acts(goal);
            if acts.is_empty() {
                self.go_on_to_next(goal)?;
                continue;
            }
            self.nr_at_once += 1;
            if self.nr_at_once > MOST_AT_ONCE + MORE_FOR_EACH * self.shared.registry.nr_live() {
                return Err(self.stands_still());
            }
            match acts[self.host().draw(acts.len())] {
                Act::Stop => return Ok(()),
                Act::Expire(cpu) => self.expire(cpu, false),
                Act::Look(cpu) => self.look(cpu),
                Act::Switch(cpu) => self.switch(cpu),
                Act::GoOn(cpu) => self.go_on(cpu),
            }
            here::be(Here::at(self.now, None));
        }
    }

    fn take_requests(&mut self) -> Result<(), String> {
        self.host().tell_observer();
        let requests = self.host().take_requests();
        requests.kicks.into_iter().for_each(|cpu| self.cpus[cpu.index()].kicked = true);
        for (cpu, look) in requests.looks {
            let own = &mut self.cpus[cpu.index()].look;
            let kicked = look.kicked || own.is_some_and(|own| own.kicked);
            *own = Some(Look { at: own.map_or(look.at, |own| own.at), kicked });
        }
        let mut error = None;
        for Refused { woken, thread, task } in requests.refused {
            let cell = task.and_then(|place| self.shared.registry.cell_at(place));
            cell.into_iter().for_each(|cell| cell.wake());
            error.get_or_insert_with(|| {
                format!(
                    "{woken} was woken by the thread `{thread}`, which is outside of virtual time: a test in \
                     virtual time cannot wait for I/O or for other threads"
                )
            });
        }
        // At the end of a test, wake-ups from outside of virtual time are allowed.
        error.filter(|_| !self.host().is_over()).map_or(Ok(()), Err)
    }

    /// Returns the events that are possible now.
    fn acts(&self, goal: &Goal<'_>) -> Vec<Act> {
        let mut acts = Vec::new();
        let reached = match goal {
            Goal::Woken(woken) => woken.load(Ordering::Acquire),
            Goal::Time(time) => *time <= self.now,
            Goal::NoTasks => self.shared.registry.nr_live() == 0,
        };
        acts.extend(reached.then_some(Act::Stop));
        for (own, cpu) in
            self.cpus.iter().zip(self.shared.scheduler.machine().config().topology.iter())
        {
            if self
                .shared
                .scheduler
                .machine()
                .sight()
                .next_expiry(cpu)
                .is_some_and(|at| at <= self.now)
            {
                acts.push(Act::Expire(cpu));
            }
            let computes = matches!(own.doing, Doing::Computes(..));
            if computes && own.look.is_some_and(|look| look.at <= self.now) {
                acts.push(Act::Look(cpu));
            }
            match own.doing {
                Doing::Between(..) => acts.push(Act::Switch(cpu)),
                Doing::Idle if own.kicked => acts.push(Act::Switch(cpu)),
                Doing::Computes(ref stretch) if own.kicked && stretch.preemptible => {
                    acts.push(Act::Switch(cpu));
                }
                Doing::Computes(ref stretch) if stretch.until <= self.now => {
                    acts.push(Act::GoOn(cpu));
                }
                Doing::Idle | Doing::Computes(_) => {}
            }
        }
        acts
    }

    /// Advances the clock to the next event.
    fn go_on_to_next(&mut self, goal: &Goal<'_>) -> Result<(), String> {
        let mut next = if let Goal::Time(time) = goal { Some(*time) } else { None };
        let mut consider = |time: Option<Time>| next = next.into_iter().chain(time).min();
        for (own, cpu) in
            self.cpus.iter().zip(self.shared.scheduler.machine().config().topology.iter())
        {
            consider(self.shared.scheduler.machine().sight().next_expiry(cpu));
            if let Doing::Computes(stretch) = &own.doing {
                consider(Some(stretch.until));
                consider(own.look.map(|look| look.at));
            }
        }
        let next = next.ok_or_else(|| self.is_stuck())?;
        debug_assert!(next > self.now, "all due events were handled");
        self.now = next;
        self.nr_at_once = 0;
        here::be(Here::at(self.now, None));
        Ok(())
    }

    /// Serves the timers of a CPU, as [`crate::worker::Worker`] does.
    fn expire(&mut self, cpu: CpuId, goes_idle: bool) {
        let idles = goes_idle || matches!(self.cpus[cpu.index()].doing, Doing::Idle);
        here::be(Here::at(self.now, Some(cpu)));
        self.shared.expire(self.now, cpu, idles);
    }

    fn look(&mut self, cpu: CpuId) {
        let own = &mut self.cpus[cpu.index()];
        if own.look.take().is_some_and(|look| look.kicked) {
            own.kicked = true;
        } else if let Some(idle) = self.shared.scheduler.machine().sight().idle_cpu_for(cpu) {
            self.cpus[idle.index()].kicked = true;
        }
    }

    /// Lets a CPU choose a task, and start or resume it or go idle.
    fn switch(&mut self, cpu: CpuId) {
        let shared = self.shared.clone();
        let own = &mut self.cpus[cpu.index()];
        (own.kicked, own.look) = (false, None);
        let curr = own.curr.take();
        let (prev, over) = match mem::replace(&mut own.doing, Doing::Idle) {
            Doing::Idle => (Prev::Idle, None),
            Doing::Between(prev, over) => (prev, over),
            Doing::Computes(Stretch { job, until, .. }) => {
                let stopped = self.computing.get_mut(&job.cell.id).expect("the task computed");
                stopped.left = until.since(self.now);
                (Prev::Preempted(job), None)
            }
        };
        here::be(Here::at(self.now, Some(cpu)));
        let Switch { next, released } = shared.scheduler.decide(self.now, cpu, prev, curr);
        self.cpus[cpu.index()].curr = next.as_ref().map(|&(id, _)| id);
        match released {
            Some((task, Released::Exited)) => {
                self.host().forget_place(task.id);
                shared.registry.ended(task, over.expect("its poll has just ended"));
            }
            Some((task, _)) => shared.scheduler.park_blocked(task),
            None => {}
        }
        let Some((id, job)) = next else {
            shared.scheduler.tell(cpu, || What::Idle);
            return self.expire(cpu, true);
        };
        let policy = || lock(&job.cell.asked).policy;
        shared.scheduler.tell(cpu, || What::Exec { task: id, policy: policy() });
        match job {
            Job { cell, todo: Todo::Poll } => self.poll(cpu, cell),
            job => {
                let Computing { left, preemptible, .. } = self.computing[&id];
                let stretch = Stretch { job, until: self.now + left, preemptible };
                self.cpus[cpu.index()].doing = Doing::Computes(stretch);
            }
        }
    }

    fn poll(&mut self, cpu: CpuId, cell: Arc<Cell>) {
        let hand = self.hands.take();
        self.order(cpu, hand, (cell.clone(), Order::Poll(cell)));
    }

    /// Resumes the task that has computed for its span on a CPU.
    fn go_on(&mut self, cpu: CpuId) {
        let doing = mem::replace(&mut self.cpus[cpu.index()].doing, Doing::Idle);
        let Doing::Computes(Stretch { job, .. }) = doing else {
            unreachable!("a task computed here")
        };
        let Computing { hand, .. } =
            self.computing.remove(&job.cell.id).expect("the task computed");
        self.order(cpu, hand, (job.cell, Order::GoOn));
    }

    /// Lets a task run on a CPU until it computes or its poll is over.
    fn order(&mut self, cpu: CpuId, hand: Hand, (cell, order): (Arc<Cell>, Order)) {
        let here = Here { polls: true, ..Here::at(self.now, Some(cpu)) };
        let report = self.hands.order(hand, order, (&cell, here));
        self.last = Some(cell.clone());
        let doing = match report {
            Report::Computes { span, preemptible } => {
                let computing = Computing { hand, left: Nanos::ZERO, preemptible };
                self.computing.insert(cell.id, computing);
                let job = Job { cell, todo: Todo::Nothing };
                Doing::Computes(Stretch { job, until: self.now + span, preemptible })
            }
            Report::Ended => {
                self.hands.put(hand);
                let (prev, over) = Cell::leave_poll(cell);
                Doing::Between(prev, over)
            }
        };
        self.cpus[cpu.index()].doing = doing;
    }

    /// Ends all tasks. Waiting tasks end at their awaits, and computing tasks unwind where they are.
    ///
    /// # Errors
    /// If they do not end.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.host().end();
        here::be(Here::at(self.now, None));
        self.shared.close();
        for own in &mut self.cpus {
            if let Doing::Computes(stretch) = &mut own.doing {
                stretch.until = self.now;
            }
        }
        self.computing.values_mut().for_each(|stopped| stopped.left = Nanos::ZERO);
        self.nr_at_once = 0;
        let ended = self.go(&Goal::NoTasks);
        if ended.is_ok() {
            self.last = None;
            self.hands.end();
        }
        ended
    }

    fn is_stuck(&self) -> String {
        let mut said = "deadlock in virtual time: nothing runs, no timer is armed, and the main future is not \
                        ready. "
            .to_owned();
        let mut cells: Vec<_> = self.shared.registry.cells().collect();
        cells.sort_by_key(|cell| cell.id);
        said += if cells.is_empty() { "No task is left. " } else { "These tasks wait:" };
        for cell in cells {
            let _ = write!(said, "\n  {}", self.host().describe(&cell));
            let (waits, holders) = cell
                .rest_if_any()
                .map(|rest| lock(&rest.inheritance).awaited())
                .unwrap_or_default();
            said += if waits { ": it waits for a mutex" } else { "" };
            for holder in holders {
                let _ = write!(said, " that {} holds", self.host().describe(&holder));
            }
        }
        said + "\nThey wait for each other, or for an event outside of virtual time: I/O, or another thread"
    }

    fn stands_still(&self) -> String {
        let last = self.last.as_ref().map(|cell| self.host().describe(cell)).unwrap_or_default();
        let many = self.nr_at_once - 1;
        format!(
            "virtual time stands still: {many} events happened at one instant. The task polled last \
             is {last}. A task that waits in a loop must sleep or compute in it"
        )
    }
}
