//! What the process may use of the machine, which others change while the runtime runs: the CPUs (by `taskset` or a
//! cpuset) and the quota of CPU time of its control groups.
//!
//! The maker looks each second, as it wakes at least that often anyway. It is a thread that the runtime never binds, so its
//! mask is that of the process. If something has changed, it does four things:
//!
//! - Each slot gets a CPU where the process may run, and the threads of workers are bound within these CPUs
//!   ([`crate::crew::host_cpus`]).
//! - A slot without a CPU, or beyond the quota, goes offline in the machine: its tasks move to other CPUs, and its worker
//!   sleeps. A slot that may run again comes online.
//! - Tasks whose affinity was lost, because all their CPUs were offline, get it again.
//! - The capacity follows, and with it the limits that are parts of it.
//!
//! The design is in docs/design/neighbours.md.

use super::Shared;
use crate::crew::kick::{KickNow, ring};
use crate::group::limit;
use crate::group::quota::{Quota, Quotas, whole_cpus};
use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, lock};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::Change;
use runyard_engine::time::{Nanos, Time};

/// The shortest time between two looks. The maker wakes each 100 ms, or each second while no task runs: with a whole
/// second, its looks would be up to two seconds apart.
const EVERY: Nanos = Nanos::from_millis(900);

/// What the process may use, as seen last.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The number of workers that the program asked for, which the quota does not change.
    asked: Option<usize>,
    quotas: Quotas,
    quota: Option<Quota>,
    /// The CPUs where the process may run; none before the first look.
    allowed: Vec<usize>,
    looked: Time,
}

impl Outside {
    /// Reads the quota. The program asks for so many workers, if it asks for a number.
    pub(crate) fn new(asked: Option<usize>) -> Outside {
        let mut outside = Outside::none(asked);
        outside.quota = outside.quotas.read();
        outside
    }

    /// For a runtime in virtual time, which has no quota.
    pub(crate) fn none(asked: Option<usize>) -> Outside {
        let quotas = Quotas::default();
        Outside { asked, quotas, quota: None, allowed: Vec::new(), looked: Time::ZERO }
    }

    /// Returns the most workers that are of use, at least one: as many as the program asked for, or as there are whole
    /// CPUs in the quota.
    pub(crate) fn most_workers(&self) -> usize {
        self.asked.unwrap_or_else(|| whole_cpus(self.quota.as_ref())).max(1)
    }

    /// Returns the CPU time in a second of a runtime in which so many CPUs run tasks.
    pub(crate) fn capacity(&self, cpus: usize) -> Nanos {
        limit::capacity(cpus, self.quota.as_ref().map(Quota::in_a_second))
    }

    /// Returns the quota, for reports.
    pub(crate) fn quota(&self) -> Option<Arc<Quota>> {
        self.quota.clone().map(Arc::new)
    }

    /// Looks, if that is due. Returns whether something has changed since the last look.
    fn look(&mut self, now: Time) -> bool {
        if now.since(self.looked) < EVERY {
            return false;
        }
        self.looked = now;
        let quota = self.quotas.read();
        let mut allowed = os::thread::allowed_cpus();
        if allowed.is_empty() {
            // The system does not say.
            allowed.clone_from(&self.allowed);
        }
        let has_changed = quota != self.quota || allowed != self.allowed;
        (self.quota, self.allowed) = (quota, allowed);
        has_changed
    }
}

impl Shared {
    /// Follows what the process may use, once a second. Called by the maker.
    pub(crate) fn follow_outside(&self) {
        let mut outside = lock(&self.outside);
        if !outside.look(os::thread::now()) || self.registry.is_closed() {
            return;
        }
        let quota = outside.quota();
        // The quota before is freed without the lock.
        let _before = std::mem::replace(&mut *lock(&self.bounds.quota), quota);
        let (cpus, most) = (self.scheduler.crew().cpus(), outside.most_workers());
        if outside.allowed.is_empty() {
            // On this system only the quota is known.
            let nr = self.bounds.capacity.get().1;
            return self.set_capacity(outside.capacity(nr), nr);
        }
        let plan = cpus.plan(&outside.allowed, most);
        let adopted = cpus.adopt(&plan, &outside.allowed);
        let workers = self.scheduler.crew().threads().workers();
        workers.for_each(|worker| worker.thread.renew_binding(&adopted));
        if self.set_online(&plan.online) {
            self.renew_affinities();
        }
        let nr = plan.online.iter().filter(|&&is_online| is_online).count();
        self.set_capacity(outside.capacity(nr), nr);
    }

    /// Makes these slots run tasks, and no others. Returns whether slots came online.
    fn set_online(&self, online: &[bool]) -> bool {
        let (machine, now) = (self.scheduler.machine(), os::thread::now());
        let all = || online.iter().enumerate().map(|(nth, &is)| (CpuId::at(nth), is));
        let changed = || all().filter(|&(cpu, is)| machine.sight().is_online(cpu) != is);
        let come: Vec<_> = changed().filter(|&(_, is)| is).collect();
        // First these: a machine must keep a CPU online.
        for &(cpu, _) in &come {
            machine.online(now, cpu, &mut KickNow(&self.scheduler));
        }
        for (cpu, _) in changed() {
            machine.offline(now, cpu, &mut KickNow(&self.scheduler));
            // Newcomers that wait there, outside of the run queue, are given away by the owner.
            ring(&self.scheduler, cpu);
        }
        !come.is_empty()
    }

    /// Restricts tasks to their CPUs again. The machine lets a task run anywhere as long as all its CPUs are offline.
    fn renew_affinities(&self) {
        for cell in self.registry.cells().filter(|cell| cell.has_affinity()) {
            let mut asked = without_preemption(|| cell.affinity());
            while let Some(affinity) = asked {
                let change = Change { affinity: Some(affinity.clone()), ..Change::default() };
                self.scheduler.change(&cell, change);
                // Another thread may ask for other CPUs meanwhile: it notes them before it makes its request. If they
                // are the same as before, its request comes last.
                asked = without_preemption(|| cell.affinity()).filter(|now| *now != affinity);
            }
        }
    }

    fn set_capacity(&self, in_a_second: Nanos, cpus: usize) {
        if self.bounds.capacity.get() != (in_a_second, cpus) {
            self.bounds.capacity.set((in_a_second, cpus));
            self.observation.groups.all().iter().for_each(|group| group.follow_capacity());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Shared;
    use crate::os::sync::{Arc, lock};
    use crate::{Runtime, Task, spawn, time, yield_now};
    use runyard_engine::time::Time;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// The time for which slots leave and return.
    const FLIPS_FOR: Duration = Duration::from_millis(2_000);

    /// Waits until the maker has looked for the first time: that brings all slots online.
    fn until_looked(shared: &Shared) {
        while lock(&shared.outside).looked == Time::ZERO {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tells tasks to end, also when a test fails: the end of their runtime waits for them.
    struct Ends(Arc<AtomicBool>);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Yields, spawns and awaits, sleeps, and computes for a while without an await, until it is told to end.
    async fn lives(nth: usize, over: Arc<AtomicBool>, nr_steps: Arc<AtomicUsize>) {
        while !over.load(Ordering::Relaxed) {
            for _ in 0..nth % 7 {
                yield_now().await;
            }
            let child = spawn(async move {
                yield_now().await;
                nth
            });
            assert_eq!(child.await.unwrap(), nth);
            let end = Instant::now() + Duration::from_micros(700 * (nth as u64 % 4));
            while Instant::now() < end {}
            time::sleep(Duration::from_micros(100 * (nth as u64 % 5))).await;
            nr_steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn no_task_is_lost_while_slots_leave_and_return() {
        let runtime = Runtime::builder().workers(4).build();
        let shared = runtime.handle().shared.clone();
        let slots = shared.scheduler.crew().slots().len();
        if slots < 2 {
            eprintln!("not tried: it takes two CPUs");
            return;
        }
        until_looked(&shared);
        let (over, nr_steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let ends = Ends(over.clone());
        let start = |nth: usize| {
            let task = match nth % 6 {
                0 => Task::builder().fifo(9),
                1 => Task::builder().affinity([nth % slots]),
                _ => Task::builder(),
            };
            let life = lives(nth, over.clone(), nr_steps.clone());
            task.spawn_on(life, runtime.handle())
        };
        let tasks: Vec<_> = (0..24).map(start).collect();
        let sight = shared.scheduler.machine().sight();
        let (began, mut nr_flips) = (Instant::now(), 0_usize);
        while began.elapsed() < FLIPS_FOR {
            nr_flips += 1;
            // Each pattern but the one without a slot, in an order that repeats late.
            let pattern = 1 + (nr_flips * 7) % ((1 << slots) - 1);
            let online: Vec<_> = (0..slots).map(|slot| pattern >> slot & 1 == 1).collect();
            if shared.set_online(&online) {
                shared.renew_affinities();
            }
            let is = |slot| sight.is_online(runyard_engine::cpu::CpuId::at(slot));
            assert!((0..slots).all(|slot| is(slot) == online[slot]));
            thread::sleep(Duration::from_micros(300 * (nr_flips as u64 % 8)));
        }
        shared.set_online(&vec![true; slots]);
        shared.renew_affinities();
        drop(ends);
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert!(nr_steps.load(Ordering::Relaxed) > 24, "they went on: {nr_steps:?}, {nr_flips}");
    }

    #[test]
    fn an_affinity_holds_again_when_its_cpus_have_returned() {
        let runtime = Runtime::builder().workers(2).build();
        let shared = runtime.handle().shared.clone();
        if shared.scheduler.crew().slots().len() < 2 {
            eprintln!("not tried: it takes two CPUs");
            return;
        }
        let cpu_of = |runtime: &Runtime| {
            let running = runtime.snapshot().cpus.into_iter().find(|cpu| cpu.running.is_some());
            running.map(|cpu| cpu.cpu)
        };
        until_looked(&shared);
        let over = Arc::new(AtomicBool::new(false));
        let (told, ends) = (over.clone(), Ends(over));
        let computes = Task::builder().affinity([1]).spawn_on(
            async move {
                while !told.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            },
            runtime.handle(),
        );
        let runs_on = |cpu: usize| {
            let end = Instant::now() + Duration::from_secs(20);
            while cpu_of(&runtime) != Some(cpu) {
                assert!(Instant::now() < end, "it runs on CPU {cpu}");
                thread::sleep(Duration::from_millis(1));
            }
        };
        runs_on(1);
        shared.set_online(&[true, false]);
        runs_on(0);
        assert!(shared.set_online(&[true, true]));
        shared.renew_affinities();
        runs_on(1);
        drop(ends);
        runtime.block_on(computes).unwrap();
    }
}
