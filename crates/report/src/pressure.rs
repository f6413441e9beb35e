//! The pressure on the CPU by task group, as the kernel's `cpu.pressure` has it (PSI).
//!
//! *Some* is the time in which at least one task of a group was runnable and had no CPU. *Full* is the part of it in
//! which no task of the group had one. A task has a CPU from the switch to it to the switch away, interrupts included. The
//! tasks of a group are those in it and in the groups below it. A throttled task is runnable.
//!
//! The kernel computes both on each CPU, and then the mean over CPUs, weighted by the time for which the group was not
//! idle there (`collect_percpu_times`). Here it is the time of the definition. The two are the same on one CPU.

use runyard_engine::attr::GroupId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};

/// The pressure on a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// The time in which some task of the group waited for a CPU.
    pub some: Nanos,
    /// The part of it in which no task of the group had one.
    pub full: Nanos,
}

/// The pressure on each group of a run.
#[derive(Debug)]
pub(crate) struct Pressures {
    groups: Vec<Group>,
    tasks: Vec<Task>,
}

/// A group with the number of its tasks in each state.
#[derive(Clone, Copy, Debug)]
struct Group {
    parent: Option<GroupId>,
    waiting: u32,
    on_cpu: u32,
    /// The time up to which `total` counts.
    since: Time,
    total: Pressure,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    group: GroupId,
    state: State,
    /// It was woken while it had a CPU, so it does not sleep if it then blocks.
    early: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Asleep, not born or gone.
    #[default]
    Off,
    Waiting,
    OnCpu,
}

impl Pressures {
    /// The groups by their parents; that of the first is none.
    pub(crate) fn new(parents: &[Option<GroupId>]) -> Pressures {
        let group = |&parent| Group {
            parent,
            waiting: 0,
            on_cpu: 0,
            since: Time::ZERO,
            total: Pressure::default(),
        };
        Pressures { groups: parents.iter().map(group).collect(), tasks: Vec::new() }
    }

    /// Notes the group of a task before its life. A change in its life is an event.
    pub(crate) fn asks(&mut self, task: TaskId, group: GroupId) {
        let it = self.task(task);
        if it.state == State::Off {
            it.group = group;
        }
    }

    fn join(&mut self, task: TaskId, group: GroupId, now: Time) {
        let state = self.task(task).state;
        self.set(task, State::Off, now);
        self.task(task).group = group;
        self.set(task, state, now);
    }

    #[inline]
    pub(crate) fn event(&mut self, event: &Event, now: Time) {
        match event.what {
            What::Exec { task, .. } => self.set(task, State::OnCpu, now),
            What::Wake { task, .. } => match self.task(task).state {
                State::Off => self.set(task, State::Waiting, now),
                State::OnCpu => self.task(task).early = true,
                State::Waiting => {}
            },
            What::Switch { prev, next } => {
                if let Some((task, left)) = prev {
                    let early = std::mem::take(&mut self.task(task).early);
                    let state = match left {
                        Left::Preempted | Left::Yielded if next == Some(task) => State::OnCpu,
                        Left::Preempted | Left::Yielded => State::Waiting,
                        Left::Blocked if early => State::Waiting,
                        Left::Blocked | Left::Exited => State::Off,
                    };
                    self.set(task, state, now);
                }
                if let Some(next) = next {
                    self.set(next, State::OnCpu, now);
                }
            }
            What::Changed { task, group, .. } => self.join(task, group, now),
            _ => {}
        }
    }

    /// Begins anew at `now`: what was before does not count.
    pub(crate) fn count_from(&mut self, now: Time) {
        for group in &mut self.groups {
            (group.since, group.total) = (now, Pressure::default());
        }
    }

    /// The pressure on a group up to `now`, in which nothing has happened since the last event.
    pub(crate) fn of(&self, group: GroupId, now: Time) -> Option<Pressure> {
        let mut group = *self.groups.get(group.index())?;
        group.count_to(now);
        Some(group.total)
    }

    fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Task::default());
        }
        &mut self.tasks[task.index()]
    }

    fn set(&mut self, task: TaskId, state: State, now: Time) {
        let it = self.task(task);
        let (old, mut at) = (std::mem::replace(&mut it.state, state), Some(it.group));
        if old == state {
            return;
        }
        while let Some(id) = at {
            let group = &mut self.groups[id.index()];
            group.count_to(now);
            if let Some(count) = group.count(old) {
                *count -= 1;
            }
            if let Some(count) = group.count(state) {
                *count += 1;
            }
            at = group.parent;
        }
    }
}

impl Group {
    fn count(&mut self, state: State) -> Option<&mut u32> {
        match state {
            State::Off => None,
            State::Waiting => Some(&mut self.waiting),
            State::OnCpu => Some(&mut self.on_cpu),
        }
    }

    fn count_to(&mut self, now: Time) {
        let span = now.since(self.since);
        if self.waiting > 0 {
            self.total.some += span;
            if self.on_cpu == 0 {
                self.total.full += span;
            }
        }
        self.since = now;
    }
}
