//! The state that CPUs publish for each other without locks.
//!
//! Each CPU publishes its state with its run-queue lock held. Other CPUs read it without the lock, so it may be stale.
//! Hints select the CPUs to examine; no decision depends on a hint alone.
//!
//! Legend of access: (q) written with the CPU's run-queue lock held, read without it; (a) written by any thread, one
//! access at a time. A field without a letter is (q).

use crate::cpupri::{CpuPri, Published};
use crate::mask::Mask;
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use runyard_engine::attr::RtPrio;
use runyard_engine::balance::power::{FULL_POWER, Taken};
use runyard_engine::balance::{Measure, Seen};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Pools;
use runyard_engine::run_queue::{
    CpuLoad, Importance, LoadAverages, LoadSums, NextExpiries, RunQueue, Signal, TimeTaken,
};
use runyard_engine::task::Task;
use runyard_engine::time::{Time, VTime};

/// The place of [`Hints::pushable`] in [`Hints::masks`].
const OVERLOADED: u32 = 4;

/// The word for a time that never comes.
const NEVER: u64 = u64::MAX;

/// The state that a CPU publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) load: CpuLoad,
    /// The running real-time task is allowed on this CPU only.
    pub(crate) pinned: bool,
    /// The numbers of tasks, packed by [`counts`].
    counts: u64,
    /// The membership in each of [`Hints::masks`], as one bit each. The first bit is that of idle CPUs.
    masks: u8,
}

/// The published states of all CPUs.
#[derive(Debug)]
pub(crate) struct Hints {
    pub(crate) cpupri: CpuPri,
    /// The CPUs with more than one real-time task, of which one could be pushed (`rto_mask`). All CPUs share the mask,
    /// so it should be written seldom. By the rules of some kernels one task is enough (`lone_rt_overloads`).
    pub(crate) pushable: Mask,
    /// The online CPUs without any task.
    pub(crate) idle: Mask,
    /// The CPUs with SCHED_IDLE tasks and no others (`sched_idle_cpu`).
    pub(crate) sched_idle: Mask,
    /// The CPUs with a waiting fair task.
    pub(crate) overloaded: Mask,
    /// The CPUs with a waiting normal task ([`CpuLoad::pressed`]).
    pub(crate) pressed: Mask,
    /// (a) The CPUs in service, as set by the thread that takes a CPU in or out of service. The run queue has the final
    /// word.
    pub(crate) online: Mask,
    /// (a) By the first CPU of a node, the number of its CPUs that a wake-up scans for an idle one (`nr_idle_scan`).
    idle_scan: Box<[AtomicU32]>,
    /// (a) The time from which idle CPUs may be asked to balance again.
    pub(crate) next_idle_balance: AtomicU64,
    /// (a) An idle CPU was kicked to balance for all idle CPUs, and has not done so yet.
    pub(crate) idle_balance_due: AtomicBool,
    cpus: Box<[CpuHints]>,
}

/// The published numbers of one CPU, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct CpuHints {
    /// The priority of the most important pushable task; 0 for none.
    pushable: AtomicU8,
    /// The time by which the CPU's next timer interrupt must come.
    next_expiry: AtomicU64,
    /// The same as `next_expiry`, without the tick.
    next_timer: AtomicU64,
    /// The vruntime up to which the tasks of its batch precede all others, if others wait.
    bound: AtomicU64,
    /// The virtual clock of the root's queue.
    clock: AtomicU64,
    /// The numbers of tasks, packed by [`counts`].
    counts: AtomicU64,
    /// The sum of the weights of the fair entities.
    load: AtomicU64,
    /// The CPU time [`Taken`] by real-time tasks, as of the last tick or switch to idle.
    taken_by_rt: AtomicU64,
    /// The CPU time taken by real-time and normal tasks, as of the same instant.
    taken_by_normal: AtomicU64,
    /// The time at which the CPU became idle.
    idle_since: AtomicU64,
    /// The sums of the CPU's averages (`PELT`), as of the last change.
    load_sum: AtomicU64,
    runnable_sum: AtomicU64,
    util_sum: AtomicU64,
    /// The instant of the sums. The lowest bit says whether a fair task has run since then.
    sums_at: AtomicU64,
}

impl Snapshot {
    /// The state of every CPU before it publishes for the first time.
    pub(crate) const NOTHING: Snapshot = Snapshot {
        load: CpuLoad {
            importance: Importance::Closed,
            pushable: None,
            nr_running: 0,
            nr_fair: 0,
            nr_idle: 0,
            idle_is_heavy: false,
            pressed: false,
            load: 0,
        },
        pinned: false,
        counts: 0,
        masks: 0,
    };

    #[inline]
    pub(crate) fn of<P, G: Pools>(rq: &RunQueue<P, G>) -> Snapshot {
        let load = rq.classes().load();
        let pinned = |curr: &Task<_>| curr.class().push_prio().is_some() && !curr.is_migratory();
        let runs = || rq.classes().forced_idle().is_none();
        let waits = load.nr_fair > 0 && (load.nr_running > 1 || !runs());
        let idle = load.nr_running == 0 && rq.site().is_online();
        // A real-time task that is alone is about to run here.
        let alone = load.nr_running - load.nr_fair <= 1;
        let overloaded =
            load.pushable.is_some() && (!alone || rq.site().config().rules.lone_rt_overloads);
        let masks = [idle, load.is_sched_idle(), waits, load.pressed, overloaded];
        let bits = masks.into_iter().enumerate();
        let masks = bits.fold(0, |all, (nth, is_in)| all | u8::from(is_in) << nth);
        let pinned = rq.tasks().curr().is_some_and(pinned);
        Snapshot { load, pinned, counts: counts(load), masks }
    }

    /// Returns whether the snapshot certainly still describes the CPU.
    #[inline]
    pub(crate) fn still_holds<P, G: Pools>(&self, rq: &RunQueue<P, G>) -> bool {
        !self.pinned && !rq.classes().has_cookies() && rq.classes().still_has(&self.load)
    }

    /// Returns whether the CPU is in [`Hints::pushable`].
    #[inline]
    pub(crate) fn is_overloaded(&self) -> bool {
        self.masks >> OVERLOADED & 1 == 1
    }

    /// Returns whether the CPU is online and has no task.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.masks & 1 == 1
    }
}

/// Packs the numbers of tasks into a word. Fair tasks and SCHED_IDLE tasks have 24 bits each, real-time tasks 15, and
/// one bit says whether the SCHED_IDLE tasks are heavy. A larger number saturates.
#[inline]
fn counts(load: CpuLoad) -> u64 {
    let some = |nr: u32, bits: u32| u64::from(nr).min((1 << bits) - 1);
    let (rt, heavy) = (load.nr_running - load.nr_fair, u64::from(load.idle_is_heavy));
    some(load.nr_fair, 24) | some(load.nr_idle, 24) << 24 | some(rt, 15) << 48 | heavy << 63
}

impl Hints {
    pub(crate) fn new(cpus: usize) -> Hints {
        let mask = || Mask::new(cpus);
        let word = |value| AtomicU64::new(value);
        let own = |_| CpuHints {
            pushable: AtomicU8::new(0),
            next_expiry: word(NEVER),
            next_timer: word(NEVER),
            bound: word(NEVER),
            clock: word(0),
            counts: word(0),
            load: word(0),
            taken_by_rt: word(0),
            taken_by_normal: word(0),
            idle_since: word(NEVER),
            load_sum: word(0),
            runnable_sum: word(0),
            util_sum: word(0),
            sums_at: word(0),
        };
        Hints {
            cpupri: CpuPri::new(cpus),
            pushable: mask(),
            idle: mask(),
            sched_idle: mask(),
            overloaded: mask(),
            pressed: mask(),
            online: mask(),
            idle_scan: (0..cpus).map(|_| AtomicU32::new(u32::MAX)).collect(),
            next_idle_balance: word(0),
            idle_balance_due: AtomicBool::new(false),
            cpus: (0..cpus).map(own).collect(),
        }
    }

    /// Publishes the differences between `new` and `old`, the last published state of this CPU.
    #[inline(always)]
    pub(crate) fn publish(&self, cpu: CpuId, old: Snapshot, new: Snapshot) {
        let (load, was, own) = (new.load, old.load, self.of(cpu));
        if (load.importance, new.pinned) != (was.importance, old.pinned) {
            let published = Published { importance: load.importance, pinned: new.pinned };
            self.cpupri.set(cpu, was.importance, published);
        }
        if load.pushable != was.pushable {
            own.pushable.store(load.pushable.map_or(0, RtPrio::get), Ordering::Release);
        }
        if load.load != was.load {
            own.load.store(load.load, Ordering::Release);
        }
        if new.counts != old.counts {
            own.counts.store(new.counts, Ordering::Release);
        }
        if new.masks != old.masks {
            for (nth, mask) in self.masks().into_iter().enumerate() {
                if (new.masks ^ old.masks) >> nth & 1 == 1 {
                    mask.set(cpu, new.masks >> nth & 1 == 1);
                }
            }
        }
    }

    /// Returns the number of CPUs of a node that a wake-up scans for an idle one. It is all of them until a balance
    /// sets it.
    #[inline]
    pub(crate) fn idle_scan(&self, first: CpuId) -> usize {
        self.idle_scan[first.index()].load(Ordering::Acquire) as usize
    }

    #[inline]
    pub(crate) fn set_idle_scan(&self, first: CpuId, cpus: u32) {
        self.idle_scan[first.index()].store(cpus, Ordering::Release);
    }

    fn masks(&self) -> [&Mask; 5] {
        [&self.idle, &self.sched_idle, &self.overloaded, &self.pressed, &self.pushable]
    }

    /// Publishes the values that change with time.
    #[inline]
    pub(crate) fn publish_times<P, G: Pools>(&self, cpu: CpuId, rq: &RunQueue<P, G>) {
        let TimeTaken { by_rt: rt, by_normal: normal } = rq.classes().taken();
        let own = self.of(cpu);
        own.taken_by_rt.store(rt.to_bits(), Ordering::Release);
        own.taken_by_normal.store(normal.to_bits(), Ordering::Release);
        own.idle_since
            .store(rq.classes().idle().since().map_or(NEVER, |at| at.0), Ordering::Release);
        self.publish_averages(cpu, rq);
    }

    /// Publishes the averages of the CPU's load, if there are any.
    #[inline]
    pub(crate) fn publish_averages<P, G: Pools>(&self, cpu: CpuId, rq: &RunQueue<P, G>) {
        let Some((sums, signal)) = rq.queues().load_sums() else { return };
        let own = self.of(cpu);
        own.load_sum.store(sums.load, Ordering::Release);
        own.runnable_sum.store(sums.runnable, Ordering::Release);
        own.util_sum.store(sums.util, Ordering::Release);
        own.sums_at.store(sums.at.0 << 1 | u64::from(signal.runs), Ordering::Release);
    }

    /// Returns the averages of the fair tasks of `cpu` at `now` (`PELT`). The sums are aged with the load and the task
    /// count that the CPU published last. The words are read one by one, so they may belong to two instants.
    #[inline]
    pub(crate) fn averages(&self, now: Time, cpu: CpuId) -> LoadAverages {
        let own = self.of(cpu);
        let at = own.sums_at.load(Ordering::Acquire);
        let sums = LoadSums {
            load: own.load_sum.load(Ordering::Acquire),
            runnable: own.runnable_sum.load(Ordering::Acquire),
            util: own.util_sum.load(Ordering::Acquire),
            at: Time(at >> 1),
        };
        let (load, runnable) = (self.load(cpu), self.counts(cpu).nr_fair);
        sums.aged(now, Signal { load, runnable, runs: at & 1 == 1 }).averages()
    }

    /// Publishes the times by which the next timer interrupts must come.
    #[inline]
    pub(crate) fn publish_expiries(&self, cpu: CpuId, next: NextExpiries) {
        let own = self.of(cpu);
        own.next_expiry.store(next.any.0, Ordering::Release);
        own.next_timer.store(next.timer.0, Ordering::Release);
    }

    /// Publishes the vruntime up to which the batch of `cpu` precedes all others.
    #[inline]
    pub(crate) fn publish_bound(&self, cpu: CpuId, bound: Option<VTime>) {
        // A bound equal to the word for "none" is stored one nanosecond earlier.
        let word = bound.map_or(NEVER, |at| at.0.min(NEVER - 1));
        let published = &self.of(cpu).bound;
        if published.load(Ordering::Relaxed) != word {
            published.store(word, Ordering::Release);
        }
    }

    /// Returns the vruntime up to which the batch of `cpu` precedes all others.
    #[inline]
    pub(crate) fn bound(&self, cpu: CpuId) -> Option<VTime> {
        let word = self.of(cpu).bound.load(Ordering::Acquire);
        (word != NEVER).then_some(VTime(word))
    }

    /// Publishes the virtual clock of the root's queue.
    #[inline]
    pub(crate) fn publish_clock(&self, cpu: CpuId, clock: VTime) {
        let published = &self.of(cpu).clock;
        if published.load(Ordering::Relaxed) != clock.0 {
            published.store(clock.0, Ordering::Release);
        }
    }

    /// Returns the virtual clock of the root's queue.
    #[inline]
    pub(crate) fn clock(&self, cpu: CpuId) -> VTime {
        VTime(self.of(cpu).clock.load(Ordering::Acquire))
    }

    /// Prefetches the published words of `cpu`, for [`crate::machine::Unshared::read_ahead`].
    #[inline]
    pub(crate) fn read_ahead(&self, cpu: CpuId) -> u64 {
        let CpuHints { next_expiry, idle_since, .. } = self.of(cpu);
        next_expiry.load(Ordering::Relaxed) ^ idle_since.load(Ordering::Relaxed)
    }

    /// Returns the time by which the next timer interrupt of `cpu` must come.
    #[inline]
    pub(crate) fn next_expiry(&self, cpu: CpuId) -> Option<Time> {
        let at = self.of(cpu).next_expiry.load(Ordering::Acquire);
        (at != NEVER).then_some(Time(at))
    }

    /// Does the same as [`Hints::next_expiry`] without the tick. Returns [`Time::MAX`] if there is no timer.
    #[inline]
    pub(crate) fn next_timer(&self, cpu: CpuId) -> Time {
        Time(self.of(cpu).next_timer.load(Ordering::Acquire))
    }

    /// Returns the priority of the most important task that `cpu` could push.
    #[inline]
    pub(crate) fn pushable(&self, cpu: CpuId) -> Option<RtPrio> {
        RtPrio::new(self.of(cpu).pushable.load(Ordering::Acquire).into())
    }

    /// Returns the sum of the weights of the fair entities of `cpu`.
    #[inline]
    pub(crate) fn load(&self, cpu: CpuId) -> u64 {
        self.of(cpu).load.load(Ordering::Acquire)
    }

    /// Returns the time at which `cpu` became idle, if it is idle.
    #[inline]
    pub(crate) fn idle_since(&self, cpu: CpuId) -> Option<Time> {
        let at = self.of(cpu).idle_since.load(Ordering::Acquire);
        (at != NEVER).then_some(Time(at))
    }

    /// Returns the number of tasks of each kind on `cpu`.
    #[inline]
    pub(crate) fn counts(&self, cpu: CpuId) -> Seen {
        let counts = self.of(cpu).counts.load(Ordering::Acquire);
        let part = |from: u32, bits: u32| (counts >> from & ((1 << bits) - 1)) as u32;
        let (nr_fair, nr_idle, nr_rt) = (part(0, 24), part(24, 24), part(48, 15));
        Seen { nr_fair, nr_idle, idle_is_heavy: part(63, 1) == 1, nr_rt, ..Seen::default() }
    }

    /// Returns the state of `cpu` as a balancing CPU sees it with `measure`. `full` is the power of `cpu` without any
    /// other use.
    #[inline]
    pub(crate) fn seen(&self, now: Time, cpu: CpuId, full: u64, measure: Measure) -> Seen {
        let own = self.of(cpu);
        let seen = self.counts(cpu);
        let left =
            |taken: &AtomicU64| Taken::from_bits(taken.load(Ordering::Acquire)).left(now, full);
        match measure {
            Measure::Idle => Seen { idle_power: left(&own.taken_by_normal), ..seen },
            Measure::All | Measure::Normal => {
                let fair = u64::from(seen.nr_fair);
                let (util, runnable) = (fair.min(1) * FULL_POWER, fair * FULL_POWER);
                let power = left(&own.taken_by_rt);
                Seen { load: self.load(cpu), power, util, runnable, ..seen }
            }
        }
    }

    #[inline]
    fn of(&self, cpu: CpuId) -> &CpuHints {
        &self.cpus[cpu.index()]
    }

    /// Asserts that the hints agree with the last state that `cpu` published.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check(&self, cpu: CpuId, last: Snapshot, picture: &impl std::fmt::Display) {
        let closed = last.load.importance == Importance::Closed;
        let seen = self.cpupri.of(cpu);
        assert_eq!(
            seen.importance, last.load.importance,
            "CPU {cpu} has its importance\n{picture}"
        );
        // A closed CPU does not publish whether its running task is pinned.
        assert!(closed || seen.pinned == last.pinned, "CPU {cpu} is pinned or not\n{picture}");
        let is_in = |nth: usize| last.masks >> nth & 1 == 1;
        let masks = self.masks().into_iter().enumerate().map(|(nth, mask)| (mask, is_in(nth)));
        for (nth, (mask, expected)) in masks.enumerate() {
            assert_eq!(mask.contains(cpu), expected, "CPU {cpu}, mask {nth}\n{picture}");
        }
        let seen =
            (self.of(cpu).counts.load(Ordering::Acquire), self.load(cpu), self.pushable(cpu));
        let expected = (counts(last.load), last.load.load, last.load.pushable);
        assert_eq!(seen, expected, "the numbers of CPU {cpu} are the published ones\n{picture}");
    }
}
