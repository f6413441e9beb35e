//! The interpreter: the effect of each step of a program when its task reaches it.
//!
//! A step takes CPU time, or blocks, or acts at once. To wake other tasks is work for the scheduler, which the waker's
//! CPU does for one task after another. Between two of them, the waker can lose its CPU.

use crate::calendar::Due;
use crate::cost::Call;
use crate::cpu::Current;
use crate::giveway::At;
use crate::program::{NewProgram, StepsAtOnce, Todo, Waiting, Wakeup};
use crate::sim::Sim;
use runyard_engine::attr::RtPrio;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Prev;
use runyard_engine::task::{Change, TaskId, Update};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Token, Window};
use runyard_workload::cursor::{Next, Period};
use runyard_workload::draw::{Draw, Stream, stream};
use runyard_workload::objects::{Awaited, Objects, Sharing};
use runyard_workload::scenario::{ObjectId, Phase, SpecId, Step, TaskAttr, TimerRef};

/// The largest number of steps that a task may take at one instant. A program that makes progress takes far fewer.
const MAX_STEPS_AT_ONCE: u32 = 1_000_000;

/// The largest number of tasks, forked ones included. It equals the limit of a scenario.
const MAX_TASKS: usize = 1_000_000;

/// The effect of a step on the CPU.
enum Then {
    /// The task goes to its next step.
    GoOn,
    /// The task blocks until it is woken.
    Block(Waiting),
    Yield,
    Exit,
}

impl Sim<'_> {
    /// Advances the task on `cpu`, which executes and has completed its step.
    pub(crate) fn advance(&mut self, cpu: CpuId, at: At) {
        self.pause(cpu);
        self.here = Some(cpu);
        self.interpret(cpu, at);
        self.here = None;
    }

    fn interpret(&mut self, cpu: CpuId, mut at: At) {
        loop {
            let curr = self.current(cpu);
            let (task, todo) = (curr.task, curr.todo);
            if todo == Todo::Kernel(Nanos::ZERO) {
                (curr.todo, at) = (Todo::Nothing, At::Exit);
            }
            if !self.makes_progress(task) {
                return;
            }
            if self.gives_way(cpu, at) {
                return self.reschedule(cpu);
            }
            if !matches!(self.current(cpu).todo, Todo::Nothing) {
                return self.continue_task(cpu);
            }
            if self.calls_to_wake(cpu, task) {
                return self.continue_task(cpu);
            }
            if let Some(wakeup) = self.tasks[task.index()].wakes.pop_front() {
                self.tasks[task.index()].called = false;
                let group = self.fair_group(wakeup.task);
                self.wake_or_begin(cpu, wakeup);
                let cost = self.costs.wakeup(cpu, group);
                return self.spend(cpu, cost);
            }
            // The task keeps an inherited priority until it has woken its donors.
            if std::mem::take(&mut self.tasks[task.index()].donors_left) {
                self.disinherit(task);
                continue;
            }
            if self.tasks[task.index()].stopping {
                if let Some(mutex) = self.tasks[task.index()].retry.take() {
                    // The next task has the mutex that this one was woken to take.
                    self.watch.note_objects();
                    self.forgo(task, mutex);
                    self.wait_for_nothing(task);
                    continue;
                }
                return self.exit(cpu, task);
            }
            // Before it blocks, the task wakes the tasks that it owes a wake-up. It may itself be woken in the
            // meantime.
            if self.tasks[task.index()].waiting != Waiting::Nothing {
                return self.leave(cpu, Prev::Blocked);
            }
            self.tasks[task.index()].owed = false;
            if self.returns_from_call(cpu, task) {
                continue;
            }
            if let Some(mutex) = self.tasks[task.index()].retry.take() {
                self.watch.note_objects();
                if let Some(awaited) = self.try_again(task, mutex) {
                    self.tasks[task.index()].waiting = Waiting::Other(awaited);
                }
                continue;
            }
            let then = match self.tasks[task.index()].entered.take() {
                Some(step) => self.take_step(cpu, task, step),
                None => self.next_step(cpu, task, &mut at),
            };
            match then {
                Then::GoOn => {}
                Then::Block(waiting) => {
                    self.tasks[task.index()].waiting = waiting;
                    if matches!(waiting, Waiting::Other(_)) {
                        let call = self.costs.wait(cpu);
                        self.enter_kernel(cpu, task, call);
                    }
                }
                Then::Yield => return self.leave(cpu, Prev::Yielded),
                Then::Exit => return self.exit(cpu, task),
            }
        }
    }

    /// Goes to the task's next step, and takes it unless the way into the kernel takes time first.
    fn next_step(&mut self, cpu: CpuId, task: TaskId, at: &mut At) -> Then {
        let program = &mut self.tasks[task.index()];
        let next = program.cursor.go_on(program.spec);
        if let Some(log) = &mut program.log
            && let Some(row) = log.comes_to(&next, program.cursor.place(), self.now)
        {
            self.observer.row(&row);
        }
        match next {
            Next::Phase(phase) => {
                if self.begin_phase(cpu, task, phase) {
                    *at = At::Exit;
                }
                Then::GoOn
            }
            Next::Step(step) => {
                let place = self.tasks[task.index()].cursor.place();
                let (phase, nth) = (place.phase as u32, place.step as u32 - 1);
                self.tell(cpu, What::Step { task, phase, step: nth });
                let calls = &mut self.tasks[task.index()].calls;
                let call = self.costs.system_call(calls, &step);
                if self.enter_kernel(cpu, task, call) {
                    self.tasks[task.index()].entered = Some(step);
                    return Then::GoOn;
                }
                if enters_kernel(&step) {
                    *at = At::Exit;
                }
                self.take_step(cpu, task, step)
            }
            Next::End => Then::Exit,
        }
    }

    /// Makes the task on `cpu` enter the kernel for a system call. It returns when it has its CPU after the call's effect.
    /// Returns whether the way in takes time.
    fn enter_kernel(&mut self, cpu: CpuId, task: TaskId, call: Call) -> bool {
        self.tasks[task.index()].returns += call.returns;
        self.work_in_kernel(cpu, call.enters)
    }

    /// Makes the task on `cpu` enter the kernel for the system call that wakes the next task that it owes a wake-up. Returns
    /// whether that takes time.
    fn calls_to_wake(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let program = &self.tasks[task.index()];
        let wakes = program.wakes.front().is_some_and(|it| self.tasks[it.task.index()].started);
        if !wakes || program.called {
            return false;
        }
        self.tasks[task.index()].called = true;
        let span = self.costs.wake_call(cpu);
        self.work_in_kernel(cpu, span)
    }

    /// Makes the task on `cpu` return from a system call that has had its effect. Returns whether that takes time.
    fn returns_from_call(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let program = &mut self.tasks[task.index()];
        if program.entered.is_some() {
            return false;
        }
        let span = std::mem::take(&mut program.returns);
        self.work_in_kernel(cpu, span)
    }

    /// Makes the task on `cpu` work in the kernel for itself. Returns whether that takes time.
    fn work_in_kernel(&mut self, cpu: CpuId, span: Nanos) -> bool {
        if span > Nanos::ZERO {
            self.current(cpu).todo = Todo::Kernel(span);
        }
        span > Nanos::ZERO
    }

    fn take_step(&mut self, cpu: CpuId, task: TaskId, step: Step) -> Then {
        match step {
            Step::Run(draw) => {
                let span = self.sample(task, draw);
                self.work(cpu, Todo::Work(span), span)
            }
            Step::Runtime(draw) => {
                let span = self.sample(task, draw);
                self.work(cpu, Todo::Until(self.now + span), span)
            }
            Step::Memory(span) => {
                self.current(cpu).todo = Todo::Work(span);
                Then::GoOn
            }
            Step::Kernel(draw) => {
                let span = self.sample(task, draw);
                self.work_in_kernel(cpu, span);
                Then::GoOn
            }
            Step::Sleep(draw) => {
                let span = self.sample(task, draw);
                self.sleep_until(cpu, task, self.now + span)
            }
            Step::Timer { timer, period, mode } => {
                let period = self.sample(task, period);
                let zero = self.tasks[task.index()].timer_zero;
                let now = self.now;
                let last = self.period_mut(task, timer);
                let next = Period::after(last.unwrap_or(zero), period, mode, now);
                *last = Some(next.kept);
                self.tasks[task.index()].missed += u64::from(next.missed);
                self.tasks[task.index()].omitted += next.omitted;
                if next.missed {
                    self.tell(cpu, What::Late { task, since: next.due });
                }
                if let Some(log) = &mut self.tasks[task.index()].log {
                    log.timer(period, next);
                }
                if next.missed { Then::GoOn } else { self.sleep_until(cpu, task, next.due) }
            }
            Step::Yield => Then::Yield,
            Step::Exit => Then::Exit,
            Step::Fork(spec) => self.fork(task, spec),
            shared => {
                self.watch.note_objects();
                if !self.scenario.chains.is_empty() {
                    self.tell(cpu, What::Acts { task });
                }
                match self.take_shared_step(task, &shared) {
                    Some(awaited) => Then::Block(Waiting::Other(awaited)),
                    None => Then::GoOn,
                }
            }
        }
    }

    /// Returns the task that executes on `cpu`.
    fn current(&mut self, cpu: CpuId) -> &mut Current {
        self.cpus[cpu.index()].curr.as_mut().expect("a task executes")
    }

    /// Makes the task on `cpu` work for `span`, as `todo` says.
    fn work(&mut self, cpu: CpuId, todo: Todo, span: Nanos) -> Then {
        let curr = self.current(cpu);
        curr.todo = todo;
        let task = curr.task;
        if let Some(log) = &mut self.tasks[task.index()].log {
            log.run(span);
        }
        Then::GoOn
    }

    /// Applies the properties of a phase that differ from the current ones. Returns whether any does.
    fn begin_phase(&mut self, cpu: CpuId, task: TaskId, phase: &Phase) -> bool {
        let program = &self.tasks[task.index()];
        let old = program.attr.clone();
        let new = program.spec.attr_in(phase, &old, program.cpus.as_deref(), &self.cpusets);
        if new == old {
            return false;
        }
        let change = Change {
            policy: (new.policy != old.policy).then_some(new.policy),
            affinity: (new.affinity != old.affinity).then(|| new.affinity.clone()),
            group: (new.group != old.group).then_some(new.group),
            latency_nice: (new.latency_nice != old.latency_nice).then_some(new.latency_nice),
            slice: if new.slice == old.slice { Update::Keep } else { new.slice.into() },
            cookie: if new.cookie == old.cookie { Update::Keep } else { new.cookie.into() },
            ..Change::default()
        };
        let (policy, group, latency_nice) = (new.policy, new.group, new.latency_nice);
        let program = &mut self.tasks[task.index()];
        program.attr = new;
        self.observer.asks(task, program.id, &program.attr);
        self.current(cpu).policy = policy;
        self.tell(cpu, What::Changed { task, policy, group, latency_nice });
        self.request(task, change);
        if !self.tasks[task.index()].holds.is_empty() {
            // The attributes that it inherits depend on its group.
            self.disinherit(task);
        }
        true
    }

    /// Requests a change of a task from the machine.
    pub(crate) fn request(&mut self, task: TaskId, change: Change) {
        let cell = self.tasks[task.index()].control.clone();
        self.machine.change(self.now, &*cell, change, &mut self.fx);
        self.carry_out();
        self.here.into_iter().for_each(|cpu| self.program_timer(cpu));
    }

    fn sleep_until(&mut self, cpu: CpuId, task: TaskId, soft: Time) -> Then {
        let window = Window { soft, hard: soft + self.tasks[task.index()].slack() };
        self.tell(cpu, What::TimerArmed);
        let timer = self.machine.cpu(cpu).arm(window, Token(task.0));
        self.tasks[task.index()].timer = Some((cpu, timer));
        self.program_timer(cpu);
        Then::Block(Waiting::Timer(window))
    }

    /// Makes `waker` wake `woken` as soon as it can.
    pub(crate) fn wake_later(&mut self, waker: TaskId, woken: TaskId) {
        let program = &mut self.tasks[woken.index()];
        (program.waiting, program.owed) = (Waiting::Nothing, true);
        self.tasks[waker.index()].wakes.push_back(Wakeup { task: woken, since: self.now });
    }

    /// Forks a task. It begins at once, or when its delay since the start of the run is over.
    fn fork(&mut self, task: TaskId, spec: SpecId) -> Then {
        let parent = &self.tasks[task.index()];
        let forked = &self.scenario.tasks[spec.0 as usize];
        let attr = forked.forked_attr(&self.cpusets, parent.spec, &parent.attr);
        let Some(child) = self.create_next(spec, attr, Time::ZERO) else { return Then::Exit };
        self.spawn(child);
        let begin = self.tasks[child.index()].timer_zero;
        if begin > self.now {
            self.calendar.enter(begin, Due::Start(child));
        } else {
            self.wake_later(task, child);
        }
        Then::GoOn
    }

    /// Creates the next task of a thread object that is started during the run. Its delay counts from `zero`. Stops the run
    /// if there are too many tasks.
    pub(crate) fn create_next(&mut self, id: SpecId, attr: TaskAttr, zero: Time) -> Option<TaskId> {
        if self.tasks.len() >= MAX_TASKS {
            self.stop("task-limit", format!("{MAX_TASKS} tasks exist, and one more is forked"));
            return None;
        }
        let nth = self.forks[id.0 as usize];
        self.forks[id.0 as usize] += 1;
        let spec = &self.scenario.tasks[id.0 as usize];
        let name = format!("{}-{nth:04}", spec.name);
        let mut draws = stream(self.options.seed, Stream::Fork(id, nth));
        let zero = zero + spec.delay.sample(&mut draws);
        let calls = stream(self.options.seed, Stream::CallsOfFork(id, nth));
        Some(self.create(NewProgram { id, name, attr, zero, draws, calls }))
    }

    /// Returns whether a task makes progress in time. A task could take steps for ever at one instant, for example by
    /// locking and unlocking a free mutex. It would keep virtual time from advancing.
    fn makes_progress(&mut self, task: TaskId) -> bool {
        let now = self.now;
        let program = &mut self.tasks[task.index()];
        let count = if program.steps.at == now { program.steps.count + 1 } else { 0 };
        program.steps = StepsAtOnce { at: now, count };
        let stuck = count > MAX_STEPS_AT_ONCE;
        if stuck {
            let what = format!("{} took {MAX_STEPS_AT_ONCE} steps at one instant", program.name);
            self.stop("progress", what);
        }
        !stuck
    }

    /// Wakes a task, or begins it if it was just forked.
    fn wake_or_begin(&mut self, cpu: CpuId, Wakeup { task, since }: Wakeup) {
        let program = &mut self.tasks[task.index()];
        if !std::mem::take(&mut program.owed) {
            return;
        }
        if program.started {
            let by = self.cpus[cpu.index()].task();
            self.wake(Some(cpu), task, since, by);
        } else {
            self.begin(Some(cpu), task, since);
        }
    }

    fn exit(&mut self, cpu: CpuId, task: TaskId) {
        let program = &mut self.tasks[task.index()];
        program.done = true;
        program.request_of.into_iter().for_each(|nth| self.requests.ended(nth));
        self.alive -= 1;
        self.leave(cpu, |_| Prev::Exited);
    }

    fn sample(&mut self, task: TaskId, draw: Draw) -> Nanos {
        draw.sample(&mut self.tasks[task.index()].draws)
    }

    /// Returns the begin of a timer's current period, once the timer has been used.
    fn period_mut(&mut self, task: TaskId, timer: TimerRef) -> &mut Option<Time> {
        match timer {
            TimerRef::Shared(id) => self.objects.period_mut(id),
            TimerRef::Unique(nth) => {
                let timers = &mut self.tasks[task.index()].timers;
                timers.resize(timers.len().max(nth as usize + 1), None);
                &mut timers[nth as usize]
            }
        }
    }
}

/// Returns whether a step enters the kernel even if it neither blocks nor wakes a task. A free mutex and a signal
/// without a waiter take place in user mode.
fn enters_kernel(step: &Step) -> bool {
    matches!(step, Step::Fork(_) | Step::Send { .. } | Step::Recv { .. } | Step::Kernel(_))
}

impl Sharing for Sim<'_> {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn objects_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }

    fn rt_prio(&self, task: TaskId) -> Option<RtPrio> {
        self.tasks[task.index()].class().lent_prio()
    }

    fn wake(&mut self, waker: TaskId, woken: TaskId) {
        self.wake_later(waker, woken);
    }

    fn wake_to_try(&mut self, waker: TaskId, woken: TaskId, mutex: ObjectId) {
        self.tasks[woken.index()].retry = Some(mutex);
        self.wake_later(waker, woken);
    }

    fn took(&mut self, task: TaskId, mutex: ObjectId) {
        self.tasks[task.index()].holds.push(mutex);
    }

    fn queued(&mut self, task: TaskId, mutex: ObjectId) {
        self.tasks[task.index()].waiting = Waiting::Other(Awaited::Mutex(mutex));
        self.inherit(task, mutex);
    }

    fn gave_back(&mut self, task: TaskId, mutex: ObjectId) {
        let program = &mut self.tasks[task.index()];
        program.holds.retain(|&held| held != mutex);
        program.donors_left = true;
    }

    fn handed_over(&mut self, task: TaskId) {
        self.disinherit(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Options;
    use runyard_engine::event::Event;
    use runyard_workload::{Overrides, parse};

    #[test]
    fn a_phase_changes_the_cookie_in_the_engine_too() {
        let text = r#"{"machine": {"topology": "1x1x2"}, "tasks": {"a": {"loop": 1, "cookie": "x", "phases": {
            "p": {"run": 10, "sleep": 100}, "q": {"cookie": "y", "sleep": 100}, "r": {"sleep": 100},
            "s": {"cookie": "", "sleep": 100}}}}}"#;
        let scenario = parse("-", text, &Overrides::default()).unwrap().scenario;
        let mut sim = Sim::new(&scenario, Options::default(), |_: &Event| {}).unwrap();
        assert!(sim.machine.config().cookies);
        // The engine's part of a sleeping task is with its program.
        let mut had = Vec::new();
        while sim.step() {
            let cookie = sim.tasks[0].parked.as_ref().map(|parked| parked.attr().cookie);
            if had.last() != Some(&cookie) {
                had.push(cookie);
            }
        }
        let slept = had.into_iter().flatten();
        let names = slept.map(|cookie| cookie.map(|cookie| scenario.cookie_name(cookie)));
        assert_eq!(names.collect::<Vec<_>>(), [Some("x"), Some("y"), Some("y"), None]);
    }
}
