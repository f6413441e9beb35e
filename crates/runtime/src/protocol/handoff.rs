//! The owner of a slot and the change of owners: the protocol of preemption.
//!
//! A *slot* is the right to run tasks on one CPU. Exactly one worker owns it. The protocol says how that worker loses
//! the slot in the middle of a task's code, and gets it back.
//!
//! ```text
//!  any thread request: word |= PENDING. It depends on the word before:
//!                       FOREIGN -> signal the owner     ASLEEP -> wake the owner
//!                       FOREIGN and UNRUNG -> nothing   ASLEEP and DRIVES -> ring the driver's bell
//!  owner     enter:   FOREIGN, unless PENDING;   fall asleep: ASLEEP, unless PENDING
//!            leave:   clears both and PENDING, unless the slot was taken; then it schedules
//!            be unrung: UNRUNG; be rung again: clears UNRUNG; then it checks PENDING
//!            drive:   DRIVES, unless PENDING, with ASLEEP if it waits; leave, as above
//!            in the handler, within a no-preempt section:  PENDING, if something is due
//!            in the handler or at the end of a no-preempt section, if PENDING or something is due:
//!                     take a spare; lay down its own baton; word := spare; grant the spare's baton;
//!                     wait for its own
//!  keeper, or the owner's handler where the thread blocks
//!            take:    word := spare, if FOREIGN, or DRIVES and PENDING; grant the spare's baton
//!  spare     puts the task of the worker before away, schedules:
//!              a task to poll  -> polls it
//!              a parked worker -> joins the spares; word := that worker, FOREIGN; grants its baton;
//!                                 waits, as a spare
//! ```
//!
//! The owner, its activity and the request are in one word, so all threads see their changes in one order. Either a
//! request finds the owner in foreign code and rings, or the owner finds the request before it enters foreign code.
//! (Rejected: the owner's activity in a word of its own, with a fence on either side. The keeper could then take a slot
//! from a worker that had just left foreign code and did not know it.)
//!
//! The word of a [baton](crate::protocol::baton) alone decides whether it is granted, never a wake-up or a signal: both
//! may be spurious (H7, H8). The protocol uses only atomics and futex calls: it runs in the handler.
//!
//! Invariants, modelled in loom: a slot has one owner; a worker that owns no slot enters no task (a task that lost its slot
//! in the kernel may still run: [`Left::Lost`]); a request is consumed
//! by the next owner of the slot; no spare is taken twice.

use crate::os::sync::{AtomicU32, AtomicU64, Ordering};

/// The place of a worker in the runtime's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerId(pub(crate) u32);

const NOBODY: u32 = u32::MAX;

/// The most spares that may wait at a slot. One more worker would wait elsewhere. There are at most as many spares as
/// tasks were parked at once.
const SPARES: usize = if cfg!(loom) { 2 } else { 64 };

/// Another thread wants the owner to schedule. The flags are above the owner's number, in the low 32 bits of the word.
const PENDING: u64 = 1 << 63;
/// The owner runs foreign code, until that ends or is interrupted.
const FOREIGN: u64 = 1 << 62;
/// The owner waits to be woken.
const ASLEEP: u64 = 1 << 61;
/// The owner runs foreign code that our signals must not interrupt. It checks for requests when that is over.
const UNRUNG: u64 = 1 << 60;
/// The owner has no task and is in tokio's driver, which calls foreign code.
const DRIVES: u64 = 1 << 59;

/// The action that a requester must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// No action: the owner is about to check, or another thread rings already.
    Nothing,
    /// Signal the owner, which runs foreign code.
    Signal(WorkerId),
    /// Wake the owner, which sleeps.
    Wake,
    /// Ring the bell of tokio's driver, in which the owner waits.
    Bell(WorkerId),
}

/// The activity of a slot's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It runs the runtime's own code.
    Own,
    /// It runs a task's code.
    Foreign,
    /// It waits to be woken.
    Asleep,
    /// It is in tokio's driver, and has no task.
    Drives,
}

/// The right to run tasks on one CPU, alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// The owner, its activity, and whether it is wanted.
    word: AtomicU64,
    /// The word on which a sleeping owner waits; it changes with each wake-up.
    pub(crate) bed: AtomicU32,
    spares: [AtomicU32; SPARES],
    /// The worker that was preempted or lost the slot, for the next owner.
    left_by: AtomicU32,
}

/// The way in which a worker left a slot to a spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It was preempted, and waits to be resumed.
    Preempted(WorkerId),
    /// It blocks in the kernel, and the slot was taken from it.
    Lost(WorkerId),
    /// It was called in tokio's driver and did not come, so the slot was taken from it. It had no task.
    Drove(WorkerId),
}

/// Marks [`Left::Lost`] in the word that names the previous owner, beside its number.
const LOST: u32 = 1 << 31;
/// Marks [`Left::Drove`] in that word.
const DROVE: u32 = 1 << 30;

#[inline]
fn owner(word: u64) -> WorkerId {
    WorkerId(word as u32)
}

impl Slot {
    /// Makes a slot that belongs to `owner`, which runs the runtime's own code.
    pub(crate) fn new(owner: WorkerId) -> Slot {
        Slot {
            word: AtomicU64::new(owner.0.into()),
            bed: AtomicU32::new(0),
            spares: std::array::from_fn(|_| AtomicU32::new(NOBODY)),
            left_by: AtomicU32::new(NOBODY),
        }
    }

    #[inline]
    pub(crate) fn owner(&self) -> WorkerId {
        owner(self.word.load(Ordering::SeqCst))
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.word.load(Ordering::SeqCst) & PENDING != 0
    }

    /// Returns whether the owner was asked to schedule, has not seen it yet, and gets no signal for it: it wakes up, or
    /// is in the runtime's own code.
    pub(crate) fn is_called(&self) -> bool {
        self.word.load(Ordering::SeqCst) & (PENDING | FOREIGN) == PENDING
    }

    /// Returns whether `worker` owns the slot, runs foreign code, and was asked to schedule by a signal.
    pub(crate) fn is_rung(&self, worker: WorkerId) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        let rung = word & (PENDING | FOREIGN | UNRUNG) == PENDING | FOREIGN;
        rung && owner(word) == worker
    }

    /// Returns whether the owner sleeps, or is about to sleep.
    pub(crate) fn is_asleep(&self) -> bool {
        self.word.load(Ordering::SeqCst) & ASLEEP != 0
    }

    /// Returns whether the owner sleeps, or is in tokio's driver without a task: it may not look for newcomers by itself.
    pub(crate) fn is_away(&self) -> bool {
        self.word.load(Ordering::SeqCst) & (ASLEEP | DRIVES) != 0
    }

    #[inline]
    pub(crate) fn belongs_to(&self, worker: WorkerId) -> bool {
        self.owner() == worker
    }

    /// Returns the owner and its activity.
    pub(crate) fn doing(&self) -> (WorkerId, Doing) {
        let word = self.word.load(Ordering::SeqCst);
        let doing = match word & (FOREIGN | ASLEEP | DRIVES) {
            0 => Doing::Own,
            FOREIGN => Doing::Foreign,
            ASLEEP => Doing::Asleep,
            _ => Doing::Drives,
        };
        (owner(word), doing)
    }

    /// Asks the owner to schedule.
    pub(crate) fn request(&self) -> Ring {
        let old = self.word.fetch_or(PENDING, Ordering::SeqCst);
        match old & (PENDING | FOREIGN | ASLEEP | UNRUNG) {
            FOREIGN => Ring::Signal(owner(old)),
            ASLEEP if old & DRIVES != 0 => Ring::Bell(owner(old)),
            ASLEEP => {
                self.bed.fetch_add(1, Ordering::SeqCst);
                Ring::Wake
            }
            _ => Ring::Nothing,
        }
    }

    /// Stores a request of `worker` to itself for work that it could not do now: it will do the work when its section
    /// ends. Stores nothing if the worker no longer owns the slot. Stores nothing while it sleeps: no thread would wake
    /// it after such a request, and it checks the time on its own.
    pub(crate) fn remember(&self, worker: WorkerId) {
        let awake = |word| owner(word) == worker && word & ASLEEP == 0;
        self.change(|word| awake(word).then_some(word | PENDING));
    }

    /// Returns whether `worker` must act before it goes on: it is wanted, or no longer owns the slot.
    #[inline]
    pub(crate) fn calls(&self, worker: WorkerId) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        word & PENDING != 0 || owner(word) != worker
    }

    /// Consumes all requests so far. Called by the owner.
    pub(crate) fn take_pending(&self) -> bool {
        self.word.fetch_and(!PENDING, Ordering::SeqCst) & PENDING != 0
    }

    /// Marks that `worker` is about to run foreign code. Returns `false` if it must schedule first, or no longer owns
    /// the slot.
    #[inline]
    pub(crate) fn enter(&self, worker: WorkerId) -> bool {
        let free = |word| owner(word) == worker && word & PENDING == 0;
        self.change(|word| free(word).then_some(word | FOREIGN)).is_some()
    }

    /// Marks that `worker` goes on with foreign code although it is wanted: it cannot be replaced now. Does nothing if
    /// it no longer owns the slot.
    pub(crate) fn enter_all_the_same(&self, worker: WorkerId) {
        self.change(|word| (owner(word) == worker).then_some(word | FOREIGN));
    }

    /// Stops signals to `worker` until [`Slot::be_rung_again`]. Does nothing if it does not own the slot.
    pub(crate) fn be_unrung(&self, worker: WorkerId) {
        self.change(|word| (owner(word) == worker).then_some(word | UNRUNG));
    }

    /// Allows signals to `worker` again; it then checks whether it is called. Does nothing if it does not own the slot.
    pub(crate) fn be_rung_again(&self, worker: WorkerId) {
        self.change(|word| (owner(word) == worker).then_some(word & !UNRUNG));
    }

    /// Marks that the owner is about to sleep, in tokio's driver if it `drives`. Returns the value that [`Slot::bed`]
    /// keeps until a thread wakes the owner; `None` if it must schedule first.
    pub(crate) fn fall_asleep(&self, drives: bool) -> Option<u32> {
        let bed = self.bed.load(Ordering::SeqCst);
        let asleep = if drives { ASLEEP | DRIVES } else { ASLEEP };
        let asleep = self.change(|word| (word & PENDING == 0).then_some(word | asleep));
        asleep.map(|_| bed)
    }

    /// Marks that the owner is about to visit tokio's driver without a wait. Returns `false` if it must schedule first.
    pub(crate) fn drive(&self) -> bool {
        self.change(|word| (word & PENDING == 0).then_some(word | DRIVES)).is_some()
    }

    /// Marks that `worker` is in the runtime's own code again and is about to schedule. Consumes all requests so far,
    /// and returns whether there were any. Returns `None` if the slot was taken from the worker.
    pub(crate) fn leave(&self, worker: WorkerId) -> Option<bool> {
        let idle = !(FOREIGN | ASLEEP | DRIVES | PENDING);
        let own = |word| (owner(word) == worker).then_some(word & idle);
        self.change(own).map(|word| word & PENDING != 0)
    }

    /// Replaces the word by the value that `next` returns, if any. Returns the word before.
    #[inline]
    fn change(&self, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok()
    }

    pub(crate) fn take_spare(&self) -> Option<WorkerId> {
        self.spares.iter().find_map(|place| {
            let known = place.load(Ordering::Acquire) != NOBODY;
            let taken = if known { place.swap(NOBODY, Ordering::AcqRel) } else { NOBODY };
            (taken != NOBODY).then_some(WorkerId(taken))
        })
    }

    /// Adds a worker to the spares. Returns `false` if there is no place.
    pub(crate) fn put_spare(&self, spare: WorkerId) -> bool {
        self.spares.iter().any(|place| {
            place.compare_exchange(NOBODY, spare.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes a spare, as [`Slot::take_spare`] does, if more than `kept` wait here.
    pub(crate) fn take_spare_beyond(&self, kept: usize) -> Option<WorkerId> {
        self.has_spares(kept + 1).then(|| self.take_spare()).flatten()
    }

    /// Returns how many spares wait here.
    pub(crate) fn nr_spares(&self) -> usize {
        self.waiting_spares().count()
    }

    /// Returns whether at least this many spares wait here. Stops at that number.
    pub(crate) fn has_spares(&self, many: usize) -> bool {
        self.waiting_spares().take(many).count() == many
    }

    fn waiting_spares(&self) -> impl Iterator<Item = &AtomicU32> {
        self.spares.iter().filter(|place| place.load(Ordering::Acquire) != NOBODY)
    }

    /// Gives the slot of the owner `from` to a spare. Returns `false` if it was taken from the owner meanwhile.
    pub(crate) fn hand_over(&self, from: WorkerId, to: WorkerId) -> bool {
        let handed = self.change(|word| (owner(word) == from).then_some(to.0.into()));
        self.left(handed, from.0)
    }

    /// Takes the slot from a worker that blocks in foreign code, or was called in tokio's driver. Returns `false` if it
    /// does so no longer.
    pub(crate) fn take_from(&self, from: WorkerId, to: WorkerId) -> bool {
        let stays = |word| word & DRIVES != 0 && word & PENDING != 0;
        let blocks = |word| owner(word) == from && (word & FOREIGN != 0 || stays(word));
        // A request to an owner in the driver is consumed here: it was for the next owner of the slot, which checks in
        // any case.
        let taken = self.change(|word| blocks(word).then_some(to.0.into()));
        let drove = taken.is_some_and(|word| word & DRIVES != 0);
        self.left(taken, from.0 | if drove { DROVE } else { LOST })
    }

    fn left(&self, changed: Option<u64>, by: u32) -> bool {
        if changed.is_some() {
            self.left_by.store(by, Ordering::SeqCst);
        }
        changed.is_some()
    }

    /// Returns how the worker before left the slot, for a spare that was granted the slot.
    pub(crate) fn left_by(&self) -> Option<Left> {
        match self.left_by.swap(NOBODY, Ordering::SeqCst) {
            NOBODY => None,
            lost if lost & LOST != 0 => Some(Left::Lost(WorkerId(lost & !LOST))),
            drove if drove & DROVE != 0 => Some(Left::Drove(WorkerId(drove & !DROVE))),
            preempted => Some(Left::Preempted(WorkerId(preempted))),
        }
    }

    /// Gives the owner's slot to a worker that is to be resumed in foreign code. That worker may run already, if it was
    /// let go, or may block. Requests stay: the new owner checks them before it goes on.
    pub(crate) fn resume(&self, from: WorkerId, to: WorkerId) {
        let own =
            |word| (owner(word) == from).then_some(word & PENDING | FOREIGN | u64::from(to.0));
        let resumed = self.change(own);
        debug_assert!(resumed.is_some(), "the owner gives its slot away");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::Arc;
    use crate::protocol::baton::Baton;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    const T: WorkerId = WorkerId(0);
    const SPARE: WorkerId = WorkerId(1);

    /// A slot, the worker whose task is stopped, and a spare.
    struct World {
        slot: Slot,
        batons: [Baton; 2],
        /// The workers that were signalled.
        signals: [AtomicBool; 2],
        /// The number of workers that act as owners.
        owners: AtomicU32,
        served: AtomicU32,
        over: AtomicBool,
    }

    impl World {
        fn new() -> Arc<World> {
            let slot = Slot::new(T);
            assert!(slot.put_spare(SPARE));
            Arc::new(World {
                slot,
                batons: [Baton::new(), Baton::new()],
                signals: [AtomicBool::new(false), AtomicBool::new(false)],
                owners: AtomicU32::new(0),
                served: AtomicU32::new(0),
                over: AtomicBool::new(false),
            })
        }

        fn request(&self) -> Ring {
            let ring = self.slot.request();
            if let Ring::Signal(owner) = ring {
                self.signals[owner.0 as usize].store(true, Ordering::SeqCst);
            }
            ring
        }

        /// Does an action that only the owner may do.
        fn as_owner(&self, id: WorkerId) {
            assert_eq!(self.owners.fetch_add(1, Ordering::SeqCst), 0, "a slot has one owner");
            assert_eq!(self.slot.owner(), id);
            self.owners.fetch_sub(1, Ordering::SeqCst);
        }

        fn serve(&self) {
            if self.slot.take_pending() {
                self.served.fetch_add(1, Ordering::SeqCst);
            }
        }

        /// Runs the handler of the worker that runs a task, as in `Worker::park`. Returns `false` if there was no
        /// spare.
        fn park(&self) -> bool {
            loop {
                let Some(spare) = self.slot.take_spare() else { return false };
                self.batons[0].lay_down();
                assert!(self.slot.hand_over(T, spare));
                self.batons[1].grant();
                self.batons[0].wait();
                self.as_owner(T);
                if self.slot.enter(T) {
                    return true;
                }
            }
        }

        /// Runs the spare: it gives the slot back to the worker that lost it.
        fn be_spare(&self) {
            loop {
                self.batons[1].wait();
                if self.over.load(Ordering::SeqCst) {
                    return;
                }
                self.as_owner(SPARE);
                assert_eq!(self.slot.left_by(), Some(Left::Preempted(T)));
                self.served.fetch_add(1, Ordering::SeqCst);
                self.slot.take_pending();
                self.batons[1].lay_down();
                assert!(self.slot.put_spare(SPARE));
                self.slot.resume(SPARE, T);
                self.batons[0].grant();
            }
        }
    }

    #[test]
    fn who_runs_foreign_code_is_told_or_tells_itself() {
        loom::model(|| {
            let world = World::new();
            let other = world.clone();
            let requester = thread::spawn(move || other.request());
            let entered = world.slot.enter(T);
            let ring = requester.join().unwrap();
            assert!(world.slot.is_pending());
            assert!(
                !entered || ring == Ring::Signal(T),
                "the owner is rung unless it saw the request"
            );
        });
    }

    #[test]
    fn who_was_not_rung_is_told_or_sees_it() {
        loom::model(|| {
            let world = World::new();
            assert!(world.slot.enter(T));
            world.slot.be_unrung(T);
            let other = world.clone();
            let requester = thread::spawn(move || other.request());
            world.slot.be_rung_again(T);
            let sees = world.slot.calls(T);
            let ring = requester.join().unwrap();
            assert!(sees || ring == Ring::Signal(T), "the owner is rung unless it saw the request");
        });
    }

    #[test]
    fn who_falls_asleep_is_woken_or_stays_awake() {
        loom::model(|| {
            let world = World::new();
            let other = world.clone();
            let requester = thread::spawn(move || other.request());
            let asleep = world.slot.fall_asleep(false).is_some();
            let ring = requester.join().unwrap();
            assert!(!asleep || ring == Ring::Wake, "the owner is rung unless it saw the request");
        });
    }

    #[test]
    fn who_drives_is_rung_or_sees_it() {
        loom::model(|| {
            let world = World::new();
            let other = world.clone();
            let requester = thread::spawn(move || other.request());
            let drives = world.slot.fall_asleep(true).is_some();
            let ring = requester.join().unwrap();
            assert!(
                !drives || ring == Ring::Bell(T),
                "the driver is rung unless the owner saw the request"
            );
            assert!(
                world.slot.leave(T).expect("no worker took the slot"),
                "the owner sees that it was wanted"
            );
        });
    }

    #[test]
    fn who_drives_knows_whether_the_slot_was_taken() {
        loom::model(|| {
            let world = World::new();
            assert!(world.slot.fall_asleep(true).is_some());
            world.request();
            let other = world.clone();
            let keeper = thread::spawn(move || {
                let spare = other.slot.take_spare().expect("no other worker takes the spare");
                other.slot.take_from(T, spare)
            });
            let kept = world.slot.leave(T);
            let taken = keeper.join().unwrap();
            assert!(kept.is_some() != taken, "kept {kept:?}, taken {taken}");
            let left = taken.then_some(Left::Drove(T));
            assert_eq!(world.slot.left_by(), left);
            assert_ne!(kept, Some(false), "the owner was called");
        });
    }

    #[test]
    fn a_slot_changes_hands_and_comes_back_and_no_request_is_lost() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let world = World::new();
            let (other, spare) = (world.clone(), world.clone());
            let spare = thread::spawn(move || spare.be_spare());
            let requester = thread::spawn(move || {
                other.request();
            });
            while !world.slot.enter(T) {
                world.serve();
            }
            // This is foreign code with one instruction at which the signal may come.
            if world.signals[0].load(Ordering::SeqCst) && world.slot.is_pending() {
                assert!(world.park(), "there is a spare");
            }
            world.as_owner(T);
            if world.slot.leave(T).expect("no worker took the slot") {
                world.served.fetch_add(1, Ordering::SeqCst);
            }
            requester.join().unwrap();
            world.serve();
            assert!(!world.slot.is_pending());
            assert_eq!(world.served.load(Ordering::SeqCst), 1, "a request is served once");
            world.over.store(true, Ordering::SeqCst);
            world.batons[1].grant();
            spare.join().unwrap();
        });
    }

    #[test]
    fn a_slot_is_handed_over_or_taken_never_both() {
        loom::model(|| {
            let world = World::new();
            assert!(world.slot.enter(T));
            let other = world.clone();
            let keeper = thread::spawn(move || {
                let Some(spare) = other.slot.take_spare() else { return false };
                let taken = other.slot.take_from(T, spare);
                assert!(taken, "its owner took no spare, so it kept the slot");
                taken
            });
            let handed = match world.slot.take_spare() {
                Some(spare) => world.slot.hand_over(T, spare),
                None => false,
            };
            let taken = keeper.join().unwrap();
            assert!(handed != taken, "handed {handed}, taken {taken}");
            let left = if handed { Left::Preempted(T) } else { Left::Lost(T) };
            assert_eq!(world.slot.left_by(), Some(left));
            assert_eq!(world.slot.owner(), SPARE);
        });
    }
    #[test]
    fn who_leaves_foreign_code_knows_whether_the_slot_was_taken() {
        loom::model(|| {
            let world = World::new();
            assert!(world.slot.enter(T));
            let other = world.clone();
            let keeper = thread::spawn(move || {
                let spare = other.slot.take_spare().expect("no other worker takes the spare");
                other.slot.take_from(T, spare)
            });
            let kept = world.slot.leave(T).is_some();
            let taken = keeper.join().unwrap();
            assert!(kept != taken, "kept {kept}, taken {taken}");
        });
    }
}
