//! The tasks of one CPU in the queues of their classes: the duties that only move tasks.
//!
//! Invariants ([`RunQueue::check`](crate::run_queue::RunQueue::check)): each task is in the lists of its class and in no
//! other, and in the index by cookie where it belongs. Nothing here asks for a switch.

use crate::attr::{Cookie, GroupId};
use crate::class::Class;
use crate::fair::Fair;
use crate::fair::entity::QueueId;
use crate::fair::order::Before;
use crate::features::Feature;
use crate::limits::grants::Limits;
use crate::limits::{News, Pools};
use crate::rt::Rt;
use crate::run_queue::cookies::{Shelf, rt_key};
use crate::run_queue::site::Site;
use crate::run_queue::tasks::{Place, Tasks};
use crate::run_queue::waiting::{Waiting, key_of};
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{Change, Task, TaskId};
use crate::time::{Time, VTime};

/// The tasks of one CPU, and where each of them waits.
#[derive(Debug)]
pub struct Queues<P, G> {
    pub(super) site: Site<G>,
    pub(super) tasks: Tasks<P>,
    pub(super) rt: Rt,
    pub(super) fair: Fair,
    pub(super) limits: Limits,
    pub(super) waiting: Waiting,
}

/// Places of tasks, and queues of groups.
impl<P, G: Pools> Queues<P, G> {
    pub(super) fn new(site: Site<G>, has_core: bool) -> Queues<P, G> {
        let mut fair = Fair::new(site.cpu(), site.has(Feature::Eevdf));
        fair.keep_ghosts(site.has(Feature::DelayDequeue));
        fair.keep_averages(site.has(Feature::Pelt));
        Queues {
            site,
            tasks: Tasks::new(),
            rt: Rt::default(),
            fair,
            limits: Limits::new(),
            waiting: Waiting::new(has_core),
        }
    }

    /// Makes room for `len` tasks and group queues. Allocates.
    pub(super) fn grow(&mut self, len: usize) {
        let count = self.site.groups().count();
        self.tasks.grow(len);
        self.rt.grow(len);
        self.fair.grow(len, len.min(count));
        self.limits.grow(self.fair.tree.nr_queues(), count);
        self.waiting.grow(len);
    }

    /// Returns the CPU, with its clock and its configuration.
    #[inline]
    #[must_use]
    pub fn site(&self) -> &Site<G> {
        &self.site
    }

    /// Returns the tasks, the running one included.
    #[inline]
    #[must_use]
    pub fn tasks(&self) -> &Tasks<P> {
        &self.tasks
    }

    /// Returns what the machine must know of the limits of groups.
    #[inline]
    #[must_use]
    pub fn news(&self) -> &News {
        self.limits.news()
    }

    #[inline]
    pub(in crate::run_queue) fn news_mut(&mut self) -> &mut News {
        self.limits.news_mut()
    }

    /// Returns the name and the payload of a task that has the CPU from now on, and the group that
    /// uses the CPU time.
    #[inline]
    pub(in crate::run_queue) fn hand_out(&mut self, at: Index) -> (TaskId, P, GroupId) {
        let task = self.tasks.task_mut(at);
        let payload = task.payload.take().expect("a waiting task has its payload");
        (task.id, payload, task.attr.group)
    }

    pub(super) fn add_place(&mut self, place: Place<P>) -> Index {
        if self.tasks.is_at_end() {
            self.open_places();
        }
        self.tasks.insert(place)
    }

    /// Opens more indices for use.
    #[cold]
    fn open_places(&mut self) {
        if self.tasks.places().is_full() {
            self.grow((self.tasks.places().capacity() * 2).max(8));
        }
        let len = self.tasks.open();
        self.fair.open(len);
    }

    /// Puts a task that slept back into the place of its ghost.
    pub(super) fn rejoin(&mut self, at: Index, task: Box<Task<P>>) {
        self.tasks.rejoin(at, task);
        self.fair.rejoin(self.site.now(), at);
        self.reindex(at);
    }

    /// Returns the queue of `group` on this CPU, and creates it if necessary.
    pub(super) fn group_queue(&mut self, group: GroupId) -> QueueId {
        if let Some(id) = self.fair.queue_of(group) {
            return id;
        }
        self.reap();
        let parent = self.group_queue(self.site.groups().parent(group));
        let at = self.add_place(Place::Group);
        let (now, groups) = (self.site.now(), self.site.groups());
        let id = self.fair.add_queue(now, groups, (group, parent), at);
        self.limits.grow(self.fair.tree.nr_queues(), 0);
        self.limits.set(id, self.site.kind_of_limit(group));
        id
    }

    pub(super) fn remove_queue(&mut self, id: QueueId) {
        let at = self.fair.remove_queue(self.site.now(), self.site.groups(), id);
        self.limits.slices.set(id, None);
        self.tasks.free(at);
    }
}

/// Enqueue and dequeue, and the way from and to other CPUs.
impl<P, G: Pools> Queues<P, G> {
    /// A task leaves the queues of its class (`dequeue_task`).
    pub(super) fn dequeue(&mut self, at: Index, asleep: bool) {
        match self.tasks.task(at).class() {
            Class::Fair => self.dequeue_fair(at, asleep),
            Class::Rt(_) => self.dequeue_rt(at),
        }
    }

    /// The running task blocks: returns it if something of it stays in its queue, or `None` if it is
    /// dequeued.
    pub(super) fn block(&mut self, at: Index) -> Option<Box<Task<P>>> {
        match self.tasks.task(at).class() {
            Class::Fair => {
                let task = self.tasks.delay(at, &self.site, &mut self.fair)?;
                self.limits.pass_on(&self.site.here());
                Some(task)
            }
            Class::Rt(_) => None,
        }
    }

    /// A task comes from outside. The averages of the fair class have only fair tasks.
    pub(super) fn migrate(&mut self, task: &mut Task<P>) {
        match task.class() {
            Class::Fair => {}
            Class::Rt(_) => self.withdraw(self.site.clock(), task),
        }
    }

    /// Returns whether a task of this class, pushed here to run at once, could not do so any more.
    /// No CPU pushes a fair task, so that one changed on its way.
    pub(in crate::run_queue) fn is_pushed_in_vain(&self, class: Class) -> bool {
        match class {
            Class::Fair => true,
            Class::Rt(prio) => Some(prio) <= self.rt.highest() || self.rt.is_throttled(),
        }
    }
}

/// The way on and off the CPU.
impl<P, G: Pools> Queues<P, G> {
    /// A waiting task is taken out of the order of its class, to run. It is the `first` there, or
    /// any.
    pub(super) fn take(&mut self, at: Index, first: bool, before: &mut Before) {
        match self.tasks.task(at).class() {
            Class::Fair => self.take_to_run(at, first, before),
            Class::Rt(_) => {}
        }
    }

    /// The opposite of [`Queues::take`]: a task that was picked goes back without having run, or
    /// the running task is about to move to another place.
    pub(super) fn put_back(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => self.put_back_fair(at),
            Class::Rt(_) => {}
        }
    }

    /// A task that was picked has the CPU (`set_next_task`).
    #[inline]
    pub(super) fn set_next(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => {}
            Class::Rt(_) => {
                let (now, config) = (self.site.clock(), self.site.config());
                self.rt.set_curr(self.tasks.rt_task(at), now, config);
            }
        }
    }

    /// The running task becomes a waiting one (`put_prev_task`).
    #[inline]
    pub(super) fn put_prev(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => self.fair.put_prev(self.site.now(), at),
            Class::Rt(_) => self.rt.put_prev(self.tasks.rt_task(at)),
        }
    }

    /// Returns the group that the running task leaves, if its class picks by groups.
    #[inline]
    pub(super) fn group_left(&self, at: Index) -> Option<Index> {
        match self.tasks.task(at).class() {
            Class::Fair => self.fair.tree.above(at),
            Class::Rt(_) => None,
        }
    }
}

/// Changes of tasks and of the configuration.
impl<P, G: Pools> Queues<P, G> {
    /// Applies a change of a task that may keep its place though it is to be requeued. Returns the
    /// change if it may not.
    pub(super) fn change_in_place(
        &mut self,
        at: Index,
        after: Class,
        change: Change,
    ) -> Option<Change> {
        let before = self.tasks.task(at).class();
        match before {
            Class::Rt(_) if before == after => self.change_in_place_rt(at, change),
            Class::Rt(_) | Class::Fair => return Some(change),
        }
        None
    }

    /// A queued task asks for another slice or latency nice (`reweight_task`).
    pub(super) fn reask(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            // A task in limbo is asked when it comes back.
            Class::Fair if self.fair.is_in_limbo(at) => {}
            Class::Fair => {
                let ask = self.tasks.task(at).ask();
                self.fair.reask(self.site.now(), at, ask);
            }
            Class::Rt(_) => {}
        }
    }

    /// The affinity of a queued task may have changed (`set_cpus_allowed`).
    pub(super) fn set_affinity(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => {}
            Class::Rt(_) => {
                if !self.is_set_aside(at) {
                    self.rt.update_pushable(self.tasks.rt_task(at), End::Tail);
                }
            }
        }
    }

    /// The cookie of a queued task may have changed, if `recookies`.
    pub(super) fn set_cookie(&mut self, at: Index, recookies: bool) {
        match self.tasks.task(at).class() {
            Class::Fair => self.reindex(at),
            Class::Rt(_) => {
                if recookies && self.waiting.index().place(at).is_some() {
                    self.waiting.note_rt(at, &self.site, (&self.tasks, End::Tail));
                }
            }
        }
    }

    /// The parameters of the classes changed.
    pub(super) fn renew(&mut self) {
        let now = self.site.now();
        for (at, place) in self.tasks.places().iter() {
            match place {
                Place::Group => self.fair.renew(now, at, None),
                Place::Task(task) => match task.class() {
                    Class::Fair => self.fair.renew(now, at, Some(task.ask())),
                    Class::Rt(_) => {}
                },
                Place::Ghost(_) => {}
            }
        }
        self.fair.reslice_all(now);
    }

    /// Notes in the index by cookie that a fair task began or ceased to wait, or moved in its queue.
    #[inline]
    pub(super) fn reindex(&mut self, at: Index) {
        self.waiting.note_fair(at, &self.site, (&self.tasks, &self.fair));
    }

    /// Rebuilds the index after the offsets of latency nice changed.
    pub(super) fn reindex_all(&mut self) {
        if self.waiting.is_on() {
            let fair = self.tasks.iter().filter(|(_, task)| task.class().is_fair());
            let all: Vec<_> = fair.map(|(at, _)| at.0).collect();
            all.into_iter().for_each(|at| self.reindex(at));
        }
    }
}

/// Answers of a class to others.
impl<P, G: Pools> Queues<P, G> {
    /// Returns the contribution of this CPU to the load of each group that has a queue here.
    pub fn group_loads(&self) -> impl Iterator<Item = (GroupId, u64)> {
        self.fair.group_queues().map(|(id, queue)| (id, self.fair.tree.queue(queue).contribution))
    }

    /// Returns the contribution of this CPU to the load of a group.
    #[must_use]
    pub fn group_load(&self, group: GroupId) -> u64 {
        let queue = self.fair.queue_of(group);
        queue.map_or(0, |queue| self.fair.tree.queue(queue).contribution)
    }

    /// Returns when the current period of the real-time budget ends, if there is one.
    #[inline]
    pub(in crate::run_queue) fn rt_period_end(&self) -> Option<Time> {
        self.rt.period_end()
    }

    /// Returns when the next work of the limits is due; later than any time if never.
    #[inline]
    pub(in crate::run_queue) fn next_of_limits(&self) -> Time {
        self.limits.next()
    }

    /// Returns the number of tasks that could run. A CPU whose real-time tasks have no budget has
    /// room for others.
    #[inline]
    pub(in crate::run_queue) fn nr_running(&self) -> u32 {
        let nr = |class| match class {
            Class::Rt(_) if self.rt.is_throttled() => 0,
            Class::Rt(_) => self.rt.nr(),
            Class::Fair => self.fair.root().nr_tasks,
        };
        Class::all().map(nr).sum()
    }

    /// Returns whether a task runs and no other one could.
    pub(in crate::run_queue) fn runs_alone(&self) -> bool {
        self.nr_running() == 1 && self.tasks.running().is_some()
    }

    /// Returns whether any task waits here that could run if cookies did not matter.
    pub(super) fn anybody_waits(&self) -> bool {
        self.nr_running() > u32::from(self.tasks.running().is_some())
    }

    /// Returns the first waiting task of a class and a cookie that may run.
    pub(super) fn first_of(&self, class: Class, cookie: Option<Cookie>) -> Option<Index> {
        match class {
            Class::Rt(_) => self.waiting.first_rt(cookie).filter(|_| !self.rt.is_throttled()),
            Class::Fair => self.waiting.first_fair(cookie, &self.fair),
        }
    }

    /// For checks: returns whether a task is in the lists of its class, and in no other.
    pub(super) fn is_in_its_lists(&self, at: Index) -> bool {
        let lists = (self.fair.is_listed(at), self.rt.contains(at));
        match self.tasks.task(at).class() {
            Class::Fair => lists == (true, false),
            Class::Rt(_) => lists == (false, true),
        }
    }

    /// For checks: returns where a task should be in the index by cookies, if it should be there.
    pub(super) fn shelf(&self, at: Index) -> Option<(Shelf, VTime)> {
        match self.tasks.task(at).class() {
            Class::Rt(_) if self.is_set_aside(at) => None,
            Class::Rt(prio) => Some((Shelf::RT, rt_key(prio))),
            Class::Fair if self.tasks.running() == Some(at) => None,
            Class::Fair if self.fair.is_in_limbo(at) => None,
            Class::Fair => {
                let entity = self.fair.tree.entity(at);
                Some((Shelf::of(entity.parent), key_of(entity, self.site.config())))
            }
        }
    }
}
