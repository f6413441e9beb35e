//! The live tasks, in parts with one lock each, and the boxes of tasks that are over.

use super::{FIRST_ROOM, Shared};
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::protocol::parker::Parker;
use crate::protocol::places::{Place, Places};
use crate::task::{Cell, Job, Todo};
use runyard_engine::attr::Attr;
use runyard_engine::task::TaskId;
use runyard_smp::machine::TaskOf;
use std::collections::VecDeque;

/// Number of boxes of tasks that are over which each part keeps for a burst of spawns: at most 720 KiB, and 4 MiB with
/// their cells.
const BOXES: usize = 4_096;

/// Maximum size, in bytes, of a cell that is kept with its box. It includes the future, which has been dropped. A
/// spawning thread then frees memory of the same size that it allocates, so the allocator has it at hand.
const KEPT: usize = 1_024;

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
}

impl Default for Part {
    fn default() -> Part {
        let boxes = Vec::with_capacity(BOXES);
        Part { live: Places::default(), nr_live: 0, nr_serving: 0, boxes }
    }
}

impl Part {
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
    /// Set when no more tasks that serve others are accepted, because no task is left to serve.
    serves_nobody: AtomicBool,
    /// The word on which the thread waits that ends the runtime, until its last task has ended.
    closer: Parker,
}

/// The number of the next task, on a cache line apart from the fields that all threads read.
#[derive(Debug, Default)]
#[repr(align(128))]
struct NextTask(AtomicU64);

impl Registry {
    pub(super) fn new(cpus: usize) -> Registry {
        Registry {
            parts: (0..PARTS * cpus).map(|_| Mutex::default()).collect(),
            cpus,
            nr_boxes: AtomicUsize::new(0),
            room: AtomicUsize::new(FIRST_ROOM),
            next_task: NextTask::default(),
            closed: AtomicBool::new(false),
            serves_nobody: AtomicBool::new(false),
            closer: Parker::new(),
        }
    }

    /// The number of a new task.
    pub(super) fn next_id(&self) -> TaskId {
        TaskId(self.next_task.0.fetch_add(1, Ordering::Relaxed))
    }

    /// The number of tasks that were ever spawned.
    pub(crate) fn nr_spawned(&self) -> u64 {
        self.next_task.0.load(Ordering::Relaxed)
    }

    /// Makes the next task have this number.
    #[cfg(test)]
    pub(crate) fn skip_to(&self, number: u64) {
        self.next_task.0.store(number, Ordering::Relaxed);
    }

    /// The part for a new task: that of the CPU of the calling worker, if it is one.
    pub(super) fn part(&self, own: Option<usize>) -> usize {
        own.unwrap_or_else(|| {
            let nth = self.nr_spawned() as usize;
            self.cpus + nth % (self.parts.len() - self.cpus)
        })
    }

    /// Returns whether no more tasks are accepted, apart from tasks that serve others.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Accepts no more tasks, apart from tasks that serve others.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Aborts the tasks that serve others, or those that do not.
    pub(super) fn abort_all(&self, serves: bool) {
        self.cells().filter(|cell| cell.serves == serves).for_each(|cell| cell.abort());
    }

    /// Waits until all tasks have ended: then no more are accepted at all, and those that serve others end too. Called
    /// by the thread that ends the runtime, after [`Registry::close`].
    pub(super) fn wait_for_the_last(&self) {
        while self.nr_live_but_serving() > 0 {
            self.closer.park();
        }
        self.serves_nobody.store(true, Ordering::SeqCst);
        self.abort_all(true);
        while self.nr_live() > 0 {
            self.closer.park();
        }
    }

    /// The number of live tasks that serve no others.
    fn nr_live_but_serving(&self) -> usize {
        let in_part = |part: &Part| part.nr_live - part.nr_serving;
        without_preemption(|| self.parts.iter().map(|part| in_part(&lock(part))).sum())
    }

    /// Counts a task that is over, or was refused, after it has left its part.
    fn one_less_live(&self) {
        if self.is_closed() {
            self.closer.unpark();
        }
    }

    /// Drops the boxes of the tasks that are over.
    pub(super) fn forget_boxes(&self) {
        for part in &self.parts {
            drop(std::mem::take(&mut lock(part).boxes));
        }
    }

    /// Counts one more box. Returns the number of boxes if the CPUs lack room for so many tasks.
    fn count_box(&self) -> Option<usize> {
        let boxes = self.nr_boxes.fetch_add(1, Ordering::AcqRel) + 1;
        (boxes > self.room.load(Ordering::Acquire)).then_some(boxes)
    }

    /// Notes that every CPU has room for so many tasks.
    fn has_room_for(&self, tasks: usize) {
        self.room.fetch_max(tasks, Ordering::AcqRel);
    }

    /// Returns the number of tasks that are not over. The parts are read one after the other.
    pub(crate) fn nr_live(&self) -> usize {
        without_preemption(|| self.parts.iter().map(|part| lock(part).nr_live).sum())
    }

    /// Adds a new task to the live tasks. Returns `None` if the task is refused, and otherwise the box of a task that
    /// is over, if there is one.
    ///
    /// A runtime that ends accepts no more tasks. It publishes that before it reads the number of live tasks for the
    /// last time. A new task is live before this checks whether the runtime ends. So either the end waits for the task,
    /// or the task is refused.
    pub(super) fn enroll(&self, cell: &Arc<Cell>, nth: usize) -> Option<Option<TaskOf<Job>>> {
        let used = without_preemption(|| {
            let mut part = lock(&self.parts[nth]);
            cell.place.store(Place::new(nth, part.live.next()).0, Ordering::Release);
            part.live.insert(cell.clone());
            part.nr_live += 1;
            part.nr_serving += usize::from(cell.serves);
            part.boxes.pop()
        });
        let ends = if cell.serves { &self.serves_nobody } else { &self.closed };
        if !ends.load(Ordering::SeqCst) {
            return Some(used);
        }
        let place = Place(cell.place.load(Ordering::Acquire));
        let used = without_preemption(|| self.withdraw(place, cell.serves, used));
        drop(used);
        None
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

    /// Ends tasks for which [`Shared::may_end_later`] returned true. Most of them are of one part, because they ended
    /// one after the other. The lock of a part is taken once for them, because a spawning thread wants it as well.
    /// Called in the runtime's own code.
    pub(crate) fn have_ended(&self, tasks: &mut [Option<TaskOf<Job>>]) {
        let mut held: Option<(usize, MutexGuard<'_, Part>)> = None;
        for place_of_task in tasks.iter_mut() {
            let Some(task) = place_of_task.take() else { continue };
            let cell = &task.payload.as_ref().expect("a task has its cell").cell;
            let (place, serves) = (Place(cell.place.load(Ordering::Acquire)), cell.serves);
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
        self.one_less_live();
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
        self.one_less_live();
        left
    }
}

impl Shared {
    /// Returns a new box. If there are more boxes than ever before, makes room for the task on every CPU.
    #[cold]
    pub(super) fn new_box(&self, id: TaskId, attr: Attr, job: Job) -> TaskOf<Job> {
        if let Some(boxes) = self.registry.count_box() {
            self.make_room(boxes);
        }
        runyard_engine::task::Task::new(id, attr, job)
    }

    /// Ends a task. Keeps its box and its cell for the next task, if there is room. Called in a worker's own code.
    pub(crate) fn ended(&self, mut task: TaskOf<Job>, cell: Arc<Cell>) {
        if self.leavers.are_any.load(Ordering::SeqCst) {
            cell.note_ended(&task.account());
            cell.leave_groups();
        }
        cell.note_used(task.runtime());
        let (place, serves) = (Place(cell.place.load(Ordering::Acquire)), cell.serves);
        // The cell is freed when the box is used again. That is in a spawn, which may free memory.
        let (kept, gone) = if is_kept(&cell) { (Some(cell), None) } else { (None, Some(cell)) };
        task.payload = kept.map(|cell| Job { cell, todo: Todo::Nothing });
        let left = self.registry.withdraw(place, serves, Some(task));
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

    /// Makes room on each CPU for `live` live tasks. Memory is allocated and freed outside of sections. If two threads
    /// do this at once, one does it in vain.
    #[cold]
    fn make_room(&self, live: usize) {
        let len = live.next_power_of_two();
        for cpu in self.scheduler.machine.config().topology.iter() {
            let mut room = self.scheduler.machine.room(len + self.bounds.max_groups);
            without_preemption(|| self.scheduler.machine.reserve_in(cpu, &mut room));
        }
        for batches in self.scheduler.dispatch.all() {
            let mut memory = VecDeque::with_capacity(len);
            without_preemption(|| batches.newcomers.reserve(&mut memory));
        }
        let mut lobby = VecDeque::with_capacity(len);
        without_preemption(|| self.scheduler.crew.maker.reserve_lobby(&mut lobby));
        self.registry.has_room_for(len);
    }

    /// Returns the part of the live tasks to which a new task of the caller's belongs.
    pub(super) fn part(&self) -> usize {
        self.registry.part(self.scheduler.here(|worker| worker.cpu().index()))
    }
}
