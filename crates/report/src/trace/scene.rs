//! From events to the view of the kernel's scheduler: the switches and the wake-ups.
//!
//! Rules, for events that race as those of real CPUs do:
//! * A wake-up of a task that has a CPU takes effect when the task has blocked, if it does. A wake-up of a waiting task
//!   has no effect.
//! * A CPU has at most one task, and a task at most one CPU. A task that is switched to while another CPU has it leaves
//!   that CPU first. A task that executes without a switch to it is switched to.
//! * A task that is switched to without a wake-up is woken first.
//! * A CPU that a task has left works for the scheduler until another event changes that, as in reports.

use runyard_engine::attr::{Cookie, GroupId};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;

/// A change in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduled {
    /// A task was created, asleep.
    Born(TaskId),
    /// A sleeping task became runnable, on `cpu`.
    Woken {
        task: TaskId,
        by: Option<TaskId>,
        cpu: CpuId,
        /// Whether it is its first wake-up.
        new: bool,
    },
    /// `cpu` belongs to `next` from now on.
    Switched { cpu: CpuId, prev: Option<(TaskId, Left)>, next: Option<TaskId> },
    /// `cpu` begins or ends work for the scheduler.
    Overhead { cpu: CpuId, begins: bool },
    /// `cpu` begins or ends to be forced idle, because its core runs tasks of this cookie.
    ForcedIdle { cpu: CpuId, cookie: Option<Cookie>, begins: bool },
    /// The group's throttling on `cpu` begins or ends.
    Throttling { cpu: CpuId, group: GroupId, begins: bool },
    /// The change of the timeline with this number took place.
    Changed(u32),
    /// A timer was run.
    Expired { cpu: CpuId, greedy: bool },
}

/// The state of all CPUs and tasks.
#[derive(Debug, Default)]
pub(super) struct Scene {
    tasks: Vec<Life>,
    cpus: Vec<Cpu>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    curr: Option<TaskId>,
    does: Does,
}

/// The activity of a CPU besides executing tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Does {
    #[default]
    Nothing,
    Overhead,
    /// It is forced idle.
    Forced(Option<Cookie>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Unborn,
    /// `new`: whether it was never awake.
    Asleep {
        new: bool,
    },
    Waits,
    /// `woken`: the waker, if the task was woken meanwhile.
    Has {
        cpu: CpuId,
        woken: Option<Option<TaskId>>,
    },
    Gone,
}

impl Does {
    /// The change by which `cpu` begins or ends this activity.
    fn told(self, cpu: CpuId, begins: bool) -> Option<Scheduled> {
        match self {
            Does::Nothing => None,
            Does::Overhead => Some(Scheduled::Overhead { cpu, begins }),
            Does::Forced(cookie) => Some(Scheduled::ForcedIdle { cpu, cookie, begins }),
        }
    }
}

impl Scene {
    /// The CPU that a task has.
    pub(super) fn cpu_of(&self, task: TaskId) -> Option<CpuId> {
        match self.tasks.get(task.index()) {
            Some(&Life::Has { cpu, .. }) => Some(cpu),
            _ => None,
        }
    }

    /// The task that has a CPU.
    pub(super) fn curr(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus.get(cpu.index()).and_then(|cpu| cpu.curr)
    }

    /// Appends the changes of `event` to `changes`.
    pub(super) fn enter(&mut self, event: &Event, changes: &mut Vec<Scheduled>) {
        let cpu = event.cpu;
        match event.what {
            What::Spawn { task } => self.born(task, changes),
            What::Wake { task, by, .. } => self.wake(task, by, cpu, changes),
            What::Switch { prev, next } => self.switch(cpu, prev, next, changes),
            What::Exec { task, .. } => {
                let had = self.cpu(cpu).curr;
                if had != Some(task) {
                    self.switch(cpu, had.map(|had| (had, Left::Preempted)), Some(task), changes);
                }
                self.turn(cpu, Does::Nothing, changes);
            }
            What::Overhead => self.turn(cpu, Does::Overhead, changes),
            What::Idle => self.turn(cpu, Does::Nothing, changes),
            What::ForcedIdle { cookie } => self.turn(cpu, Does::Forced(cookie), changes),
            What::Throttled { group } => {
                changes.push(Scheduled::Throttling { cpu, group, begins: true });
            }
            What::Unthrottled { group } => {
                changes.push(Scheduled::Throttling { cpu, group, begins: false });
            }
            What::Timeline { change } => changes.push(Scheduled::Changed(change)),
            What::TimerExpired { greedy } => changes.push(Scheduled::Expired { cpu, greedy }),
            What::TimerInterrupt
            | What::TimerArmed
            | What::TimerCancelled
            | What::Balanced(_)
            | What::Changed { .. }
            | What::Moved { .. }
            | What::Landed { .. }
            | What::SwitchDue
            | What::PassedOver { .. }
            | What::Arrived { .. }
            | What::Late { .. }
            | What::Acts { .. }
            | What::Step { .. } => {}
        }
    }

    fn born(&mut self, task: TaskId, changes: &mut Vec<Scheduled>) {
        let life = self.life(task);
        if *life == Life::Unborn {
            *life = Life::Asleep { new: true };
            changes.push(Scheduled::Born(task));
        }
    }

    fn wake(&mut self, task: TaskId, by: Option<TaskId>, cpu: CpuId, changes: &mut Vec<Scheduled>) {
        self.born(task, changes);
        let life = self.life(task);
        match life {
            Life::Asleep { new } => {
                changes.push(Scheduled::Woken { task, by, cpu, new: *new });
                *life = Life::Waits;
            }
            Life::Has { woken, .. } => *woken = woken.or(Some(by)),
            Life::Unborn | Life::Waits | Life::Gone => {}
        }
    }

    fn switch(
        &mut self,
        cpu: CpuId,
        prev: Option<(TaskId, Left)>,
        next: Option<TaskId>,
        changes: &mut Vec<Scheduled>,
    ) {
        let had = self.cpu(cpu).curr;
        let stays = had.is_some() && had == next;
        let leaves = prev.filter(|&(task, _)| had == Some(task));
        if let (true, Some((_, Left::Preempted | Left::Yielded))) = (stays, leaves) {
            if let Life::Has { woken, .. } = self.life(next.expect("who stays is next")) {
                *woken = None;
            }
            return;
        }
        // A task that had the CPU and is not named has left it in some way.
        let prev = leaves.or(had.map(|task| (task, Left::Preempted)));
        if let Some(next) = next {
            self.come(next, cpu, changes);
        }
        changes.push(Scheduled::Switched { cpu, prev, next });
        if prev.is_some() {
            self.turn(cpu, Does::Overhead, changes);
        }
        let early = prev.and_then(|(task, left)| Some((task, self.leave(task, left)?)));
        self.cpu(cpu).curr = next;
        if let Some(next) = next {
            *self.life(next) = Life::Has { cpu, woken: None };
        }
        if let Some((task, by)) = early.filter(|&(task, _)| next != Some(task)) {
            self.wake(task, by, cpu, changes);
        }
    }

    /// Prepares a switch to `task` from any state.
    fn come(&mut self, task: TaskId, to: CpuId, changes: &mut Vec<Scheduled>) {
        match *self.life(task) {
            Life::Has { cpu, .. } if cpu != to => {
                let prev = Some((task, Left::Preempted));
                changes.push(Scheduled::Switched { cpu, prev, next: None });
                self.turn(cpu, Does::Overhead, changes);
                self.cpu(cpu).curr = None;
                *self.life(task) = Life::Waits;
            }
            Life::Unborn | Life::Asleep { .. } => self.wake(task, None, to, changes),
            Life::Has { .. } | Life::Waits | Life::Gone => {}
        }
    }

    /// Notes that `task` left its CPU. Returns the early waker, if the task blocked.
    fn leave(&mut self, task: TaskId, left: Left) -> Option<Option<TaskId>> {
        let life = self.life(task);
        let Life::Has { woken, .. } = *life else { return None };
        *life = match left {
            Left::Preempted | Left::Yielded => Life::Waits,
            Left::Blocked => Life::Asleep { new: false },
            Left::Exited => Life::Gone,
        };
        woken.filter(|_| left == Left::Blocked)
    }

    fn turn(&mut self, cpu: CpuId, does: Does, changes: &mut Vec<Scheduled>) {
        let did = std::mem::replace(&mut self.cpu(cpu).does, does);
        if did != does {
            changes.extend(did.told(cpu, false));
            changes.extend(does.told(cpu, true));
        }
    }

    fn life(&mut self, task: TaskId) -> &mut Life {
        let len = self.tasks.len().max(task.index() + 1);
        self.tasks.resize(len, Life::default());
        &mut self.tasks[task.index()]
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let len = self.cpus.len().max(cpu.index() + 1);
        self.cpus.resize(len, Cpu::default());
        &mut self.cpus[cpu.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::Policy;
    use runyard_engine::time::Time;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const C0: CpuId = CpuId(0);
    const C1: CpuId = CpuId(1);

    fn told(events: &[(CpuId, What)]) -> Vec<Scheduled> {
        let (mut scene, mut changes) = (Scene::default(), Vec::new());
        for &(cpu, what) in events {
            scene.enter(&Event { at: Time::ZERO, cpu, what }, &mut changes);
        }
        changes
    }

    fn wake(task: TaskId, by: Option<TaskId>) -> What {
        What::Wake { task, since: Time::ZERO, by }
    }

    fn switch(prev: Option<(TaskId, Left)>, next: Option<TaskId>) -> What {
        What::Switch { prev, next }
    }

    fn switched(cpu: CpuId, prev: Option<(TaskId, Left)>, next: Option<TaskId>) -> Scheduled {
        Scheduled::Switched { cpu, prev, next }
    }

    fn works(cpu: CpuId, begins: bool) -> Scheduled {
        Scheduled::Overhead { cpu, begins }
    }

    fn woken(task: TaskId, by: Option<TaskId>, new: bool) -> Scheduled {
        Scheduled::Woken { task, by, cpu: C0, new }
    }

    #[test]
    fn an_early_wake_up_is_told_once_the_task_has_blocked() {
        let begin = [(C0, wake(A, None)), (C0, switch(None, Some(A))), (C0, wake(A, Some(B)))];
        let first = [Scheduled::Born(A), woken(A, None, true), switched(C0, None, Some(A))];
        assert_eq!(told(&begin), first);
        let blocks = switch(Some((A, Left::Blocked)), None);
        let gone = |left| switched(C0, Some((A, left)), None);
        let after = [gone(Left::Blocked), works(C0, true), woken(A, Some(B), false)];
        assert_eq!(told(&[&begin[..], &[(C0, blocks)]].concat())[3..], after);
        let preempted = switch(Some((A, Left::Preempted)), None);
        let after = [gone(Left::Preempted), works(C0, true)];
        assert_eq!(told(&[&begin[..], &[(C0, preempted)]].concat())[3..], after);
    }

    #[test]
    fn who_is_chosen_again_is_not_switched_to() {
        let begin = [(C0, wake(A, None)), (C0, switch(None, Some(A)))];
        for left in [Left::Preempted, Left::Yielded] {
            let again = (C0, switch(Some((A, left)), Some(A)));
            assert_eq!(told(&[&begin[..], &[again]].concat()).len(), 3, "{left:?}");
        }
    }

    #[test]
    fn a_task_has_one_cpu_and_a_cpu_one_task() {
        let policy = Policy::Idle;
        let events = [
            (C0, wake(A, None)),
            (C0, switch(None, Some(A))),
            (C1, What::Exec { task: A, policy }),
            (C1, What::Exec { task: B, policy }),
        ];
        let gone = |task| Some((task, Left::Preempted));
        let moved = [
            switched(C0, gone(A), None),
            works(C0, true),
            switched(C1, None, Some(A)),
            Scheduled::Born(B),
            Scheduled::Woken { task: B, by: None, cpu: C1, new: true },
            switched(C1, gone(A), Some(B)),
            works(C1, true),
            works(C1, false),
        ];
        assert_eq!(told(&events)[3..], moved);
    }
}
