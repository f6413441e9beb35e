//! The live tasks, in parts with one lock each, and the boxes of tasks that are over.

use crate::deferred::rubbish::{Rubbish, discard};
use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::protocol::parker::Parker;
use crate::protocol::places::{Place, Places};
use crate::shared::{FIRST_ROOM, Scheduler};
use crate::task::{Cell, Job, Todo};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;

/// Number of boxes of tasks that are over which each part keeps for a burst of spawns: at most 720 KiB, and 4 MiB with
/// their cells.
const BOXES: usize = 4_096;

/// Maximum size, in bytes, of a cell that is kept with its box. It includes the future, which has been dropped. A
/// spawning thread then frees memory of the same size that it allocates, so the allocator has it at hand.
const KEPT: usize = 1_024;

/// Number of boxes that are tried for a new task, those of the last tasks that ended: most programs spawn a few types of
/// futures in turn.
const TRIED: usize = 4;

/// Number of task numbers that a CPU's part takes at once, so that CPUs seldom contend for the next one.
const IDS: u64 = 64;

/// How long the end of a runtime waits for its tasks until it says for which.
const LONG: Nanos = Nanos::from_secs(1);

/// Number of parts of the live tasks for each CPU. All but one are for threads that are not workers. If there were one
/// for each such thread, all workers would contend for its lock, because they end the tasks that the thread spawned.
const PARTS: usize = 4;

/// Tasks that were spawned on one CPU, on cache lines apart from those of neighbouring parts.
#[derive(Debug)]
#[repr(align(128))]
struct Part {
    live: Places<Arc<Cell>>,
    nr_live: usize,
    /// Number of these tasks that serve others, and end after them.
    nr_serving: usize,
    /// Boxes of tasks that are over. The runtime's own code may not free them.
    boxes: Vec<TaskOf<Job>>,
    /// Numbers for the tasks that are spawned here.
    ids: Ids,
}

impl Default for Part {
    fn default() -> Part {
        let boxes = Vec::with_capacity(BOXES);
        Part { live: Places::default(), nr_live: 0, nr_serving: 0, boxes, ids: Ids::default() }
    }
}

impl Part {
    /// Adds a task to the live ones of this part, the `nth`.
    #[inline]
    fn gain(&mut self, nth: usize, cell: &Arc<Cell>) {
        cell.place.store(Place::new(nth, self.live.next()).0, Ordering::Release);
        self.live.insert(cell.clone());
        self.nr_live += 1;
        self.nr_serving += usize::from(cell.serves());
    }

    /// Removes a task that is no longer live. Returns its box, unless that is kept.
    fn lose(
        &mut self,
        place: Place,
        serves: bool,
        task: Option<TaskOf<Job>>,
    ) -> Option<TaskOf<Job>> {
        // The caller owns the cell as well.
        self.live.end(place.key());
        self.nr_live -= 1;
        self.nr_serving -= usize::from(serves);
        let has_room = self.boxes.len() < BOXES;
        let (kept, left) = if has_room { (task, None) } else { (None, task) };
        self.boxes.extend(kept);
        left
    }
}

/// Returns whether the cell of a task that is over is kept with its box.
fn is_kept(cell: &Cell) -> bool {
    size_of_val(cell) <= KEPT
}

/// The tasks that are not over, and the boxes of those that are.
#[derive(Debug)]
pub(crate) struct Registry {
    /// A part for each CPU, and then those for threads that are on none.
    parts: Box<[Mutex<Part>]>,
    /// The number of CPUs.
    cpus: usize,
    /// The number of boxes of tasks.
    nr_boxes: AtomicUsize,
    /// The number of tasks for which every CPU has room.
    room: AtomicUsize,
    next_task: NextTask,
    /// Set when no more tasks are accepted.
    closed: AtomicBool,
    /// Set when nobody waits for blocking functions any more.
    cut_off: AtomicBool,
    /// Set when no more tasks that serve others are accepted, because no task is left to serve.
    serves_nobody: AtomicBool,
    /// The word on which the thread waits that ends the runtime, until its last task has ended.
    closer: Parker,
    leavers: Leavers,
}

/// The groups that tasks leave when they are over.
#[derive(Debug, Default)]
pub(crate) struct Leavers {
    /// Whether a task group was ever created. Until then a task that ends leaves none.
    are_any: AtomicBool,
    /// Number of groups that finished tasks have left and that are in a bin, or held by the thread that empties it.
    nr: AtomicUsize,
}

impl Leavers {
    /// Notes that a task group is created.
    pub(crate) fn may_come(&self) {
        self.are_any.store(true, Ordering::SeqCst);
    }

    /// Counts a group that a finished task has left.
    pub(crate) fn one_more(&self) {
        self.nr.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts such a group, which is gone.
    pub(crate) fn one_less(&self) {
        self.nr.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether there is such a group.
    pub(crate) fn are_left(&self) -> bool {
        self.nr.load(Ordering::SeqCst) > 0
    }
}

/// The number of the next task, on a cache line apart from the fields that all threads read.
#[derive(Debug, Default)]
#[repr(align(128))]
struct NextTask(AtomicU64);

impl NextTask {
    /// Takes this many numbers, and returns the first.
    fn take(&self, many: u64) -> u64 {
        self.0.fetch_add(many, Ordering::Relaxed)
    }
}

/// Numbers for new tasks.
#[derive(Debug, Default)]
struct Ids {
    next: u64,
    left: u64,
}

/// The next number of a part.
#[derive(Debug)]
pub(crate) struct NextId<'a> {
    ids: &'a mut Ids,
    all: &'a NextTask,
    /// How many the part takes at once.
    many: u64,
}

impl NextId<'_> {
    /// Takes the number.
    #[inline]
    pub(crate) fn take(&mut self) -> TaskId {
        let Ids { next, left } = &mut *self.ids;
        if *left == 0 {
            (*next, *left) = (self.all.take(self.many), self.many);
        }
        (*next, *left) = (*next + 1, *left - 1);
        TaskId(*next - 1)
    }
}

impl Registry {
    pub(crate) fn new(cpus: usize) -> Registry {
        Registry {
            parts: (0..PARTS * cpus).map(|_| Mutex::default()).collect(),
            cpus,
            nr_boxes: AtomicUsize::new(0),
            room: AtomicUsize::new(FIRST_ROOM),
            next_task: NextTask::default(),
            closed: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            serves_nobody: AtomicBool::new(false),
            closer: Parker::new(),
            leavers: Leavers::default(),
        }
    }

    /// Returns the groups that tasks leave when they are over.
    pub(crate) fn leavers(&self) -> &Leavers {
        &self.leavers
    }

    /// The number of a new task.
    pub(crate) fn next_id(&self) -> TaskId {
        TaskId(self.next_task.take(1))
    }

    /// Makes the next task have this number.
    #[cfg(test)]
    pub(crate) fn skip_to(&self, number: u64) {
        self.next_task.0.store(number, Ordering::Relaxed);
    }

    /// The part for a new task of the caller's: that of the CPU of the calling worker, if it is one.
    pub(crate) fn part(&self, scheduler: &Scheduler) -> usize {
        let own = scheduler.here(|worker| worker.thread.cpu().index());
        own.unwrap_or_else(|| {
            let nth = self.next_task.0.load(Ordering::Relaxed) as usize;
            self.cpus + nth % (self.parts.len() - self.cpus)
        })
    }

    /// Returns whether no more tasks are accepted, apart from tasks that serve others.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Accepts no more tasks, apart from tasks that serve others.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Cancels the blocking functions that have not begun, after [`Registry::close`].
    pub(crate) fn cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
        self.abort_all(Cell::is_function);
    }

    /// Returns whether nobody waits for blocking functions any more.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::SeqCst)
    }

    /// Aborts the tasks that are of this kind.
    pub(crate) fn abort_all(&self, are: impl Fn(&Cell) -> bool) {
        self.cells().filter(|cell| are(cell)).for_each(|cell| cell.abort());
    }

    /// Waits by `waits` until all tasks have ended: then no more are accepted at all, and those that serve others end too.
    /// Called by the thread that ends the runtime, after [`Registry::close`]. If that takes long, `says` is called once.
    /// `waits` gets the time at which it returns at the latest, and whether its wait is over.
    pub(crate) fn wait_for_the_last(
        &self,
        says: impl FnOnce(),
        waits: impl Fn(Option<Time>, &dyn Fn() -> bool),
    ) {
        let (long, mut says) = (Time(os::thread::now().0 + LONG.0), Some(says));
        while self.nr_live_but_serving() > 0 {
            waits(says.is_some().then_some(long), &|| self.nr_live_but_serving() == 0);
            if os::thread::now() >= long && self.nr_live_but_serving() > 0 {
                says.take().into_iter().for_each(|says| says());
            }
        }
        self.serves_nobody.store(true, Ordering::SeqCst);
        self.abort_all(Cell::serves);
        while self.nr_live() > 0 {
            waits(None, &|| self.nr_live() == 0);
        }
    }

    /// Waits until a task ends, or until `deadline`. Called by the thread that ends the runtime.
    pub(crate) fn wait_for_call(&self, deadline: Option<Time>) {
        self.closer.park_until(deadline);
    }

    /// Ends the wait of the thread that ends the runtime, if there is one.
    pub(crate) fn call_closer(&self) {
        if self.is_closed() {
            self.closer.unpark();
        }
    }

    /// Returns whether no tasks are accepted any more.
    pub(crate) fn serves_nobody(&self) -> bool {
        self.serves_nobody.load(Ordering::SeqCst)
    }

    /// The number of live tasks that serve no others.
    pub(crate) fn nr_live_but_serving(&self) -> usize {
        let in_part = |part: &Part| part.nr_live - part.nr_serving;
        without_preemption(|| self.parts.iter().map(|part| in_part(&lock(part))).sum())
    }

    /// Drops the boxes of the tasks that are over, because they refer to the runtime.
    pub(crate) fn forget_boxes(&self) {
        for part in &self.parts {
            drop(std::mem::take(&mut lock(part).boxes));
        }
    }

    /// Counts a new box. If there are more than ever before, has every CPU make room for so many tasks.
    #[cold]
    pub(crate) fn count_box(&self, make_room: impl FnOnce(usize)) {
        let boxes = self.nr_boxes.fetch_add(1, Ordering::AcqRel) + 1;
        if boxes > self.room.load(Ordering::Acquire) {
            let len = boxes.next_power_of_two();
            make_room(len);
            self.room.fetch_max(len, Ordering::AcqRel);
        }
    }

    /// Returns the number of tasks that are not over. The parts are read one after the other.
    pub(crate) fn nr_live(&self) -> usize {
        without_preemption(|| self.parts.iter().map(|part| lock(part).nr_live).sum())
    }

    /// Adds a new task to the live tasks. Returns `None` if the task is refused, and otherwise the box of a task that
    /// is over, if there is one.
    ///
    /// A runtime that ends accepts no more tasks. It publishes that before it reads the number of live tasks for the
    /// last time, under the lock of each part. A part is asked under the same lock. So either the end waits for the
    /// task, or the task is refused.
    pub(crate) fn enroll(&self, cell: &Arc<Cell>, nth: usize) -> Option<Option<TaskOf<Job>>> {
        without_preemption(|| {
            let mut part = lock(&self.parts[nth]);
            let accepts = self.accepts(cell.serves());
            accepts.then(|| {
                part.gain(nth, cell);
                part.boxes.pop()
            })
        })
    }

    /// Makes the box of a task that is over, with its cell, those of a new task that serves no others, by `renew`: it
    /// returns `None` if it cannot use a cell again. The task is live then. No foreign code runs in `renew`.
    pub(crate) fn revive<R>(
        &self,
        nth: usize,
        mut renew: impl FnMut(&mut NextId<'_>, &mut Arc<Cell>) -> Option<R>,
    ) -> Option<(TaskOf<Job>, R)> {
        without_preemption(|| {
            let mut part = lock(&self.parts[nth]);
            if !self.accepts(false) {
                return None;
            }
            let Part { boxes, ids, .. } = &mut *part;
            // Of the parts of other threads each has a turn: their numbers are in the order of their spawns.
            let many = if nth < self.cpus { IDS } else { 1 };
            let mut id = NextId { ids, all: &self.next_task, many };
            let mut last = (boxes.len().saturating_sub(TRIED)..boxes.len()).rev();
            let (at, renewed) = last.find_map(|at| {
                let Job { cell, .. } = boxes[at].payload.as_mut()?;
                Some((at, renew(&mut id, cell)?))
            })?;
            let task = boxes.swap_remove(at);
            part.gain(nth, &task.payload.as_ref()?.cell);
            Some((task, renewed))
        })
    }

    /// Returns whether a new task is accepted, which serves others or does not.
    fn accepts(&self, serves: bool) -> bool {
        let ends = if serves { &self.serves_nobody } else { &self.closed };
        !ends.load(Ordering::SeqCst)
    }

    /// Returns the cell of a live task.
    pub(crate) fn cell_at(&self, place: u64) -> Option<Arc<Cell>> {
        let place = Place(place);
        lock(&self.parts[place.part()]).live.get(place.key()).cloned()
    }

    /// Returns the place of a live task that the random number `drawn` selects. It allocates nothing.
    pub(crate) fn some_place(&self, drawn: u64) -> Option<u64> {
        let (part, from) = (drawn as u32 as usize % self.parts.len(), (drawn >> 32) as usize);
        let live = &lock(&self.parts[part]).live;
        // New tasks get the lowest free places, or nearly so.
        let bound = (2 * live.len()).max(1);
        let mut near = (0..bound).map(|more| (from + more) % bound);
        near.find(|&key| live.contains(key)).map(|key| Place::new(part, key).0)
    }

    /// Adds `more` guards to the task at a place. The number is negative for a release.
    pub(crate) fn count_guard_at(&self, place: u64, more: i32) {
        let place = Place(place);
        lock(&self.parts[place.part()]).live.count_guard(place.key(), more);
    }

    /// Returns the cells of the live tasks. The parts are read one after the other.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Arc<Cell>> {
        self.parts.iter().flat_map(|part| {
            let mut cells = Vec::new();
            // The allocator is not called under the lock.
            while !without_preemption(|| {
                let part = lock(part);
                let has_room = part.live.len() <= cells.capacity();
                if has_room {
                    cells.extend(part.live.iter().cloned());
                }
                has_room
            }) {
                cells.reserve((2 * cells.capacity()).max(64));
            }
            cells
        })
    }

    /// Ends tasks for which [`Registry::may_end_later`] returned true. Most of them are of one part, because they ended
    /// one after the other. The lock of a part is taken once for them, because a spawning thread wants it as well.
    /// Called in the runtime's own code.
    pub(crate) fn have_ended(&self, tasks: &mut [Option<TaskOf<Job>>]) {
        let mut held: Option<(usize, MutexGuard<'_, Part>)> = None;
        for place_of_task in tasks.iter_mut() {
            let Some(task) = place_of_task.take() else { continue };
            let cell = &task.payload.as_ref().expect("a task has its cell").cell;
            let (place, serves) = (Place(cell.place.load(Ordering::Acquire)), cell.serves());
            let nth = place.part();
            let part = match held.take() {
                Some((held_nth, part)) if held_nth == nth => part,
                other => {
                    drop(other);
                    lock(&self.parts[nth])
                }
            };
            let (_, part) = held.insert((nth, part));
            *place_of_task = part.lose(place, serves, Some(task));
        }
        drop(held);
        for task in tasks.iter_mut().filter_map(Option::take) {
            self.nr_boxes.fetch_sub(1, Ordering::AcqRel);
            discard(Rubbish::Task(task));
        }
        self.call_closer();
    }

    /// Ends a task. Keeps its box and its cell for the next task, if there is room. Called in a worker's own code.
    pub(crate) fn ended(&self, mut task: TaskOf<Job>, cell: Arc<Cell>) {
        if self.leavers.are_any.load(Ordering::SeqCst) {
            cell.note_ended(&task.account());
            cell.leave_groups();
        }
        cell.note_used(task.runtime());
        let (place, serves) = (Place(cell.place.load(Ordering::Acquire)), cell.serves());
        // The cell is freed when the box is used again. That is in a spawn, which may free memory.
        let (kept, gone) = if is_kept(&cell) { (Some(cell), None) } else { (None, Some(cell)) };
        task.payload = kept.map(|cell| Job { cell, todo: Todo::Nothing });
        let left = self.withdraw(place, serves, Some(task));
        left.into_iter().for_each(|task| discard(Rubbish::Task(task)));
        gone.into_iter().for_each(|cell| discard(Rubbish::Cell(cell)));
    }

    /// Records the end of a task. Returns whether only the list of the live tasks still has to learn of it. If so, the
    /// task can be passed to [`Registry::have_ended`] later, together with others. Called in the runtime's own code, with
    /// a lock held.
    pub(crate) fn may_end_later(&self, task: &TaskOf<Job>, cell: &Arc<Cell>) -> bool {
        let may = !self.leavers.are_any.load(Ordering::SeqCst) && is_kept(cell);
        if may {
            cell.note_used(task.runtime());
        }
        may
    }

    /// Removes a task that is no longer live. Keeps its box for the next task, if there is room. Called in the
    /// runtime's own code.
    fn withdraw(
        &self,
        place: Place,
        serves: bool,
        task: Option<TaskOf<Job>>,
    ) -> Option<TaskOf<Job>> {
        let left = lock(&self.parts[place.part()]).lose(place, serves, task);
        if left.is_some() {
            self.nr_boxes.fetch_sub(1, Ordering::AcqRel);
        }
        self.call_closer();
        left
    }
}
