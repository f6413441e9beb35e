//! The attributes of a task: policy, nice, RT priority, latency nice, affinity, group; and
//! the weights that follow from them. Each type can hold only legal values.

use crate::cpu::CpuSet;
use crate::time::Nanos;
use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};

/// A real-time priority, 1..=99; higher wins, as in sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RtPrio(NonZeroU8);

impl RtPrio {
    /// The least important real-time priority.
    pub const MIN: RtPrio = RtPrio(NonZeroU8::MIN);
    /// The most important real-time priority.
    pub const MAX: RtPrio = RtPrio(NonZeroU8::new(99).expect("99 is not 0"));

    /// Returns `None` unless `value` is in 1..=99.
    #[must_use]
    pub fn new(value: i64) -> Option<RtPrio> {
        let prio = NonZeroU8::new(u8::try_from(value).ok()?).map(RtPrio)?;
        (RtPrio::MIN..=RtPrio::MAX).contains(&prio).then_some(prio)
    }

    /// Returns the priority as a number, 1..=99.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0.get()
    }
}

/// A nice value, -20..=19; lower gets more CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nice(i8);

impl Nice {
    /// The default.
    pub const ZERO: Nice = Nice(0);

    /// Returns `None` unless `value` is in -20..=19.
    #[must_use]
    pub fn new(value: i64) -> Option<Nice> {
        i8::try_from(value).ok().filter(|v| (-20..=19).contains(v)).map(Nice)
    }

    /// Returns the nice value as a number, -20..=19.
    #[must_use]
    pub fn get(self) -> i8 {
        self.0
    }

    /// Returns the weight of a fair task of this nice value: 1024 at 0, about 1.25 times more for
    /// each step down.
    #[must_use]
    pub fn weight(self) -> Weight {
        Weight(weight_of(self.0))
    }
}

/// Returns the weight in the kernel's table (`sched_prio_to_weight`).
fn weight_of(value: i8) -> u32 {
    const WEIGHTS: [u32; 40] = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100,
        4904, 3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172,
        137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
    ];
    WEIGHTS[usize::from((value + 20).unsigned_abs())]
}

/// A latency nice value, -20..=19. A lower value waits less, but gets no more CPU time. It is
/// independent of the nice value, which determines the share of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatencyNice(i8);

impl LatencyNice {
    /// The default.
    pub const ZERO: LatencyNice = LatencyNice(0);
    /// The value whose task waits least after a wake-up.
    pub const MIN: LatencyNice = LatencyNice(-20);
    /// The value whose task waits longest after a wake-up.
    pub const MAX: LatencyNice = LatencyNice(19);

    /// Returns `None` unless `value` is in -20..=19.
    #[must_use]
    pub fn new(value: i64) -> Option<LatencyNice> {
        let value = i8::try_from(value).ok().map(LatencyNice)?;
        (LatencyNice::MIN..=LatencyNice::MAX).contains(&value).then_some(value)
    }

    /// Returns the value as a number, -20..=19.
    #[must_use]
    pub fn get(self) -> i8 {
        self.0
    }

    /// Returns the weight that this number has as a nice value; slices are computed from it.
    pub(crate) fn weight(self) -> u32 {
        weight_of(self.0)
    }
}

/// The time that a fair task wants to run at a time, 0.1 to 100 ms. A shorter slice waits less and
/// does not reduce the share of CPU time. It corresponds to `sched_attr::sched_runtime` of a normal
/// task since Linux 6.12; for `EEVDF`. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(NonZeroU32);

impl Slice {
    /// The shortest slice.
    pub const MIN: Slice = Slice(NonZeroU32::new(100_000).expect("the bound is not 0"));
    /// The longest slice.
    pub const MAX: Slice = Slice(NonZeroU32::new(100_000_000).expect("the bound is not 0"));

    /// Returns `None` unless `span` is in 0.1..=100 ms.
    #[must_use]
    pub fn new(span: Nanos) -> Option<Slice> {
        let slice = NonZeroU32::new(u32::try_from(span.0).ok()?).map(Slice)?;
        (Slice::MIN..=Slice::MAX).contains(&slice).then_some(slice)
    }

    /// Returns the slice as a time.
    #[must_use]
    pub fn get(self) -> Nanos {
        Nanos(self.0.get().into())
    }
}

/// The share of a fair entity: twice the weight gets twice the CPU time. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The weight of a task of nice 0, and the default of a group.
    pub const NICE_0: Weight = Weight(1024);
    /// The weight of a SCHED_IDLE task. The founding document has 2, every kernel source 3.
    pub const IDLE: Weight = Weight(3);
    /// The range of a group's weight (`cpu.shares`).
    pub const GROUP_RANGE: std::ops::RangeInclusive<u32> = 2..=262_144;

    /// Returns `None` unless `value` is in [`Weight::GROUP_RANGE`].
    #[must_use]
    pub fn new(value: i64) -> Option<Weight> {
        u32::try_from(value).ok().filter(|v| Self::GROUP_RANGE.contains(v)).map(Weight)
    }

    /// Returns the weight as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the nearest value of the file `cpu.weight`, in which 100 is [`Weight::NICE_0`].
    ///
    /// ```
    /// use runyard_engine::attr::Weight;
    ///
    /// assert_eq!(Weight::new(376).map(Weight::nearest_cpu_weight), Some(37));
    /// assert_eq!(Weight::of_cpu_weight(37), 379);
    /// ```
    #[must_use]
    pub fn nearest_cpu_weight(self) -> u64 {
        let normal = u64::from(Weight::NICE_0.0);
        let nearest = (u64::from(self.0) * 100 + normal / 2) / normal;
        nearest.clamp(1, 10_000)
    }

    /// Returns the weight that a kernel gives a group with this value in `cpu.weight`: the nearest
    /// one (`sched_weight_from_cgroup`, `kernel/sched/sched.h`).
    #[must_use]
    pub fn of_cpu_weight(value: u64) -> u64 {
        (value * u64::from(Weight::NICE_0.0) + 50) / 100
    }
}

/// A policy of sched(7), with the priority or nice value that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Real-time; runs until it blocks, yields, or a more important task comes.
    Fifo(RtPrio),
    /// Real-time; shares its priority with its equals in slices.
    RoundRobin(RtPrio),
    /// Fair.
    Normal(Nice),
    /// Fair; does not preempt when it wakes up.
    Batch(Nice),
    /// Fair with almost no weight; every other task preempts it.
    Idle,
}

impl Policy {
    /// Returns whether it is SCHED_RR.
    pub(crate) fn is_round_robin(self) -> bool {
        matches!(self, Policy::RoundRobin(_))
    }

    /// Returns the weight that a task of this policy has while it is fair.
    #[must_use]
    pub fn weight(self) -> Weight {
        match self {
            Policy::Normal(nice) | Policy::Batch(nice) => nice.weight(),
            Policy::Idle => Weight::IDLE,
            Policy::Fifo(_) | Policy::RoundRobin(_) => Weight::NICE_0,
        }
    }

    /// Returns the `priority` of reports: the real-time priority or the nice value.
    #[must_use]
    pub fn priority(self) -> i64 {
        match self {
            Policy::Fifo(prio) | Policy::RoundRobin(prio) => i64::from(prio.get()),
            Policy::Normal(nice) | Policy::Batch(nice) => i64::from(nice.get()),
            Policy::Idle => 0,
        }
    }
}

/// The name of the policy in sched(7), without its priority.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Fifo(_) => "SCHED_FIFO",
            Policy::RoundRobin(_) => "SCHED_RR",
            Policy::Normal(_) => "SCHED_OTHER",
            Policy::Batch(_) => "SCHED_BATCH",
            Policy::Idle => "SCHED_IDLE",
        })
    }
}

/// A task group; [`GroupId::ROOT`] always exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group `/`, which has no limits and no parent.
    pub const ROOT: GroupId = GroupId(0);

    /// Returns the index of this group in an array with one element for each group.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A mark of trust. With core scheduling, tasks run on one core at the same time only if they have
/// the same cookie, or none has one (`PR_SCHED_CORE` of prctl(2)). The number has no other meaning.
///
/// ```
/// use runyard_engine::attr::Cookie;
///
/// assert_eq!(Cookie::new(0), None);
/// assert_eq!(Cookie::new(7).map(Cookie::get), Some(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(NonZeroU32);

impl Cookie {
    /// Returns `None` for 0, which stands for no cookie, as in the kernel.
    #[must_use]
    pub fn new(value: u32) -> Option<Cookie> {
        NonZeroU32::new(value).map(Cookie)
    }

    /// Returns the cookie as a number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// All attributes of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The policy with its priority or nice value.
    pub policy: Policy,
    /// The CPUs on which the task may run, all of them CPUs of the machine.
    pub affinity: CpuSet,
    /// The task group to which the task belongs.
    pub group: GroupId,
    /// The latency nice, which applies while it is fair.
    pub latency_nice: LatencyNice,
    /// The requested slice; `None` if its latency nice determines the slice.
    pub slice: Option<Slice>,
    /// Its own cookie. Without one it has the cookie of its group, if there is one.
    pub cookie: Option<Cookie>,
}

impl Attr {
    /// Returns SCHED_OTHER at nice 0 and latency nice 0 in the root group, without a cookie.
    #[must_use]
    pub fn normal(affinity: CpuSet) -> Attr {
        Attr {
            policy: Policy::Normal(Nice::default()),
            affinity,
            group: GroupId::ROOT,
            latency_nice: LatencyNice::ZERO,
            slice: None,
            cookie: None,
        }
    }

    /// Returns whether a task with these attributes competes as one whose creator asked for nothing, wherever it may run
    /// and whatever its cookie is.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let Attr { policy, group, latency_nice, slice, affinity: _, cookie: _ } = *self;
        policy == Policy::Normal(Nice::ZERO)
            && group == GroupId::ROOT
            && latency_nice == LatencyNice::ZERO
            && slice.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_cannot_be_made() {
        assert_eq!((RtPrio::new(0), RtPrio::new(100), RtPrio::new(256)), (None, None, None));
        assert_eq!((Nice::new(-21), Nice::new(20)), (None, None));
        assert_eq!((LatencyNice::new(-21), LatencyNice::new(20)), (None, None));
        assert_eq!(LatencyNice::new(-20), Some(LatencyNice::MIN));
        assert_eq!((Weight::new(1), Weight::new(262_145)), (None, None));
        assert_eq!(RtPrio::new(99), Some(RtPrio::MAX));
    }

    #[test]
    fn weights_are_the_kernels() {
        let weight = |nice| Nice::new(nice).unwrap().weight().get();
        assert_eq!([weight(-20), weight(0), weight(5), weight(19)], [88761, 1024, 335, 15]);
    }
}
