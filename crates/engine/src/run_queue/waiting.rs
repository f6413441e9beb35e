//! The index by cookie of the tasks that wait on one CPU, on a machine with core scheduling.

use crate::attr::Cookie;
use crate::config::Config;
use crate::core::core_latency;
use crate::fair::Fair;
use crate::fair::entity::Entity;
use crate::limits::Pools;
use crate::run_queue::cookies::{CookieIndex, Shelf};
use crate::run_queue::site::Site;
use crate::run_queue::tasks::Tasks;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::time::VTime;

/// The waiting tasks of each cookie.
#[derive(Debug)]
pub(super) struct Waiting {
    index: Option<Box<CookieIndex>>,
}

impl Waiting {
    pub(super) fn new(has_core: bool) -> Waiting {
        Waiting { index: has_core.then(Box::default) }
    }

    /// Returns whether this CPU indexes its tasks by cookie.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.index.is_some()
    }

    /// Makes room for `len` tasks. Allocates.
    pub(super) fn grow(&mut self, len: usize) {
        if let Some(index) = &mut self.index {
            index.grow(len);
        }
    }

    /// Like [`Waiting::grow`], with the memory of `room`. Allocates nothing.
    pub(super) fn grow_into(&mut self, room: Option<&mut CookieIndex>) {
        if let (Some(index), Some(room)) = (&mut self.index, room) {
            index.grow_into(room);
        }
    }

    pub(super) fn index(&self) -> &CookieIndex {
        self.index.as_ref().expect("this CPU indexes its tasks by cookie")
    }

    /// Notes that a fair task began or ceased to wait, or moved in its queue.
    #[inline]
    pub(super) fn note_fair<P>(
        &mut self,
        at: Index,
        site: &Site<impl Pools>,
        (tasks, fair): (&Tasks<P>, &Fair),
    ) {
        if self.is_on() {
            self.put_fair(at, site, (tasks, fair));
        }
    }

    #[inline(never)]
    fn put_fair<P>(
        &mut self,
        at: Index,
        site: &Site<impl Pools>,
        (tasks, fair): (&Tasks<P>, &Fair),
    ) {
        let Some(index) = &mut self.index else { return };
        let entity = fair.tree.entity(at);
        let cookie = site.cookie_of(tasks.task(at));
        match fair.tree.waits(at) {
            true => index.put_fair(at, cookie, (entity.parent, key_of(entity, site.config()))),
            false => index.remove(at),
        }
    }

    /// Notes that a real-time task was queued, before or behind its equals.
    #[inline]
    pub(super) fn note_rt<P>(
        &mut self,
        at: Index,
        site: &Site<impl Pools>,
        (tasks, end): (&Tasks<P>, End),
    ) {
        if self.is_on() {
            self.put_rt(at, site, (tasks, end));
        }
    }

    #[inline(never)]
    fn put_rt<P>(&mut self, at: Index, site: &Site<impl Pools>, (tasks, end): (&Tasks<P>, End)) {
        if let Some(index) = &mut self.index {
            index.put_rt(at, site.cookie_of(tasks.task(at)), (tasks.rt_task(at).prio, end));
        }
    }

    /// Removes a task that ceases to wait.
    #[inline]
    pub(super) fn remove(&mut self, at: Index) {
        if self.is_on() {
            self.take_out(at);
        }
    }

    #[inline(never)]
    fn take_out(&mut self, at: Index) {
        if let Some(index) = &mut self.index {
            index.remove(at);
        }
    }

    /// Returns the most important real-time task of a cookie.
    pub(super) fn first_rt(&self, cookie: Option<Cookie>) -> Option<Index> {
        let (shelf, at) = self.index().firsts(cookie).next()?;
        (shelf == Shelf::RT).then_some(at)
    }

    /// Returns the best fair task of a cookie.
    pub(super) fn first_fair(&self, cookie: Option<Cookie>, fair: &Fair) -> Option<Index> {
        let earlier = |best, at| if fair.is_before(at, best) { at } else { best };
        self.fair_shelves(cookie, fair).map(|(_, at)| at).reduce(earlier)
    }

    /// Returns all fair tasks of a cookie that compete, by their queues.
    pub(super) fn all_fair(
        &self,
        cookie: Option<Cookie>,
        fair: &Fair,
    ) -> impl Iterator<Item = Index> {
        let shelves = self.fair_shelves(cookie, fair);
        shelves.flat_map(move |(shelf, _)| self.index().on(cookie, shelf))
    }

    /// Returns the fair queues, as shelves, in which tasks of a cookie wait and compete, each with
    /// its first task.
    fn fair_shelves(
        &self,
        cookie: Option<Cookie>,
        fair: &Fair,
    ) -> impl Iterator<Item = (Shelf, Index)> {
        let competes =
            |shelf: Shelf| shelf.queue().is_some_and(|queue| !fair.is_below_throttled(queue));
        self.index().firsts(cookie).filter(move |&(shelf, _)| competes(shelf))
    }
}

/// Returns the place of a fair task among those of its cookie. A lower latency nice places it
/// further to the front.
pub(super) fn key_of(entity: &Entity, config: &Config) -> VTime {
    let offset = match core_latency(config) {
        true => config.latency_offset(entity.latency_nice),
        false => 0,
    };
    entity.vruntime.after(offset.cast_unsigned())
}
