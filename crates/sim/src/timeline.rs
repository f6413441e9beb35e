//! The changes of the scenario's timeline, when their times come.
//!
//! No CPU makes a change, so a change takes no CPU time. A CPU that has to switch because of it receives a kick.
//!
//! A task that is stopped ends as one that receives a signal that kills: it is woken if it is blocked, and it ends when
//! it next executes. A system call comes to its end before that. A task that waits behind others, or in a throttled
//! group, ends when it has the CPU again. Tasks that it has chosen to wake are woken first. Its mutexes stay locked.

use crate::calendar::Due;
use crate::cpu::Doing;
use crate::program::{Began, FIRST_CPU, NewProgram, Todo, Waiting};
use crate::sim::Sim;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::task::{Change, TaskId, Update};
use runyard_engine::time::{Nanos, Time};
use runyard_workload::draw::{Stream, stream};
use runyard_workload::objects::Awaited;
use runyard_workload::scenario::{GroupChange, SharedProperties, SpecId, TimedChange};

impl Sim<'_> {
    /// Enters the instances of the thread objects and the changes of the timeline into the calendar.
    pub(crate) fn enter_instances(&mut self) {
        let later: Vec<_> = (0..self.scenario.tasks.len() as u32)
            .map(|id| !self.scenario.timeline.is_empty() && self.scenario.begins_later(SpecId(id)))
            .collect();
        for (id, nth, name) in self.scenario.instances() {
            let (task, delay) = self.instance(id, nth, name);
            if !later[id.0 as usize] {
                self.spawn(task);
                self.calendar.enter(Time::ZERO + delay, Due::Start(task));
            }
        }
        let changes = self.scenario.timeline.iter();
        let starts = changes.filter(|timed| matches!(timed.change, TimedChange::Start(_)));
        self.starts_left = starts.count();
        self.enter_next_change(0);
    }

    /// Creates the instance `nth` of a thread object. Returns it with the delay before its first phase.
    fn instance(&mut self, id: SpecId, nth: u32, name: String) -> (TaskId, Nanos) {
        let mut draws = stream(self.options.seed, Stream::Task(id, nth));
        let spec = &self.scenario.tasks[id.0 as usize];
        let delay = spec.delay.sample(&mut draws);
        let attr = spec.first_attr(&self.cpusets);
        let calls = stream(self.options.seed, Stream::CallsOfTask(id, nth));
        let zero = self.now + delay;
        (self.create(NewProgram { id, name, attr, zero, draws, calls }), delay)
    }

    /// Enters the change number `nth` into the calendar, if there is one.
    fn enter_next_change(&mut self, nth: u32) {
        if let Some(timed) = self.scenario.timeline.get(nth as usize) {
            self.calendar.enter_first(Time::ZERO + timed.at, Due::Change(nth));
        }
    }

    /// Makes the change number `nth` of the timeline, and enters the next one.
    pub(crate) fn make_change(&mut self, nth: u32) {
        self.tell(FIRST_CPU, What::Timeline { change: nth });
        let scenario = self.scenario;
        match &scenario.timeline[nth as usize].change {
            TimedChange::Cpu { cpu, online } => self.hotplug(*cpu, *online),
            TimedChange::Group { group, change } => self.change_group(*group, *change),
            TimedChange::Task { task, properties } => {
                for task in self.tasks_of(*task) {
                    self.change_task(task, properties);
                }
            }
            TimedChange::Start(task) => self.start(*task),
            TimedChange::Stop(task) => {
                for task in self.tasks_of(*task) {
                    self.stop_task(task);
                }
            }
        }
        self.enter_next_change(nth + 1);
    }

    fn hotplug(&mut self, cpu: CpuId, online: bool) {
        if online {
            self.machine.online(self.now, cpu, &mut self.fx);
        } else {
            self.machine.offline(self.now, cpu, &mut self.fx);
        }
        self.carry_out();
        if online {
            self.bring_back(cpu);
        }
    }

    /// Gives tasks their affinity again of which this is the only online CPU: they ran on any.
    fn bring_back(&mut self, cpu: CpuId) {
        for task in (0..self.tasks.len() as u64).map(TaskId) {
            let program = &self.tasks[task.index()];
            let affinity = &program.attr.affinity;
            let is_online = |cpu: CpuId| self.machine.cpu(cpu).inspect(|rq| rq.site().is_online());
            let exists = program.spawned && !program.done;
            let was_lost = affinity.contains(cpu)
                && affinity.iter().all(|other| other == cpu || !is_online(other));
            if exists && was_lost {
                let change = Change { affinity: Some(affinity.clone()), ..Change::default() };
                let executes = self.runs_on(task).filter(|&on| self.interrupt_task(on));
                self.request(task, change);
                executes.into_iter().for_each(|on| self.go_on(on));
            }
        }
    }

    fn change_group(&mut self, group: GroupId, GroupChange { weight, limit }: GroupChange) {
        if let Some(weight) = weight {
            self.machine.set_weight(self.now, group, weight, &mut self.fx);
            self.carry_out();
        }
        let Some(limit) = limit else { return };
        self.machine.set_limit(self.now, group, limit, &mut self.fx);
        self.carry_out();
        // The change may throttle other tasks than before, and so make other tasks wait.
        for at in 0..self.tasks.len() {
            if !self.tasks[at].holds.is_empty() {
                self.disinherit(TaskId(at as u64));
            }
        }
    }

    /// Returns the tasks of a thread object that exist and have not ended.
    fn tasks_of(&self, spec: SpecId) -> Vec<TaskId> {
        let tasks = (0..).map(TaskId).zip(&self.tasks);
        let exist = tasks.filter(|(_, it)| it.id == spec && it.spawned && !it.done);
        exist.map(|(task, _)| task).collect()
    }

    /// Changes the attributes of a task, wherever it is.
    fn change_task(&mut self, task: TaskId, properties: &SharedProperties) {
        let program = &mut self.tasks[task.index()];
        let old = program.attr.clone();
        let mut new = old.clone();
        properties.replace(&mut new);
        if let Some(cpus) = &properties.cpus {
            program.cpus = Some(Box::new(cpus.clone()));
            new.attr.affinity = self.cpusets.affinity(Some(cpus), new.attr.group);
        }
        if new == old {
            return;
        }
        let change = Change {
            policy: properties.policy,
            affinity: properties.cpus.as_ref().map(|_| new.affinity.clone()),
            latency_nice: properties.latency_nice,
            slice: properties.slice.map_or(Update::Keep, Update::Set),
            ..Change::default()
        };
        program.attr = new;
        if !program.started {
            program.began = Began::of(self.scenario, &program.attr);
        }
        self.observer.asks(task, program.id, &program.attr);
        let (policy, group) = (program.attr.policy, program.attr.group);
        let latency_nice = program.attr.latency_nice;
        let on = self.runs_on(task);
        let executes = on.filter(|&cpu| self.interrupt_task(cpu));
        if let Some(curr) = on.and_then(|cpu| self.cpus[cpu.index()].curr.as_mut()) {
            curr.policy = policy;
        }
        self.tell(on.unwrap_or(FIRST_CPU), What::Changed { task, policy, group, latency_nice });
        self.request(task, change);
        self.disinherit(task);
        if let Waiting::Other(Awaited::Mutex(mutex)) = self.tasks[task.index()].waiting {
            self.inherit(task, mutex);
        }
        executes.into_iter().for_each(|cpu| self.go_on(cpu));
    }

    /// Returns the CPU whose running task is `task`.
    fn runs_on(&self, task: TaskId) -> Option<CpuId> {
        self.cpus.iter().find(|cpu| cpu.task() == Some(task)).map(|cpu| cpu.id)
    }

    /// Interrupts the task of a CPU. Returns whether it was executing, so that the CPU must go on.
    fn interrupt_task(&mut self, cpu: CpuId) -> bool {
        let executes = matches!(self.cpus[cpu.index()].doing, Doing::Exec(_));
        self.pause(cpu);
        executes
    }

    /// Begins the instances of a thread object, for the first time or anew.
    fn start(&mut self, id: SpecId) {
        self.starts_left -= 1;
        let spec = &self.scenario.tasks[id.0 as usize];
        let instances = spec.instances;
        let life = self.lives.entry(id.0).or_insert_with(|| {
            // Instances that begin with the run have had their first life.
            u32::from(!self.scenario.begins_later(id))
        });
        let nth_life = std::mem::replace(life, *life + 1);
        if nth_life == 0 {
            let first = (0..).map(TaskId).zip(&self.tasks);
            let first = first.filter(|(_, it)| it.id == id && !it.spawned);
            for task in first.map(|(task, _)| task).collect::<Vec<_>>() {
                let delay = self.tasks[task.index()].timer_zero.since(Time::ZERO);
                self.tasks[task.index()].timer_zero = self.now + delay;
                self.spawn(task);
                self.calendar.enter(self.now + delay, Due::Start(task));
            }
            return;
        }
        for nth in 0..instances {
            let name = match instances {
                1 => format!("{}#{}", spec.name, nth_life + 1),
                _ => format!("{}-{nth}#{}", spec.name, nth_life + 1),
            };
            let (task, delay) = self.instance(id, nth_life * instances + nth, name);
            self.spawn(task);
            self.calendar.enter(self.now + delay, Due::Start(task));
        }
    }

    /// Makes a task end as soon as it executes. A blocked task is woken for that.
    fn stop_task(&mut self, task: TaskId) {
        let program = &mut self.tasks[task.index()];
        program.stopping = true;
        program.owed = false;
        program.todo = program.todo.abandoned();
        let started = program.started;
        self.wait_for_nothing(task);
        if !started {
            return self.begin(None, task, self.now);
        }
        if self.tasks[task.index()].parked.is_some() {
            return self.wake_from_outside(task);
        }
        let Some(cpu) = self.runs_on(task) else { return };
        let executes = self.interrupt_task(cpu);
        if let Some(curr) = &mut self.cpus[cpu.index()].curr {
            curr.todo = curr.todo.abandoned();
        }
        if executes {
            self.go_on(cpu);
        }
    }

    /// Ends what a task waits for, without its condition.
    pub(crate) fn wait_for_nothing(&mut self, task: TaskId) {
        match std::mem::replace(&mut self.tasks[task.index()].waiting, Waiting::Nothing) {
            Waiting::Nothing => {}
            Waiting::Timer(_) => self.cancel_timer(task),
            Waiting::Other(awaited) => {
                self.watch.note_objects();
                self.objects.forget(task, awaited);
                if let Awaited::Mutex(mutex) = awaited {
                    self.objects.owner(mutex).into_iter().for_each(|owner| self.disinherit(owner));
                }
            }
        }
    }

    fn cancel_timer(&mut self, task: TaskId) {
        if let Some((cpu, timer)) = self.tasks[task.index()].timer.take() {
            self.machine.cpu(cpu).cancel(timer);
            self.tell(cpu, What::TimerCancelled);
        }
    }

    /// Makes a blocked task runnable on behalf of no CPU.
    fn wake_from_outside(&mut self, task: TaskId) {
        let parked = self.tasks[task.index()].parked.take().expect("the task is blocked");
        self.blocked -= 1;
        let to = self.machine.wake(self.now, parked, None, &mut self.fx);
        self.tell(to, What::Wake { task, since: self.now, by: None });
        self.carry_out();
        self.explain(task, to);
    }
}

impl Todo {
    /// Returns the rest of the step of a task that is stopped: a system call comes to its end.
    fn abandoned(self) -> Todo {
        match self {
            Todo::Nothing | Todo::Work(_) | Todo::Until(_) => Todo::Nothing,
            call @ Todo::Kernel(_) => call,
        }
    }
}
