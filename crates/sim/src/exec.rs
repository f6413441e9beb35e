//! The work of a CPU: interrupts, switches, and stretches of a task's work.
//!
//! The scheduler's own work keeps a CPU busy until a time that later interrupts extend. A switch requested in the
//! meantime takes place then, as the kernel does not switch during a switch. A timer interrupt is served at once,
//! whatever the CPU does. Its hard expiry holds to the nanosecond, and its cost is added to the current activity.
//! [`crate::giveway`] says where a task in the kernel gives way to a switch that is due.

use crate::calendar::Due;
use crate::cpu::{Current, Doing};
use crate::giveway::At;
use crate::program::{Program, Todo, Waiting};
use crate::sim::Sim;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::features::Feature;
use runyard_engine::run_queue::{Expired, Prev, Resched};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Expiry, Walk};
use runyard_smp::machine::Work;

impl Sim<'_> {
    /// Returns whether the timer hardware of `cpu` interrupts at `at` with work to do. If there is no work, sets the
    /// hardware again.
    pub(crate) fn has_interrupt(&mut self, cpu: CpuId, at: Time) -> bool {
        let own = &mut self.cpus[cpu.index()];
        if own.interrupt_at != at {
            return false;
        }
        (own.programmed, own.interrupt_at) = (Time::MAX, Time::MAX);
        let due = self.machine.sight().next_expiry(cpu).is_some_and(|expiry| expiry <= at);
        if !due {
            self.program_timer(cpu);
            if let Some(end) = self.cpus[cpu.index()].take_put_off() {
                self.calendar.put(end);
            }
        }
        due
    }

    /// Serves an interrupt of the timer hardware of `cpu`.
    pub(crate) fn interrupt(&mut self, cpu: CpuId) {
        self.expire(cpu);
        self.program_timer(cpu);
    }

    fn expire(&mut self, cpu: CpuId) {
        self.here = Some(cpu);
        self.tell(cpu, What::TimerInterrupt);
        let idle = self.cpus[cpu.index()].doing == Doing::Idle;
        let mut cost = self.woken_up(cpu) + self.costs.timer_interrupt(cpu);
        cost += self.walk(cpu, if idle { Walk::Idle } else { Walk::Busy });
        self.carry_out();
        self.here = None;
        self.spend(cpu, cost);
    }

    /// Runs the timers of `cpu` that may run in its current state, and returns the cost.
    fn walk(&mut self, cpu: CpuId, walk: Walk) -> Nanos {
        let mut cost = Nanos::ZERO;
        while let Some(expired) = self.machine.expire(self.now, cpu, walk, &mut self.fx) {
            if expired == Expired::Tick {
                self.hurry(cpu);
            }
            self.carry_out();
            let Expired::Timer(Expiry { token, greedy, .. }) = expired else {
                self.explain_tick(cpu, expired);
                continue;
            };
            let task = TaskId(token.0);
            let Waiting::Timer(window) = self.tasks[task.index()].waiting else {
                unreachable!("{task} waits for its timer");
            };
            self.verify_expiry(task, window);
            self.tell(cpu, What::TimerExpired { greedy });
            self.tasks[task.index()].waiting = Waiting::Nothing;
            let group = self.fair_group(task);
            self.wake(Some(cpu), task, window.soft, None);
            cost += self.costs.wakeup(cpu, group);
        }
        cost
    }

    /// Runs the timers with open windows before `cpu` goes idle, so that they do not interrupt it later. Returns
    /// whether there were any, because the CPU may then have a task again.
    fn walk_before_idle(&mut self, cpu: CpuId) -> bool {
        if !self.machine.config().features.has(Feature::GreedyTimers) {
            return false;
        }
        self.here = Some(cpu);
        let cost = self.walk(cpu, Walk::BeforeIdle);
        self.here = None;
        let some = cost > Nanos::ZERO || self.cpus[cpu.index()].resched.is_due();
        if some {
            self.spend(cpu, cost);
        }
        some
    }

    /// Serves another CPU's request to reschedule.
    pub(crate) fn kicked(&mut self, cpu: CpuId) {
        let own = &mut self.cpus[cpu.index()];
        own.kick_in_flight = false;
        own.resched = Resched::Yes;
        self.watch.note(cpu);
        let own = &self.cpus[cpu.index()];
        if matches!(own.doing, Doing::Overhead(_)) {
            return;
        }
        let cost = self.woken_up(cpu);
        if cost > Nanos::ZERO {
            return self.spend(cpu, cost);
        }
        self.pause(cpu);
        self.go_on(cpu);
    }

    /// Returns the cost of an interrupt of `cpu` in its sleep, or zero if it is awake.
    fn woken_up(&mut self, cpu: CpuId) -> Nanos {
        match self.cpus[cpu.index()].doing {
            Doing::Idle => self.costs.idle_exit(cpu),
            Doing::Overhead(_) | Doing::Exec(_) | Doing::Between => Nanos::ZERO,
        }
    }

    /// Ends a stretch of the CPU's own work or of its running task.
    pub(crate) fn done(&mut self, cpu: CpuId) {
        match self.cpus[cpu.index()].doing {
            Doing::Overhead(_) => self.go_on(cpu),
            Doing::Exec(_) => self.advance(cpu, At::User),
            doing @ (Doing::Idle | Doing::Between) => {
                unreachable!("CPU {cpu} has nothing to be done with: {doing:?}")
            }
        }
    }

    /// Continues on a CPU that leaves the scheduler's own work: with a switch if its task gives way to one, else with
    /// its task.
    pub(crate) fn go_on(&mut self, cpu: CpuId) {
        if self.gives_way(cpu, At::Exit) {
            self.reschedule(cpu);
            return;
        }
        if self.cpus[cpu.index()].resched.is_due() {
            // The request may also say that the next expiry is earlier than before.
            self.program_timer(cpu);
        }
        self.continue_task(cpu);
    }

    /// Continues with the task of a free CPU, or goes idle.
    pub(crate) fn continue_task(&mut self, cpu: CpuId) {
        let Some(curr) = &self.cpus[cpu.index()].curr else {
            if self.cpus[cpu.index()].doing != Doing::Idle && self.walk_before_idle(cpu) {
                return;
            }
            self.cpus[cpu.index()].next_ticket();
            self.set_doing(cpu, Doing::Idle);
            return;
        };
        let todo = curr.todo;
        self.set_doing(cpu, Doing::Exec(self.now));
        match todo {
            Todo::Nothing | Todo::Kernel(Nanos::ZERO) => self.advance(cpu, At::Exit),
            todo => self.done_at(cpu, self.end_of(cpu, todo)),
        }
    }

    /// Schedules the end of the stretch that the task on `cpu` executes.
    fn done_at(&mut self, cpu: CpuId, until: Time) {
        let own = &mut self.cpus[cpu.index()];
        let end = self.calendar.entry(until, Due::Done(cpu, own.next_ticket()));
        if let Some(end) = own.comes_next(end) {
            self.calendar.put(end);
        }
    }

    /// Returns the end of a stretch that begins now on `cpu`, at its current speed.
    fn end_of(&self, cpu: CpuId, todo: Todo) -> Time {
        match todo {
            Todo::Nothing => self.now,
            Todo::Work(left) => {
                self.now + self.smt.as_ref().map_or(left, |smt| smt.time_for(cpu, left))
            }
            Todo::Until(until) => until.max(self.now),
            Todo::Kernel(left) => self.end_of(cpu, Todo::Work(self.to_next_point(cpu, left))),
        }
    }

    /// Changes the speed of the other threads of a core when a CPU becomes busy or idle.
    #[cold]
    fn set_busy(&mut self, cpu: CpuId, busy: bool) {
        let Some(smt) = self.smt.as_mut().filter(|smt| smt.is_busy(cpu) != busy) else { return };
        let siblings: Vec<_> = smt
            .core(cpu)
            .filter(|&other| other != cpu)
            .filter(|other| matches!(self.cpus[other.index()].doing, Doing::Exec(_)))
            .collect();
        siblings.iter().for_each(|&other| self.pause(other));
        if let Some(smt) = &mut self.smt {
            smt.set_busy(cpu, busy);
        }
        for other in siblings {
            let own = &mut self.cpus[other.index()];
            own.doing = Doing::Exec(self.now);
            let todo = own.curr.as_ref().expect("a CPU executes its task").todo;
            self.done_at(other, self.end_of(other, todo));
        }
    }

    /// Switches without a request of the running task.
    pub(crate) fn reschedule(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu.index()].curr.take();
        match curr {
            Some(Current { task, work, todo, .. }) => {
                self.tasks[task.index()].todo = todo;
                self.switch(cpu, Some(task), Prev::Preempted(work));
            }
            None => self.switch(cpu, None, Prev::Idle),
        }
    }

    /// Switches because the running task leaves in the way of `how`.
    pub(crate) fn leave(&mut self, cpu: CpuId, how: impl FnOnce(Work<()>) -> Prev<Work<()>>) {
        let curr = self.cpus[cpu.index()].curr.take().expect("a task leaves its CPU");
        let Current { task, work, todo, .. } = curr;
        self.tasks[task.index()].todo = todo;
        self.switch(cpu, Some(task), how(work));
    }

    /// Switches `cpu`. `curr` is the task that `prev` describes.
    fn switch(&mut self, cpu: CpuId, curr: Option<TaskId>, prev: Prev<Work<()>>) {
        self.here = Some(cpu);
        self.cpus[cpu.index()].resched = Resched::No;
        self.smt.iter_mut().for_each(|smt| smt.forget_rest(cpu));
        let left = curr.zip(prev.left());
        let switch = self.machine.schedule(self.now, cpu, prev, &mut self.fx);
        if let Some((parked, _)) = switch.released {
            let program = &mut self.tasks[parked.id.index()];
            if !program.done {
                program.parked = Some(parked);
                self.blocked += 1;
            }
        }
        let next = switch.next.as_ref().map(|&(task, _)| task);
        self.cpus[cpu.index()].curr = switch.next.map(|(task, work)| {
            let Program { todo, ref attr, .. } = self.tasks[task.index()];
            Current { task, work, todo, policy: attr.policy }
        });
        self.tell(cpu, What::Switch { prev: left, next });
        self.carry_out();
        self.here = None;
        self.program_timer(cpu);
        let changed = next.is_some() && next != curr;
        let cost = if changed { self.costs.context_switch(cpu) } else { Nanos::ZERO };
        self.spend(cpu, cost);
    }

    /// Adds `cost` of scheduler work to the CPU, which then continues. With no cost, it continues by a later event at
    /// the same time. A recursion might repeat without an end.
    pub(crate) fn spend(&mut self, cpu: CpuId, cost: Nanos) {
        self.pause(cpu);
        let own = &self.cpus[cpu.index()];
        let until = match own.doing {
            Doing::Overhead(until) => until.max(self.now) + cost,
            _ if cost == Nanos::ZERO && own.curr.is_none() => return self.go_on(cpu),
            _ => self.now + cost,
        };
        self.set_doing(cpu, Doing::Overhead(until));
        let ticket = self.cpus[cpu.index()].next_ticket();
        self.calendar.enter(until, Due::Done(cpu, ticket));
    }

    /// Pauses the running task's stretch, and counts its work.
    pub(crate) fn pause(&mut self, cpu: CpuId) {
        let own = &mut self.cpus[cpu.index()];
        let Doing::Exec(since) = own.doing else { return };
        let span = self.now.since(since);
        let did = self.smt.as_mut().map_or(span, |smt| smt.work_in(cpu, span));
        own.next_ticket();
        own.doing = Doing::Between;
        let curr = own.curr.as_mut().expect("a CPU executes its task");
        curr.todo = match curr.todo {
            Todo::Work(left) => match left.saturating_sub(did) {
                Nanos::ZERO => Todo::Nothing,
                left => Todo::Work(left),
            },
            Todo::Kernel(left) => Todo::Kernel(left.saturating_sub(did)),
            Todo::Until(until) if until <= self.now => Todo::Nothing,
            todo => todo,
        };
    }

    fn set_doing(&mut self, cpu: CpuId, doing: Doing) {
        let own = &mut self.cpus[cpu.index()];
        let old = std::mem::replace(&mut own.doing, doing);
        if self.smt.is_some() {
            self.set_busy(cpu, doing != Doing::Idle);
        }
        let curr = self.cpus[cpu.index()].curr.as_ref().map(|curr| (curr.task, curr.policy));
        match doing {
            Doing::Idle if old != Doing::Idle || self.idles_otherwise(cpu) => self.tell_idle(cpu),
            Doing::Overhead(_) if !matches!(old, Doing::Overhead(_)) => {
                self.tell(cpu, What::Overhead);
            }
            Doing::Exec(_) if self.ends_in_kernel(cpu) => self.tell(cpu, What::Overhead),
            Doing::Exec(_) => {
                let (task, policy) = curr.expect("a CPU executes its task");
                self.tasks[task.index()].resumes = false;
                self.tell(cpu, What::Exec { task, policy });
                self.explain_due(cpu);
            }
            Doing::Idle | Doing::Overhead(_) | Doing::Between => {}
        }
    }

    /// Makes a blocked task runnable from the CPU `on`, or from outside, on behalf of `by`; `since` is the time of its
    /// cause. A task that was about to block and has not done so yet continues instead.
    pub(crate) fn wake(
        &mut self,
        on: Option<CpuId>,
        task: TaskId,
        since: Time,
        by: Option<TaskId>,
    ) {
        let Some(parked) = self.tasks[task.index()].parked.take() else { return };
        self.blocked -= 1;
        self.tasks[task.index()].resumes = true;
        let to = self.machine.wake(self.now, parked, on, &mut self.fx);
        self.tell(to, What::Wake { task, since, by });
        let here = std::mem::replace(&mut self.here, on);
        self.carry_out();
        self.here = here;
        self.program_server(to);
        self.explain(task, to);
    }

    /// Returns the group in which a task that waits will compete, if it is fair.
    pub(crate) fn fair_group(&self, task: TaskId) -> Option<GroupId> {
        let parked = self.tasks[task.index()].parked.as_ref()?;
        parked.class().is_fair().then(|| parked.queue_group())
    }

    /// Sets the timer hardware of a CPU where a task came. The fair server may have been started for an earlier one, and is
    /// due perhaps before the CPU's next interrupt.
    pub(crate) fn program_server(&mut self, cpu: CpuId) {
        if self.here != Some(cpu) && self.scenario.features.has(Feature::FairServer) {
            self.program_timer(cpu);
        }
    }

    /// Sets the timer hardware to the next expiry. An earlier setting stays. Its interrupt finds no work and sets the
    /// hardware again, which costs no virtual time.
    pub(crate) fn program_timer(&mut self, cpu: CpuId) {
        let Some(expiry) = self.machine.sight().next_expiry(cpu) else { return };
        let programmed = expiry.max(self.now);
        if programmed < self.cpus[cpu.index()].programmed {
            let at = programmed + self.costs.timer_latency(cpu);
            let own = &mut self.cpus[cpu.index()];
            (own.programmed, own.interrupt_at) = (programmed, at);
            self.calendar.enter(at, Due::Interrupt(cpu));
        }
    }
}
