//! The invariants of the fair class, each computed afresh.

use crate::ensure::ensure;
use crate::fair::entity::{Now, QueueId};
use crate::fair::order::QueueOrder;
use crate::fair::tree::Counts;
use crate::fair::{Company, Fair, Order, by_order};
use crate::store::heap::Index;
use crate::time::VTime;
use std::fmt::{self, Display};

impl Fair {
    /// Writes the place of an entity in its queue, for a picture.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>, at: Index) -> fmt::Result {
        let entity = self.tree.entity(at);
        write!(f, ", vruntime {}, weight {}", entity.vruntime.0, entity.weight)?;
        if let Order::Eevdf(order) = &self.order {
            let (deadline, ends) = order.turn_of(at);
            let eligible = if self.is_eligible(at) { "" } else { "not " };
            write!(f, ", deadline {}, keeps the CPU to {}", deadline.0, ends.0)?;
            write!(f, ", {eligible}eligible")?;
        }
        Ok(())
    }

    /// Returns how far an entity's vruntime, deadline and turn are ahead of its queue's virtual clock,
    /// in EEVDF.
    pub(crate) fn place(&self, at: Index) -> Option<(i64, i64, i64)> {
        let Order::Eevdf(order) = &self.order else { return None };
        let entity = self.tree.entity(at);
        let clock = self.virtual_clock(entity.parent);
        let (deadline, ends) = order.turn_of(at);
        Some((entity.vruntime.diff(clock), deadline.diff(clock), ends.diff(clock)))
    }

    /// Returns the virtual clock of a queue as of the last charge: in EEVDF the average of the
    /// vruntimes of its members, which decides who is eligible. A queue keeps an older value.
    pub(crate) fn virtual_clock(&self, id: QueueId) -> VTime {
        let queue = self.tree.queue(id);
        if queue.load == 0 || !matches!(self.order, Order::Eevdf(_)) {
            return queue.clock;
        }
        let members = queue.curr.into_iter().chain(self.tree.heaps.iter(id));
        let ahead = members.map(|at| self.tree.entity(at)).map(|entity| {
            i128::from(entity.weight) * i128::from(entity.vruntime.diff(queue.clock))
        });
        let ahead = ahead.sum::<i128>().div_euclid(i128::from(queue.load)) as i64;
        queue.clock.after(ahead.cast_unsigned())
    }

    /// Writes the places of the groups, for a picture.
    pub(crate) fn show_groups(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &(group, id) in &self.group_queues {
            let queue = self.tree.queue(id);
            let at = queue.entity.expect("a group has an entity");
            if self.tree.is_attached(at) {
                write!(f, "  group {}", group.0)?;
                self.show(f, at)?;
                writeln!(f, ", virtual clock {}", self.virtual_clock(id).0)?;
            }
        }
        Ok(())
    }

    /// Asserts every invariant of the class.
    ///
    /// # Panics
    /// If an invariant does not hold, with `picture`.
    pub(crate) fn check(&self, now: Now, picture: &dyn Display) {
        self.check_queue(now, QueueId::ROOT, picture);
        let mut throttled = 0;
        for &(group, id) in &self.group_queues {
            let queue = self.tree.queue(id);
            ensure!(picture, queue.group == group, "{group:?} is listed under its name");
            let contributes = self.pelt.is_some() || queue.contribution == queue.load;
            ensure!(picture, contributes, "{group:?} contributes its load");
            let attached = self.tree.is_attached(queue.entity.expect("a group has an entity"));
            let delayed = queue.entity.is_some_and(|at| self.tree.entity(at).delayed);
            ensure!(picture, !delayed || queue.nr == 0, "{group:?} sleeps in its place, empty");
            let competes = delayed || queue.nr > 0 && !queue.throttled;
            ensure!(picture, attached == competes, "{group:?} is in a queue: {attached}");
            throttled += u32::from(queue.throttled);
            self.check_queue(now, id, picture);
        }
        ensure!(picture, throttled == self.nr_throttled, "{throttled} groups are throttled");
        let names = self.group_queues.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ensure!(picture, names, "group queues are in order");
        self.check_lists(picture);
        self.check_delayed(picture);
        self.check_limbo(picture);
        let queues = self.group_queues.iter().map(|&(_, id)| id).chain([QueueId::ROOT]);
        by_order!(&self.order, order => order.buddies.check(&self.tree, queues, picture));
        let mut idle_load = 0;
        let root = self.root();
        root.curr.into_iter().for_each(|at| idle_load += self.tree.idle_weight(at));
        for at in self.tree.heaps.iter(QueueId::ROOT) {
            idle_load += self.tree.idle_weight(at);
        }
        if let Some(Company { stand_in, nr }) = self.company()
            && self.tree.entity(stand_in).parent == QueueId::ROOT
        {
            idle_load += u64::from(nr) * self.tree.idle_weight(stand_in);
        }
        ensure!(picture, idle_load == self.idle_load, "the idle class weighs {idle_load}");
    }

    fn check_lists(&self, picture: &dyn Display) {
        let competing = || self.lists.links.iter(self.lists.competing);
        let aside = || self.lists.links.iter(self.lists.set_aside);
        let lent = self
            .company()
            .filter(|it| !self.is_below_throttled(self.tree.entity(it.stand_in).parent));
        let lent = lent.map_or(0, |it| it.nr as usize);
        let (listed, tasks) = (competing().count() + lent, self.root().nr_tasks as usize);
        ensure!(picture, listed == tasks, "{listed} fair tasks are listed, {tasks} counted");
        let is_set_aside = |at: Index| self.is_below_throttled(self.tree.entity(at).parent);
        let apart = competing().all(|at| !is_set_aside(at)) && aside().all(is_set_aside);
        ensure!(picture, apart, "tasks below a throttled group are in a list of their own");
        let idle = competing().filter(|&at| self.is_idle_class(at)).count();
        let lent_idle = |it: &Company| self.is_idle_class(it.stand_in);
        let idle = idle + if self.company().as_ref().is_some_and(lent_idle) { lent } else { 0 };
        let counted = self.root().nr_idle_tasks as usize;
        ensure!(
            picture,
            idle == counted,
            "{idle} fair tasks are of the idle class, {counted} counted"
        );
    }

    fn check_queue(&self, now: Now, id: QueueId, picture: &dyn Display) {
        let queue = self.tree.queue(id);
        let (mut nr, mut load) = (0, 0);
        let mut tasks = Counts { nr: 0, nr_idle: 0 };
        let mut count = |at: Index| {
            let entity = self.tree.entity(at);
            ensure!(picture, entity.parent == id, "entity {at} knows its queue");
            nr += 1;
            load += u64::from(entity.weight);
            let below = match entity.is_task() {
                true if entity.delayed => Counts::NONE,
                true => Counts { nr: 1, nr_idle: entity.idle.into() },
                false => self.tree.queue(entity.own).all_above(),
            };
            let stands_for = entity.is_task() || self.tree.queue(entity.own).nr > 0;
            ensure!(picture, entity.delayed || stands_for, "a queued entity has members");
            tasks.nr += below.nr;
            tasks.nr_idle += below.nr_idle;
        };
        queue.curr.into_iter().for_each(&mut count);
        self.tree.heaps.iter(id).for_each(&mut count);
        let lent = self.company().filter(|it| queue.curr == Some(it.stand_in));
        let lent = lent.map_or(0..0, |it| 0..it.nr);
        lent.for_each(|_| queue.curr.into_iter().for_each(&mut count));
        let counted = (nr, load, tasks.nr, tasks.nr_idle);
        let kept = (queue.nr, queue.load, queue.nr_tasks, queue.nr_idle_tasks);
        ensure!(picture, counted == kept, "queue {id:?} counts {kept:?}, has {counted:?}");
        let is_child = |&&(_, child): &&(_, QueueId)| {
            let at = self.tree.queue(child).entity.expect("a group has an entity");
            self.tree.entity(at).parent == id
        };
        let children = self.group_queues.iter().filter(is_child).count() as u32;
        ensure!(picture, queue.children == children, "queue {id:?} knows its {children} children");
        self.check_averages(now, id, picture);
        match &self.order {
            Order::Cfs(order) => order.check(&self.tree, now, id, picture),
            Order::Eevdf(order) => order.check(&self.tree, now, id, picture),
        }
    }

    fn check_delayed(&self, picture: &dyn Display) {
        let queues = self.group_queues.iter().map(|&(_, id)| id).chain([QueueId::ROOT]);
        let is_delayed = |at: &Index| self.tree.entity(*at).delayed;
        let mut nr = 0;
        for id in queues {
            let curr = self.tree.queue(id).curr.filter(is_delayed);
            ensure!(picture, curr.is_none(), "{curr:?} runs and sleeps in its place");
            nr += self.tree.heaps.iter(id).filter(is_delayed).count();
        }
        let kept = self.ghosts.nr as usize;
        ensure!(picture, nr == kept, "{nr} sleep in their place, not {kept}");
    }

    /// For checks: returns whether the entity of a task sleeps in its place.
    pub(crate) fn is_ghost(&self, at: Index) -> bool {
        self.tree.entity(at).delayed && self.tree.waits(at) && !self.is_listed(at)
    }

    /// For checks: returns whether a task is in a list.
    pub(crate) fn is_listed(&self, at: Index) -> bool {
        self.lists.links.contains(at)
    }
}
