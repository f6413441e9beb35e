//! The steps of a program. A phase stores its steps in 8 bytes each where that suffices, as a scenario can have
//! millions.
//!
//! Invariant of [`Steps`]: they come out in the order and with the values in which they went in. No other file depends
//! on the form in which a step is stored.

use crate::draw::Draw;
use crate::ids::{ObjectId, SpecId};
use runyard_engine::time::Nanos;
use std::convert::Infallible;
use std::fmt;

/// One event of rt-app's language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Executes a fixed amount of work: this much CPU time, for any duration.
    Run(Draw),
    /// Works until this much time has passed, with or without the CPU.
    Runtime(Draw),
    /// Moves bytes, in memory or to a device: this much CPU time, which rt-app does not count as a run.
    Memory(Nanos),
    /// Works in the kernel for itself: a system call of this much CPU time, which is not counted as a run.
    Kernel(Draw),
    /// Blocks for a time.
    Sleep(Draw),
    /// Blocks until the next period of a timer begins.
    Timer {
        /// The timer.
        timer: TimerRef,
        /// The period of the timer.
        period: Draw,
        /// Whether a missed period shifts all later ones.
        mode: TimerMode,
    },
    /// Takes a mutex.
    Lock(ObjectId),
    /// Releases a mutex.
    Unlock(ObjectId),
    /// Waits for a condition. The mutex is released during the wait.
    Wait {
        /// The condition.
        cond: ObjectId,
        /// The mutex, which the task holds.
        mutex: ObjectId,
    },
    /// Wakes one waiter of a condition.
    Signal(ObjectId),
    /// Wakes all waiters of a condition.
    Broadcast(ObjectId),
    /// Signals a condition, then waits for it.
    Sync {
        /// The condition.
        cond: ObjectId,
        /// The mutex, which the task holds.
        mutex: ObjectId,
    },
    /// Waits until all users of the barrier have arrived.
    Barrier(ObjectId),
    /// Raises a semaphore by one.
    SemPost(ObjectId),
    /// Lowers a semaphore by one, after a wait until that is possible.
    SemWait(ObjectId),
    /// Waits for a resumption by name.
    Suspend(ObjectId),
    /// Resumes all tasks that are suspended under the name.
    Resume(ObjectId),
    /// Yields the CPU.
    Yield,
    /// Starts a new task that runs the named thread object.
    Fork(SpecId),
    /// Puts bytes into a pipe, and waits while it is full.
    Send {
        /// The pipe.
        pipe: ObjectId,
        /// The number of bytes.
        bytes: u64,
    },
    /// Takes bytes out of a pipe, and waits until they are there.
    Recv {
        /// The pipe.
        pipe: ObjectId,
        /// The number of bytes.
        bytes: u64,
    },
    /// Ends the task.
    Exit,
}

/// The timer of a `timer` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRef {
    /// A timer that all tasks share by name.
    Shared(ObjectId),
    /// A timer of the task's own (names that begin with `unique`): its place among those of the task.
    Unique(u32),
}

/// The treatment of a timer after a missed period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerMode {
    /// The next period begins now.
    #[default]
    Relative,
    /// The next period begins at its original time.
    Absolute,
}

/// The steps of a task in a phase, in order.
#[derive(Clone, Default)]
pub struct Steps {
    small: Box<[Small]>,
    /// The steps that do not fit into 8 bytes. Adjacent equal steps share one entry.
    whole: Box<[Step]>,
}

/// A step in 8 bytes.
#[derive(Clone, Copy)]
enum Small {
    /// The fixed durations of these steps are whole microseconds.
    Run(u32),
    Runtime(u32),
    Sleep(u32),
    Kernel(u32),
    /// Nanoseconds.
    Memory(u32),
    Lock(ObjectId),
    Unlock(ObjectId),
    Signal(ObjectId),
    Broadcast(ObjectId),
    Barrier(ObjectId),
    SemPost(ObjectId),
    SemWait(ObjectId),
    Suspend(ObjectId),
    Resume(ObjectId),
    Yield,
    Fork(SpecId),
    Exit,
    /// A place in [`Steps::whole`].
    Whole(u32),
}

impl Small {
    /// Returns the step in 8 bytes, if it fits.
    fn of(step: &Step) -> Option<Small> {
        Some(match *step {
            Step::Run(draw) => Small::Run(micros(draw)?),
            Step::Runtime(draw) => Small::Runtime(micros(draw)?),
            Step::Sleep(draw) => Small::Sleep(micros(draw)?),
            Step::Kernel(draw) => Small::Kernel(micros(draw)?),
            Step::Memory(span) => Small::Memory(u32::try_from(span.0).ok()?),
            Step::Lock(id) => Small::Lock(id),
            Step::Unlock(id) => Small::Unlock(id),
            Step::Signal(id) => Small::Signal(id),
            Step::Broadcast(id) => Small::Broadcast(id),
            Step::Barrier(id) => Small::Barrier(id),
            Step::SemPost(id) => Small::SemPost(id),
            Step::SemWait(id) => Small::SemWait(id),
            Step::Suspend(id) => Small::Suspend(id),
            Step::Resume(id) => Small::Resume(id),
            Step::Yield => Small::Yield,
            Step::Fork(spec) => Small::Fork(spec),
            Step::Exit => Small::Exit,
            Step::Timer { .. } | Step::Wait { .. } | Step::Sync { .. } => return None,
            Step::Send { .. } | Step::Recv { .. } => return None,
        })
    }

    fn step(self, whole: &[Step]) -> Step {
        let fixed = |micros: u32| Draw::Fixed(Nanos::from_micros(micros.into()));
        match self {
            Small::Run(micros) => Step::Run(fixed(micros)),
            Small::Runtime(micros) => Step::Runtime(fixed(micros)),
            Small::Sleep(micros) => Step::Sleep(fixed(micros)),
            Small::Kernel(micros) => Step::Kernel(fixed(micros)),
            Small::Memory(nanos) => Step::Memory(Nanos(nanos.into())),
            Small::Lock(id) => Step::Lock(id),
            Small::Unlock(id) => Step::Unlock(id),
            Small::Signal(id) => Step::Signal(id),
            Small::Broadcast(id) => Step::Broadcast(id),
            Small::Barrier(id) => Step::Barrier(id),
            Small::SemPost(id) => Step::SemPost(id),
            Small::SemWait(id) => Step::SemWait(id),
            Small::Suspend(id) => Step::Suspend(id),
            Small::Resume(id) => Step::Resume(id),
            Small::Yield => Step::Yield,
            Small::Fork(spec) => Step::Fork(spec),
            Small::Exit => Step::Exit,
            Small::Whole(at) => whole[at as usize],
        }
    }
}

/// Returns the whole microseconds of a fixed duration.
fn micros(draw: Draw) -> Option<u32> {
    match draw {
        Draw::Fixed(span) if span.0.is_multiple_of(1_000) => u32::try_from(span.0 / 1_000).ok(),
        _ => None,
    }
}

impl Steps {
    /// Stores `count` steps, or returns the first error instead of one.
    pub(crate) fn of<E>(
        count: usize,
        steps: impl Iterator<Item = Result<Step, E>>,
    ) -> Result<Steps, E> {
        let (mut small, mut whole) = (Vec::with_capacity(count), Vec::new());
        for step in steps {
            let step = step?;
            small.push(Small::of(&step).unwrap_or_else(|| {
                if whole.last() != Some(&step) {
                    whole.push(step);
                }
                Small::Whole(u32::try_from(whole.len() - 1).expect("a program of 4 billion steps"))
            }));
        }
        Ok(Steps { small: small.into(), whole: whole.into() })
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.small.len()
    }

    /// Returns whether there is no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.small.is_empty()
    }

    /// Returns the step at a place, if there is one.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Step> {
        self.small.get(at).map(|small| small.step(&self.whole))
    }

    /// Returns the steps in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Step> + DoubleEndedIterator + Clone + '_ {
        self.small.iter().map(|small| small.step(&self.whole))
    }

    /// Replaces each step by the result of `change`.
    pub fn change(&mut self, change: impl FnMut(Step) -> Step) {
        *self = self.iter().map(change).collect();
    }

    /// Returns the timers, which do not fit into 8 bytes.
    pub(crate) fn timers_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.whole.iter_mut().filter(|step| matches!(step, Step::Timer { .. }))
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Steps {
        let steps = steps.into_iter();
        let (least, _) = steps.size_hint();
        match Steps::of(least, steps.map(Ok::<Step, Infallible>)) {
            Ok(steps) => steps,
            Err(never) => match never {},
        }
    }
}

impl<const N: usize> From<[Step; N]> for Steps {
    fn from(steps: [Step; N]) -> Steps {
        steps.into_iter().collect()
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Steps) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<const N: usize> PartialEq<[Step; N]> for Steps {
    fn eq(&self, other: &[Step; N]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let (id, us) = (ObjectId(u32::MAX), |us| Draw::Fixed(Nanos::from_micros(us)));
        let timer = |mode| Step::Timer { timer: TimerRef::Unique(3), period: us(5), mode };
        let put = [
            Step::Run(us(u32::MAX.into())),
            Step::Run(us(1 << 32)),
            Step::Runtime(Draw::Fixed(Nanos(1_001))),
            Step::Sleep(Draw::Uniform(Nanos(1), Nanos(2))),
            Step::Sleep(us(0)),
            Step::Kernel(us(7)),
            Step::Kernel(Draw::Uniform(Nanos(1), Nanos(2))),
            Step::Memory(Nanos(u32::MAX.into())),
            Step::Memory(Nanos(u64::MAX)),
            timer(TimerMode::Relative),
            timer(TimerMode::Relative),
            timer(TimerMode::Absolute),
            Step::Lock(id),
            Step::Unlock(id),
            Step::Wait { cond: id, mutex: id },
            Step::Signal(id),
            Step::Broadcast(id),
            Step::Sync { cond: id, mutex: id },
            Step::Barrier(id),
            Step::SemPost(id),
            Step::SemWait(id),
            Step::Suspend(id),
            Step::Resume(id),
            Step::Yield,
            Step::Fork(SpecId(7)),
            Step::Send { pipe: id, bytes: u64::MAX },
            Step::Recv { pipe: id, bytes: 0 },
            Step::Exit,
        ];
        let steps = Steps::from(put);
        assert_eq!(steps, put);
        assert_eq!((0..=put.len()).map_while(|at| steps.get(at)).collect::<Vec<_>>(), put);
        assert_eq!((size_of::<Small>(), steps.whole.len()), (8, 11));
    }
}
