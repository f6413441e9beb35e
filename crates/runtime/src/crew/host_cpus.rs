//! The CPUs of the machine that the process may use, and the threads that are bound to them.

use super::homes::Homes;
use crate::os;
use crate::os::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::os::thread::{Mask, Places, Tid};
use runyard_engine::cpu::{CpuId, CpuSet, MAX_CPUS};
use runyard_engine::topology::Topology;

/// The most CPUs that a message names.
const SHOWN: usize = 16;

/// Returns the numbers of CPUs that a caller names. An endless list of them ends.
pub(crate) fn numbers(cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
    cpus.into_iter().take(MAX_CPUS).collect()
}

/// Returns the message for a caller that asks for CPUs of which a runtime with this many CPUs has none.
pub(crate) fn none_of(cpus: usize, asked: &[usize]) -> String {
    let (shown, more) = asked.split_at(asked.len().min(SHOWN));
    let more = if more.is_empty() { "" } else { " and more" };
    format!("the runtime has {cpus} CPUs, numbered from 0, and none of the CPUs {shown:?}{more}")
}

/// The CPUs of the machine that the process may use. Others may change them while the runtime runs, by `taskset` or a
/// cpuset. The maker then [adopts](HostCpus::adopt) the new ones.
///
/// The mask of a thread is the runtime's only if the runtime has given it, or if it is that of the process. Any other
/// mask was set by other code on this one thread, and the runtime leaves such a thread alone until it has the mask of
/// the process. The kernel does not tell who has set a mask: if other code sets the one that the runtime has just given,
/// the runtime does not see that.
#[derive(Debug)]
pub(crate) struct HostCpus {
    /// The CPU behind each slot when the runtime was built.
    first: Box<[usize]>,
    /// The CPU behind each slot. Written by the maker only.
    behind: Box<[AtomicUsize]>,
    /// The CPUs of the runtime. Each CPU has its own copy of the set, because the set is reference counted.
    all: Box<[CpuSet]>,
    /// All CPUs of the process, as a set for binding. Written by the maker only.
    everywhere: Places,
    homes: Homes,
    binds: Binds,
    /// Whether a task's affinity and the CPUs of the process had no CPU in common, until the maker has told of it.
    had_nothing_in_common: AtomicBool,
}

/// How workers are bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binds {
    /// Whether each worker is bound to the CPU of its slot.
    pub(crate) pins: bool,
    /// Whether slots share cores, so that no other CPU can stand in for that of a slot.
    pub(crate) keeps_cores: bool,
    /// Whether idle workers always sleep bound.
    pub(crate) homes_are_kept: bool,
}

/// The CPUs that the runtime gives a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// All of the process.
    Everywhere,
    /// The one behind a slot.
    Slot(CpuId),
    /// Those behind the CPUs of a task.
    Task(&'a CpuSet),
    /// The one where the thread is to wake.
    Home(u32),
}

impl Given<'_> {
    /// Returns the mask of a thread that was given these CPUs. If the process may run on none of them, that is all of
    /// its CPUs, as the kernel does it with a cpuset. The second value says whether it is so.
    fn mask(self, everywhere: &Mask, behind: impl Fn(CpuId) -> usize) -> (Mask, bool) {
        let wanted = match self {
            Given::Everywhere => return (everywhere.clone(), false),
            Given::Slot(cpu) => Mask::of([behind(cpu)]),
            Given::Task(cpus) => Mask::of(cpus.iter().map(behind)),
            Given::Home(cpu) => Mask::of([cpu as usize]),
        };
        let both = wanted.intersection(everywhere);
        if both.is_empty() { (everywhere.clone(), true) } else { (both, false) }
    }
}

/// The CPUs of the machine that a runtime uses: one behind each slot, and those where the process may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uses {
    behind: Vec<usize>,
    everywhere: Mask,
}

impl Uses {
    fn mask(&self, given: Given<'_>) -> (Mask, bool) {
        given.mask(&self.everywhere, |cpu| self.behind[cpu.index()])
    }

    /// Returns whether a thread that was given these CPUs by `self` may have the mask `has` after the process's CPUs
    /// became those of `after`, without a change for this thread alone.
    fn explains(&self, given: Given<'_>, after: &Uses, has: &Mask) -> bool {
        let (gave, _) = self.mask(given);
        // A cpuset narrows the mask of each thread. `taskset` sets one mask for all. Until a thread's turn comes, it has
        // its former mask.
        [&gave, &gave.intersection(&after.everywhere), &self.everywhere, &after.everywhere]
            .contains(&has)
            || after.mask(given).0 == *has
    }
}

/// A change of the CPUs that a runtime uses.
#[derive(Debug)]
pub(crate) struct Adopted {
    before: Uses,
    after: Uses,
}

/// The CPU behind each slot, and the slots that run tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    behind: Vec<usize>,
    pub(crate) online: Vec<bool>,
}

/// Plans the use of the CPUs `allowed`, of which there is at least one, by slots that had the CPUs `first` when the
/// runtime was built. A slot keeps its first CPU as long as the process may run there. If `has_stand_ins`, another slot
/// gets an allowed CPU that is the first of no slot. A slot without a CPU goes offline. Of the others, `most` are
/// online, and at least one.
fn plan(first: &[usize], allowed: &[usize], most: usize, has_stand_ins: bool) -> Plan {
    let mut free = allowed.iter().copied().filter(|cpu| has_stand_ins && !first.contains(cpu));
    let mut behind: Vec<_> = first
        .iter()
        .map(|&own| Some(own).filter(|own| allowed.contains(own)).or_else(|| free.next()))
        .collect();
    if behind.iter().all(Option::is_none) {
        behind[0] = allowed.first().copied();
    }
    let mut left = most.max(1);
    let mut is_online = |cpu: &Option<usize>| {
        let is_online = cpu.is_some() && left > 0;
        left -= usize::from(is_online);
        is_online
    };
    let online = behind.iter().map(&mut is_online).collect();
    let behind = behind.iter().zip(first).map(|(cpu, &own)| cpu.unwrap_or(own)).collect();
    Plan { behind, online }
}

impl HostCpus {
    /// The CPUs with these numbers, for the slots of a topology: the first ones are behind the slots, in order.
    pub(crate) fn new(numbers: &[usize], topology: Topology, binds: Binds) -> HostCpus {
        let first: Box<[usize]> = numbers[..topology.cpus()].into();
        HostCpus {
            everywhere: Places::new(numbers),
            homes: Homes::new(topology.cpus(), binds.homes_are_kept),
            behind: first.iter().map(|&cpu| AtomicUsize::new(cpu)).collect(),
            first,
            all: topology.iter().map(|_| topology.iter().collect()).collect(),
            binds,
            had_nothing_in_common: AtomicBool::new(false),
        }
    }

    /// Plans the use of the CPUs `allowed` for at most so many slots.
    pub(crate) fn plan(&self, allowed: &[usize], most: usize) -> Plan {
        plan(&self.first, allowed, most, !self.binds.keeps_cores)
    }

    /// Puts the CPUs of a plan behind the slots. The process may run on `allowed` from now on. After this,
    /// [`renew`](HostCpus::renew) is due for each thread of a worker.
    pub(crate) fn adopt(&self, plan: &Plan, allowed: &[usize]) -> Adopted {
        let before = self.uses();
        debug_assert_eq!(plan.behind.len(), self.behind.len(), "a plan is for all slots");
        for (behind, &cpu) in self.behind.iter().zip(&plan.behind) {
            behind.store(cpu, Ordering::SeqCst);
        }
        self.everywhere.set(&Mask::of(allowed.iter().copied()));
        Adopted { before, after: self.uses() }
    }

    fn behind(&self, slot: CpuId) -> usize {
        self.behind[slot.index()].load(Ordering::SeqCst)
    }

    fn uses(&self) -> Uses {
        let behind = (0..self.behind.len()).map(|slot| self.behind(CpuId::at(slot))).collect();
        Uses { behind, everywhere: self.everywhere.mask() }
    }

    pub(crate) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Returns the CPUs of the runtime, of which each CPU has its own copy: the `nth`, modulo their number.
    pub(crate) fn all(&self, nth: usize) -> &CpuSet {
        &self.all[nth % self.all.len()]
    }

    /// Returns those of the CPUs `wanted` that the runtime has, or `None` if it has none of them.
    pub(crate) fn among(&self, wanted: &[usize]) -> Option<CpuSet> {
        let has = |&&cpu: &&usize| cpu < self.all.len();
        let here: CpuSet = wanted.iter().filter(has).map(|&cpu| CpuId::at(cpu)).collect();
        (!here.is_empty()).then_some(here)
    }

    /// Returns whether each worker is bound to the CPU behind its slot.
    pub(crate) fn pins(&self) -> bool {
        self.binds.pins
    }

    /// Returns whether the process may run on a CPU of the machine.
    pub(crate) fn has(&self, cpu: u32) -> bool {
        self.everywhere.has(cpu)
    }

    /// Returns whether a thread may run on the CPUs of the process, and on no others. May be called in a signal handler.
    pub(crate) fn are_of(&self, thread: Tid) -> bool {
        os::thread::may_run_on(thread, &self.everywhere)
    }

    /// Lets a thread run on all CPUs of the process, if it was bound to `home` for its waking and other code has not
    /// changed that. May be called in a signal handler.
    pub(crate) fn unbind(&self, thread: Tid, home: u32) {
        if os::thread::runs_on_one(thread, home) {
            os::thread::bind_to(thread, &self.everywhere);
        }
    }

    /// Gives a thread, which was given `before`, other CPUs. Leaves a thread alone whose CPUs other code has set, and
    /// returns `false`. A refusal of the kernel costs precision, but not correctness.
    pub(crate) fn bind(&self, thread: Tid, before: Given<'_>, given: Given<'_>) -> bool {
        let everywhere = self.everywhere.mask();
        let mask_of = |given: Given<'_>| given.mask(&everywhere, |cpu| self.behind(cpu));
        let is_ours = |has| mask_of(before).0 == has || everywhere == has;
        let is_ours = Mask::of_thread(thread).is_none_or(is_ours);
        if is_ours {
            let (mask, has_nothing_in_common) = mask_of(given);
            if has_nothing_in_common && !self.pins() {
                self.had_nothing_in_common.store(true, Ordering::Relaxed);
            }
            mask.bind(thread);
        }
        is_ours
    }

    /// Gives a thread, which was given `gave` within the CPUs before, what it is to have within those of now. Leaves a
    /// thread alone whose CPUs other code has set, and returns `false`. Allocates nothing: the thread's steering is held.
    pub(crate) fn renew(
        thread: Tid,
        Adopted { before, after }: &Adopted,
        gave: Given<'_>,
        given: Given<'_>,
    ) -> bool {
        let Some(has) = Mask::of_thread(thread) else { return true };
        let (mask, _) = after.mask(given);
        let is_ours = before.explains(gave, after, &has);
        if is_ours && has != mask {
            mask.bind(thread);
        }
        is_ours
    }

    /// Returns whether a task's affinity and the CPUs of the process had no CPU in common since the last call.
    pub(crate) fn take_nothing_in_common(&self) -> bool {
        self.had_nothing_in_common.swap(false, Ordering::Relaxed)
    }

    /// Returns the CPU on which the sleeping owner of a slot should wake: where it slept, or where no owner is. Returns
    /// `None` if there is no such CPU. May be called in a signal handler.
    pub(crate) fn home_of(&self, slot: CpuId, slept_on: u32) -> Option<u32> {
        std::iter::once(slept_on)
            .chain(self.everywhere.iter())
            .find(|&cpu| self.has(cpu) && !self.homes.has_others(slot, cpu))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the CPU behind each slot that is online.
    fn online(first: &[usize], allowed: &[usize], most: usize) -> Vec<(usize, usize)> {
        let Plan { behind, online } = plan(first, allowed, most, true);
        let all = behind.into_iter().enumerate().zip(online);
        all.filter(|&(_, is_online)| is_online).map(|(slot, _)| slot).collect()
    }

    #[test]
    fn a_slot_keeps_its_cpu_as_long_as_the_process_may_run_there() {
        assert_eq!(online(&[0, 1], &[0, 1, 2, 3], 9), [(0, 0), (1, 1)]);
        assert_eq!(online(&[0, 1], &[1], 9), [(1, 1)]);
        assert_eq!(online(&[0, 1], &[1, 3], 9), [(0, 3), (1, 1)]);
        assert_eq!(online(&[0, 1], &[2, 3], 9), [(0, 2), (1, 3)]);
        assert_eq!(online(&[0, 1], &[3], 9), [(0, 3)]);
    }

    #[test]
    fn no_more_slots_are_online_than_asked_for_and_at_least_one() {
        assert_eq!(online(&[0, 1, 2], &[0, 1, 2], 2), [(0, 0), (1, 1)]);
        assert_eq!(online(&[0, 1, 2], &[1, 2], 1), [(1, 1)]);
        assert_eq!(online(&[0, 1, 2], &[0, 1, 2], 0), [(0, 0)]);
    }

    #[test]
    fn slots_that_share_cores_have_no_stand_ins() {
        assert_eq!(plan(&[0, 4, 1, 5], &[0, 4, 2, 6], 9, false).online, [true, true, false, false]);
        let alone = plan(&[0, 4], &[2, 6], 9, false);
        assert_eq!(alone, Plan { behind: vec![2, 4], online: vec![true, false] });
    }

    #[cfg(all(target_os = "linux", not(runyard_portable)))]
    mod masks {
        use super::*;

        fn uses(behind: &[usize], everywhere: &[usize]) -> Uses {
            let everywhere = Mask::of(everywhere.iter().copied());
            Uses { behind: behind.to_vec(), everywhere }
        }

        fn mask(cpus: &[usize]) -> Mask {
            Mask::of(cpus.iter().copied())
        }

        #[test]
        fn an_affinity_acts_within_the_cpus_of_the_process_or_not_at_all() {
            let uses = uses(&[0, 1, 2], &[1, 2, 7]);
            let task: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
            assert_eq!(uses.mask(Given::Task(&task)), (mask(&[1]), false));
            assert_eq!(uses.mask(Given::Slot(CpuId(0))), (mask(&[1, 2, 7]), true));
            assert_eq!(uses.mask(Given::Everywhere), (mask(&[1, 2, 7]), false));
        }

        #[test]
        fn a_mask_that_neither_the_runtime_nor_the_process_has_is_of_one_thread_only() {
            let (before, after) = (uses(&[0, 1], &[0, 1, 2, 3]), uses(&[3, 1], &[1, 2, 3]));
            let task: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
            let is_ours = |cpus: &[usize]| before.explains(Given::Task(&task), &after, &mask(cpus));
            // As before, narrowed by a cpuset, set by `taskset`, and as after.
            for ours in [&[0, 1][..], &[1], &[1, 2, 3], &[1, 3], &[0, 1, 2, 3]] {
                assert!(is_ours(ours), "{ours:?}");
            }
            assert!(!is_ours(&[2]) && !is_ours(&[0]) && !is_ours(&[2, 3]));
        }
    }
}
