//! The siege: a mode for tests that stops tasks at random instants.
//!
//! A thread of the runtime asks each slot to schedule every 20 to 200 us. Mostly the running task is SCHED_IDLE until
//! the next request, so that any other task goes before it. The thread also gives live tasks another policy, latency
//! nice or affinity; some time later each has its user's setting again. A seed determines the random numbers, slot by
//! slot; their effect depends on the threads.
//!
//! The thread does only actions that any thread may do: it rings a slot's bell, and leaves a request in a task's
//! control cell. Like the keeper it allocates nothing, and takes no locks but the runtime's. If it has the last
//! reference to a cell, it frees the cell with none of these locks held.
//!
//! Accepted: a task that had CPUs of its own has all of them after the siege has changed it. Only the task's queue
//! knows them.

use crate::crew::kick::ring;
use crate::os;
use crate::os::sync::{Arc, AtomicU32, lock};
use crate::registry::Registry;
use crate::shared::Scheduler;
use crate::task::Cell;
use runyard_engine::attr::{LatencyNice, Nice, Policy, RtPrio};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::task::{Change, TaskId};
use runyard_engine::time::{Nanos, Time};

/// The shortest time between two requests to one slot: far less than any slice, and a few times the cost of a handover.
const SHORTEST: Nanos = Nanos::from_micros(20);
const LONGEST: Nanos = Nanos::from_micros(200);

/// The shortest time for which a task's setting is changed: long enough that other tasks run before it, and much less
/// than the 0.95 s after which real-time tasks are throttled.
const SHORTEST_CHANGE: Nanos = Nanos::from_micros(50);
const LONGEST_CHANGE: Nanos = Nanos::from_millis(3);

/// The number of tasks that are changed at a time.
const CHANGED: usize = 16;

/// A random number generator of its own, since users of the runtime should build no crate for a mode of its tests: a
/// linear congruence, of which the upper half is used. Its multiplier is Knuth's for 64 bits.
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn new(seed: u64, nth: u64) -> Draws {
        let mut draws = Draws(seed ^ nth << 32);
        // Near seeds should give states that differ in all bits.
        (0..4).for_each(|_| draws.0 = draws.word() << 32 | draws.word());
        draws
    }

    /// Returns 32 random bits.
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 32
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    fn span(&mut self, shortest: Nanos, longest: Nanos) -> Nanos {
        Nanos(shortest.0 + self.below(longest.0 - shortest.0))
    }

    /// Returns a value in `lowest..=highest`.
    fn value(&mut self, lowest: i64, highest: i64) -> i64 {
        lowest + self.below((highest - lowest + 1) as u64) as i64
    }

    fn policy(&mut self) -> Policy {
        let prio = RtPrio::new(self.value(1, 99)).expect("in 1..=99");
        let nice = Nice::new(self.value(-20, 19)).expect("in -20..=19");
        match self.below(8) {
            0 => Policy::Fifo(prio),
            1 => Policy::RoundRobin(prio),
            2 => Policy::Batch(nice),
            3..6 => Policy::Normal(nice),
            _ => Policy::Idle,
        }
    }

    fn latency_nice(&mut self) -> LatencyNice {
        LatencyNice::new(self.value(-20, 19)).expect("in -20..=19")
    }
}

/// The requests to one slot.
#[derive(Debug)]
struct Front {
    cpu: CpuId,
    draws: Draws,
    due: Time,
    /// The task that was stopped there last, and is SCHED_IDLE since then.
    stopped: Option<Changed>,
    /// The set of this CPU alone, made before tasks run.
    only: CpuSet,
}

/// A task whose setting differs from its user's.
#[derive(Clone, Copy, Debug)]
struct Changed {
    place: u64,
    task: TaskId,
}

struct Siege<'a> {
    scheduler: &'a Scheduler,
    registry: &'a Registry,
    fronts: Vec<Front>,
    /// The changed tasks, each with the time of its restoration.
    changed: [Option<(Changed, Time)>; CHANGED],
}

/// Runs the thread of the siege.
pub(crate) fn run(scheduler: &Scheduler, registry: &Registry) {
    os::signal::listen_to_nothing();
    let mut siege = Siege::new(scheduler, registry);
    let bed = AtomicU32::new(0);
    while !scheduler.crew().is_over() {
        let next = siege.advance(os::thread::now());
        os::thread::exactly(|| os::futex::wait(&bed, 0, Some(next)));
    }
}

impl<'a> Siege<'a> {
    fn new(scheduler: &'a Scheduler, registry: &'a Registry) -> Siege<'a> {
        let seed =
            scheduler.crew().preemption().siege.expect("the thread is there if there is a seed");
        let front = |cpu: CpuId| Front {
            cpu,
            draws: Draws::new(seed, cpu.0.into()),
            due: Time::ZERO,
            stopped: None,
            only: CpuSet::only(cpu),
        };
        let fronts = scheduler.machine().config().topology.iter().map(front).collect();
        Siege { scheduler, registry, fronts, changed: [None; CHANGED] }
    }

    /// Makes the changes that are due. Returns the time of the next one.
    fn advance(&mut self, now: Time) -> Time {
        for nth in 0..self.fronts.len() {
            if self.fronts[nth].due <= now {
                self.disturb(now, nth);
                self.stop(nth);
                let front = &mut self.fronts[nth];
                front.due = now + front.draws.span(SHORTEST, LONGEST);
            }
        }
        for nth in 0..CHANGED {
            if let Some((changed, _)) = self.changed[nth].take_if(|(_, until)| *until <= now) {
                self.give_back(changed);
            }
        }
        let fronts = self.fronts.iter().map(|front| front.due);
        let changed = self.changed.iter().flatten().map(|(_, until)| *until);
        fronts.chain(changed).min().expect("a runtime has a CPU")
    }

    /// Stops the task that runs on a CPU, and puts it behind all others three times of four.
    fn stop(&mut self, nth: usize) {
        let Front { cpu, draws, stopped, .. } = &mut self.fronts[nth];
        let (cpu, last, is_demoted) = (*cpu, stopped.take(), draws.below(4) > 0);
        last.into_iter().for_each(|changed| self.give_back(changed));
        if is_demoted && let Some(place) = self.place_of_running(cpu) {
            let idle = Change { policy: Some(Policy::Idle), ..Change::default() };
            self.fronts[nth].stopped = self.change(place, idle);
        }
        ring(self.scheduler, cpu);
    }

    /// Requests another setting for a task, now and then.
    fn disturb(&mut self, now: Time, nth: usize) {
        let draws = &mut self.fronts[nth].draws;
        let (is_asked, which) = (draws.below(4) == 0, draws.word() << 32 | draws.word());
        let until = now + draws.span(SHORTEST_CHANGE, LONGEST_CHANGE);
        let change = self.draw_change(nth);
        let free = self.changed.iter().position(Option::is_none).filter(|_| is_asked);
        if let Some(free) = free
            && let Some(place) = self.registry.some_place(which)
        {
            self.changed[free] = self.change(place, change).map(|changed| (changed, until));
        }
    }

    fn change(&self, place: u64, change: Change) -> Option<Changed> {
        let cell = self.registry.cell_at(place)?;
        self.scheduler.change(&cell, change);
        Some(Changed { place, task: cell.id })
    }

    fn draw_change(&mut self, nth: usize) -> Change {
        let nr_cpus = self.fronts.len() as u64;
        let draws = &mut self.fronts[nth].draws;
        let (what, policy, latency_nice) = (draws.below(4), draws.policy(), draws.latency_nice());
        let cpu = draws.below(nr_cpus) as usize;
        let nothing = Change::default();
        match what {
            0 => Change { affinity: Some(self.fronts[cpu].only.clone()), ..nothing },
            1 => Change { latency_nice: Some(latency_nice), ..nothing },
            _ => Change { policy: Some(policy), ..nothing },
        }
    }

    fn place_of_running(&self, cpu: CpuId) -> Option<u64> {
        let owner =
            self.scheduler.crew().threads().worker(self.scheduler.crew().slot(cpu).owner())?;
        owner.poll.place()
    }

    fn give_back(&self, changed: Changed) {
        let is_it = |cell: &Arc<Cell>| cell.id == changed.task;
        if let Some(cell) = self.registry.cell_at(changed.place).filter(is_it) {
            let asked = *lock(&cell.asked);
            let change = Change {
                policy: Some(asked.policy),
                latency_nice: Some(asked.latency_nice),
                affinity: Some(self.scheduler.all(self.registry).clone()),
                ..Change::default()
            };
            self.scheduler.change(&cell, change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::sync::{AtomicU64, Ordering};
    use crate::{Builder, Observer, Runtime};
    use runyard_engine::event::{Event, Left, What};
    use std::time::{Duration, Instant};

    #[test]
    fn a_seed_fixes_what_is_drawn() {
        let first = |seed, nth| {
            let mut draws = Draws::new(seed, nth);
            [(); 4].map(|()| (draws.word(), draws.policy(), draws.span(SHORTEST, LONGEST)))
        };
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(2, 0));
        assert_ne!(first(1, 0), first(1, 1));
    }

    /// Counts how often a task was stopped in the middle of a poll.
    #[derive(Debug, Default)]
    struct Stops(AtomicU64);

    impl Observer for Stops {
        fn event(&self, event: &Event) {
            if let What::Switch { prev: Some((_, Left::Preempted)), .. } = event.what {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns how often polls that take at least 300 ms are stopped, on one CPU.
    fn stops(builder: Builder) -> (u64, Runtime) {
        let stops = Arc::new(Stops::default());
        let runtime = builder.workers(1).observer(stops.clone()).build();
        let until = Instant::now() + Duration::from_millis(300);
        let poll = || async move {
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        };
        let polls: Vec<_> = (0..4).map(|_| runtime.spawn(poll())).collect();
        runtime.block_on(async {
            for poll in polls {
                poll.await.unwrap();
            }
        });
        (stops.0.load(Ordering::Relaxed), runtime)
    }

    #[test]
    fn polls_are_stopped_far_more_often_and_the_picture_shows_where() {
        // It is ten times as often on a quiet machine; where other processes have the CPU, neither gets far.
        let mut tries = (0..20).map(|_| {
            let ((besieged, _), (peaceful, _)) =
                (stops(Runtime::builder().siege(7)), stops(Runtime::builder()));
            besieged > 3 * peaceful
        });
        assert!(tries.any(|is_far_more| is_far_more), "never three times as often");
        let (_, besieged) = stops(Runtime::builder().siege(7));
        let mut picture = String::new();
        besieged.picture(&mut picture).unwrap();
        assert!(picture.contains("cpu 0: owner") && picture.contains("worker 0: "), "{picture}");
    }
}
