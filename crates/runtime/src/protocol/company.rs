//! The tasks of a batch, and the owner of each of them (docs/design/dispatch.md).
//!
//! The *company* of a CPU consists of a list of tasks and the task that is polled, which names the batch. The tasks of
//! the list wait in the runtime instead of a run queue; the worker that owns the slot polls them. All of them change
//! hands under the list's lock. Under it there is no foreign code, no allocation and no other lock. A batch has a
//! number: a thread that lost the slot finds another number, or no batch, and then acts as it does without batches.
//!
//! ```text
//!   worker      open; turn, turn, ...; leave the slot; close
//!   its polls   join
//!   taker       owns the slot; close; ends the batch in the name of the task whose thread was stopped
//!   thief       steal            requester   claim
//! ```
//!
//! Invariants, modelled in loom: of all threads that want a task, one gets it; no task joins a batch that is over; a
//! batch is closed once. Each model was seen failing: with a theft that leaves the tasks in place, and with a turn or a
//! close that takes the lock twice.

use crate::os::biased::{Biased, Marks};
use crate::os::sync::{Arc, AtomicU32, AtomicU64, Ordering};
use crate::protocol::handoff::WorkerId;
use std::collections::VecDeque;

/// The most tasks that may wait in a company.
pub(crate) const MEMBERS: usize = 64;

/// The most finished tasks that a company keeps, so that all of them leave the set of live tasks in one hold of its
/// lock.
pub(crate) const OVER: usize = 16;

/// The start of the owner's poll while it is in none.
pub(crate) const NO_POLL: u64 = u64::MAX;

/// The number of a batch of a CPU; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch(pub(crate) u64);

/// The members of a CPU's batch, in the order in which they are polled: tasks `T`, on terms `B`.
#[derive(Debug)]
pub(crate) struct Company<T, B> {
    list: Biased<List<T, B>>,
    /// The number of tasks that wait in the list.
    len: AtomicU32,
    /// The batch that is open. Written under the list's lock.
    open: AtomicU64,
    /// The start of the owner's poll; [`NO_POLL`] if it is in none.
    polls_since: AtomicU64,
}

#[derive(Debug)]
struct List<T, B> {
    terms: Option<B>,
    /// The number of batches so far.
    nr: u64,
    /// The task that is polled, as long as the batch is open.
    polled: Option<T>,
    waiting: VecDeque<T>,
    /// The tasks that are over, at most [`OVER`].
    over: Vec<T>,
}

/// The end of the list at which a task joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Front,
    Back,
}

/// The result of the end of a poll in a batch.
#[derive(Debug)]
pub(crate) enum Turn<T> {
    /// The next task is polled. The caller gets the task that was polled, unless it waits again or is kept with the
    /// finished tasks.
    Next(Option<T>),
    /// No task waits. The task that was polled still names the batch, for every reader.
    Alone,
    /// A task outside the batch goes first. The task that was polled still names the batch.
    Outsider,
    /// The batch is over.
    Over,
}

/// The steps of a worker between one poll and the next. They are called under the list's lock.
pub(crate) trait Steps<T, B> {
    /// Charges a task that was polled while `waiting` tasks wait. Returns whether it may wait again.
    fn charge(&mut self, terms: &mut B, task: &mut T, waiting: usize) -> bool;

    /// Returns whether a task outside the batch goes before the next one in it.
    fn is_passed(&mut self, next: Option<&T>) -> bool;

    /// Makes the task that was polled wait again.
    fn wait(&mut self, task: &mut T);

    /// Removes the task that was polled from the batch. Returns whether the task is over and can be kept with other
    /// finished tasks.
    fn leave(&mut self, terms: &B, task: &mut T) -> bool;

    /// Makes the task the next to be polled.
    fn take(&mut self, terms: &mut B, task: &mut T);
}

/// The tasks of a batch that was closed.
#[derive(Debug)]
pub(crate) struct Closed<T, B> {
    pub(crate) terms: B,
    pub(crate) polled: T,
    /// The tasks that wait, and behind them those that are over.
    pub(crate) waiting: VecDeque<T>,
    /// The number of these tasks that are over.
    pub(crate) over: usize,
}

impl<T, B> Company<T, B> {
    pub(crate) fn new(marks: &Arc<Marks>) -> Company<T, B> {
        let waiting = VecDeque::with_capacity(2 * MEMBERS);
        let over = Vec::with_capacity(OVER);
        Company {
            list: Biased::new(marks, List { terms: None, nr: 0, polled: None, waiting, over }),
            len: AtomicU32::new(0),
            open: AtomicU64::new(0),
            polls_since: AtomicU64::new(NO_POLL),
        }
    }

    /// Returns how many tasks wait.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// Returns the start of the owner's poll; [`NO_POLL`] if it is in none.
    pub(crate) fn polls_since(&self) -> u64 {
        self.polls_since.load(Ordering::Relaxed)
    }

    /// Stores the start of the owner's poll, or [`NO_POLL`] at its end.
    pub(crate) fn note_poll(&self, since: u64) {
        self.polls_since.store(since, Ordering::Relaxed);
    }

    /// Returns whether a batch is open, as far as is known without the lock.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) != 0
    }

    /// Returns whether this batch is open. Called by the owner of the slot.
    pub(crate) fn is_open_still(&self, batch: Batch) -> bool {
        self.open.load(Ordering::Acquire) == batch.0
    }

    /// Opens a batch that polls `polled` first and then the tasks of `waiting`. `waiting` is left empty, and its memory
    /// goes to the list.
    pub(crate) fn open(
        &self,
        worker: WorkerId,
        terms: B,
        polled: T,
        waiting: &mut VecDeque<T>,
    ) -> Batch {
        self.list.with(worker.0, |list| {
            debug_assert!(
                list.terms.is_none() && list.waiting.is_empty(),
                "the last batch is over"
            );
            std::mem::swap(&mut list.waiting, waiting);
            (list.terms, list.polled) = (Some(terms), Some(polled));
            list.nr += 1;
            self.open.store(list.nr, Ordering::Release);
            self.count(list);
            Batch(list.nr)
        })
    }

    /// Adds a task at the end that `admit` returns; `admit` gets the polled task and the first waiting one. The task is
    /// returned if `admit` refuses it, if the batch is over, or if there are too many tasks.
    pub(crate) fn join(
        &self,
        worker: WorkerId,
        batch: Batch,
        mut task: T,
        admit: impl FnOnce(&B, &mut T, (&T, Option<&T>)) -> Option<At>,
    ) -> Result<(), T> {
        self.list.with(worker.0, |list| {
            let List { terms: Some(terms), nr, polled: Some(polled), waiting, .. } = &mut *list
            else {
                return Err(task);
            };
            if *nr != batch.0 || waiting.len() >= MEMBERS {
                return Err(task);
            }
            match admit(terms, &mut task, (polled, waiting.front())) {
                Some(At::Front) => waiting.push_front(task),
                Some(At::Back) => waiting.push_back(task),
                None => return Err(task),
            }
            self.count(list);
            Ok(())
        })
    }

    /// Lends more tasks to the batch: they wait behind the others. They stay in `lent` if the batch is over.
    pub(crate) fn extend(&self, worker: WorkerId, batch: Batch, lent: &mut VecDeque<T>) {
        self.list.with(worker.0, |list| {
            if list.terms.is_some() && list.nr == batch.0 {
                list.waiting.append(lent);
                self.count(list);
            }
        });
    }

    /// Ends a poll. May be called again for the same poll if there was no next task.
    #[inline]
    pub(crate) fn turn<S: Steps<T, B>>(
        &self,
        worker: WorkerId,
        batch: Batch,
        steps: &mut S,
    ) -> Turn<T> {
        self.list.with(worker.0, |list| {
            let List { terms: Some(terms), nr, polled, waiting, over } = &mut *list else {
                return Turn::Over;
            };
            if *nr != batch.0 {
                return Turn::Over;
            }
            let last = polled.as_mut().expect("an open batch has a polled task");
            let stays = steps.charge(terms, last, waiting.len());
            if steps.is_passed(waiting.front().or(stays.then_some(last))) {
                return Turn::Outsider;
            }
            let left = if stays {
                let Some(mut next) = waiting.pop_front() else {
                    // It is the only task, and is polled again.
                    steps.wait(last);
                    steps.take(terms, last);
                    return Turn::Next(None);
                };
                steps.wait(last);
                steps.take(terms, &mut next);
                waiting.push_back(std::mem::replace(last, next));
                None
            } else {
                let Some(mut next) = waiting.pop_front() else { return Turn::Alone };
                let is_kept = steps.leave(terms, last) && over.len() < OVER;
                steps.take(terms, &mut next);
                let left = std::mem::replace(last, next);
                if is_kept {
                    over.push(left);
                    None
                } else {
                    Some(left)
                }
            };
            self.count(list);
            Turn::Next(left)
        })
    }

    /// Adds tasks in front of all that wait. They stay in `coming` if the batch is over.
    pub(crate) fn lead(&self, worker: WorkerId, batch: Batch, coming: &mut [Option<T>]) {
        self.list.with(worker.0, |list| {
            if list.terms.is_some() && list.nr == batch.0 {
                for task in coming.iter_mut().rev().filter_map(Option::take) {
                    list.waiting.push_front(task);
                }
                self.count(list);
            }
        });
    }

    /// Moves the finished tasks to the empty places of `to`, unless the batch is over.
    pub(crate) fn take_over(&self, worker: WorkerId, batch: Batch, to: &mut [Option<T>]) {
        self.list.with(worker.0, |list| {
            if list.nr == batch.0 {
                to.iter_mut().zip(list.over.drain(..)).for_each(|(to, task)| *to = Some(task));
            }
        });
    }

    /// Calls `look` with each member, first with the polled one, until it returns a value.
    pub(crate) fn look<R>(&self, mut look: impl FnMut(&B, &T, bool) -> Option<R>) -> Option<R> {
        self.list.with_guest(|list| list.find(&mut look))
    }

    /// Does the same for the worker that polls the members.
    pub(crate) fn look_as<R>(
        &self,
        worker: WorkerId,
        mut look: impl FnMut(&B, &T, bool) -> Option<R>,
    ) -> Option<R> {
        self.list.with(worker.0, |list| list.find(&mut look))
    }

    /// Takes up to half of the waiting tasks for another CPU: only tasks that `may_go` accepts, and only as many as fit
    /// in `taken` without an allocation.
    pub(crate) fn steal(&self, taken: &mut VecDeque<T>, may_go: impl Fn(&T) -> bool) {
        self.list.with_guest(|list| {
            let some = list.waiting.len().div_ceil(2).min(taken.capacity() - taken.len());
            while taken.len() < some
                && let Some(at) = list.waiting.iter().position(&may_go)
            {
                taken.extend(list.waiting.remove(at));
            }
            self.count(list);
        });
    }

    /// Takes the waiting task that `is_it` accepts.
    pub(crate) fn claim(&self, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        self.list.with_guest(|list| {
            let at = list.waiting.iter().position(is_it)?;
            let task = list.waiting.remove(at);
            self.count(list);
            task
        })
    }

    /// Closes a batch, if it is open, for the worker that polls it. Returns its tasks. The memory of `room` goes to the
    /// next batch.
    pub(crate) fn close(
        &self,
        worker: WorkerId,
        batch: Batch,
        room: &mut VecDeque<T>,
    ) -> Option<Closed<T, B>> {
        self.list
            .with(worker.0, |list| (batch.0 == list.nr).then(|| self.end(list, room)).flatten())
    }

    /// Closes any open batch, for a worker that took the slot.
    pub(crate) fn close_any(&self, room: &mut VecDeque<T>) -> Option<Closed<T, B>> {
        self.list.with_guest(|list| self.end(list, room))
    }

    fn end(&self, list: &mut List<T, B>, room: &mut VecDeque<T>) -> Option<Closed<T, B>> {
        let terms = list.terms.take()?;
        let polled = list.polled.take().expect("an open batch has a polled task");
        let mut waiting = std::mem::replace(&mut list.waiting, std::mem::take(room));
        let over = list.over.len();
        waiting.extend(list.over.drain(..));
        self.open.store(0, Ordering::Release);
        self.count(list);
        Some(Closed { terms, polled, waiting, over })
    }

    fn count(&self, list: &List<T, B>) {
        self.len.store(list.waiting.len() as u32, Ordering::Release);
    }
}

impl<T, B> List<T, B> {
    fn find<R>(&self, look: &mut impl FnMut(&B, &T, bool) -> Option<R>) -> Option<R> {
        let terms = self.terms.as_ref()?;
        let polled = self.polled.iter().map(|task| (task, true));
        let mut all = polled.chain(self.waiting.iter().map(|task| (task, false)));
        all.find_map(|(task, is_polled)| look(terms, task, is_polled))
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;

    /// A task: counts how often it was polled or given to a run queue.
    type Task = Arc<AtomicU32>;

    const WORKER: WorkerId = WorkerId(0);

    struct World {
        company: Company<Task, ()>,
        batch: Batch,
    }

    /// Steps in which each poll is the last of its task.
    struct Ends;

    impl Steps<Task, ()> for Ends {
        fn charge(&mut self, (): &mut (), _: &mut Task, _: usize) -> bool {
            false
        }

        fn is_passed(&mut self, _: Option<&Task>) -> bool {
            false
        }

        fn wait(&mut self, _: &mut Task) {
            unreachable!("the task has ended");
        }

        fn leave(&mut self, (): &(), _: &mut Task) -> bool {
            true
        }

        fn take(&mut self, (): &mut (), task: &mut Task) {
            has(task);
        }
    }

    impl World {
        /// Opens a batch that polls the first task while the others wait.
        fn new(tasks: &[&Task]) -> Arc<World> {
            let company = Company::new(&Marks::new(1));
            let mut waiting: VecDeque<_> = tasks[1..].iter().map(|&task| task.clone()).collect();
            let batch = company.open(WORKER, (), tasks[0].clone(), &mut waiting);
            Arc::new(World { company, batch })
        }

        /// Polls, as the worker, all tasks that wait; each of them ends.
        fn works(&self) {
            while let Turn::Next(_) = self.company.turn(WORKER, self.batch, &mut Ends) {}
        }

        fn closes(&self) -> bool {
            let closed = self.company.close_any(&mut VecDeque::new());
            closed.iter().for_each(|closed| closed.waiting.iter().for_each(has));
            closed.is_some()
        }
    }

    fn has(task: &Task) {
        task.fetch_add(1, Ordering::SeqCst);
    }

    fn task() -> Task {
        Arc::new(AtomicU32::new(0))
    }

    /// The worker polls, a thief takes a task, and a requester claims one.
    #[test]
    fn of_all_who_want_a_member_one_gets_it() {
        loom::model(|| {
            let (first, member) = (task(), task());
            let world = World::new(&[&first, &member]);
            let (thief, requester) = (world.clone(), world.clone());
            let thief = thread::spawn(move || {
                let mut taken = VecDeque::with_capacity(8);
                thief.company.steal(&mut taken, |_| true);
                taken.iter().for_each(has);
            });
            let requester = thread::spawn(move || {
                requester.company.claim(|_| true).iter().for_each(has);
            });
            world.works();
            thief.join().unwrap();
            requester.join().unwrap();
            assert_eq!(member.load(Ordering::SeqCst), 1);
            assert_eq!(world.company.len(), 0);
        });
    }

    /// A poll wakes a task while the slot is taken and the batch ends.
    #[test]
    fn nothing_joins_a_company_that_is_over() {
        loom::model(|| {
            let (first, woken) = (task(), task());
            let world = World::new(&[&first]);
            let (other, late) = (world.clone(), woken.clone());
            let waker = thread::spawn(move || {
                let joined =
                    other.company.join(WORKER, other.batch, late, |&(), _, _| Some(At::Front));
                joined.err().iter().for_each(has);
            });
            assert!(world.closes());
            waker.join().unwrap();
            assert_eq!(
                woken.load(Ordering::SeqCst),
                1,
                "the task went to the engine, before or after the end"
            );
            assert_eq!(world.company.len(), 0);
        });
    }

    /// Takes the slot while a poll of the batch ends; the taker ends that batch.
    fn take_over_slot(world: &Arc<World>) -> thread::JoinHandle<Closed<Task, ()>> {
        let other = world.clone();
        thread::spawn(move || {
            let closed = other.company.close_any(&mut VecDeque::new()).expect("the batch is open");
            closed.waiting.iter().for_each(has);
            closed
        })
    }

    /// The thread that took the slot ends the batch while one of its polls ends.
    #[test]
    fn a_batch_is_closed_once_and_has_one_name() {
        loom::model(|| {
            let (first, member) = (task(), task());
            let world = World::new(&[&first, &member]);
            let taker = take_over_slot(&world);
            let turn = world.company.turn(WORKER, world.batch, &mut Ends);
            let name = taker.join().unwrap().polled;
            let went_on = matches!(turn, Turn::Next(..));
            assert!(Arc::ptr_eq(&name, if went_on { &member } else { &first }));
            assert_eq!(member.load(Ordering::SeqCst), 1, "the task is polled, or given back");
            assert!(!world.closes());
        });
    }

    /// The worker takes the finished tasks while the slot is taken. Seen failing: a close that leaves the batch's
    /// finished tasks in the list.
    #[test]
    fn a_task_that_is_over_is_found_once() {
        loom::model(|| {
            let (first, member) = (task(), task());
            let world = World::new(&[&first, &member]);
            let taker = take_over_slot(&world);
            let turn = world.company.turn(WORKER, world.batch, &mut Ends);
            let mut over = [const { None }; OVER];
            world.company.take_over(WORKER, world.batch, &mut over);
            over.iter().flatten().for_each(has);
            let closed = taker.join().unwrap();
            let went_on = matches!(turn, Turn::Next(_));
            assert_eq!(first.load(Ordering::SeqCst), u32::from(went_on));
            assert!(
                closed.waiting.iter().rev().take(closed.over).all(|it| Arc::ptr_eq(it, &first))
            );
        });
    }
}
