//! The laps of a run on real CPUs, as its tasks note them.
//!
//! The notes of a task have a lock of their own, which no other task takes while the run lasts. So a task that is
//! preempted with its lock delays no other task.

use super::rounds::{END, PARENT, PREPARE, RELEASE, ROUNDS, START};
use crate::lap::{Lap, Round};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::cpu_time;
use runyard_hosts::machine;
use runyard_hosts::play::Watch;
use runyard_hosts::sync::{Mutex, lock};

/// A watcher that notes the laps.
#[derive(Debug)]
pub(super) struct Watched {
    parent: Mutex<Releases>,
    threads: Vec<Mutex<Vec<Spin>>>,
}

/// The notes of the parent.
#[derive(Debug, Default)]
struct Releases {
    released: Vec<Time>,
    /// The time that the machine had taken when each round was prepared.
    taken: Vec<Nanos>,
}

/// The notes of a thread in a round: instants, and its CPU time. Until the end this is the CPU time at the start.
#[derive(Clone, Copy, Debug)]
struct Spin {
    start: Time,
    end: Time,
    work: Nanos,
    /// The time that the machine had taken at the start. The kernel counts a wait when it ends; that of the thread's
    /// worker has ended by then.
    taken: Nanos,
}

impl Watched {
    pub(super) fn new(threads: usize) -> Watched {
        let spins = || Mutex::new(Vec::with_capacity(ROUNDS as usize));
        Watched { parent: Mutex::default(), threads: (0..threads).map(|_| spins()).collect() }
    }

    /// The rounds.
    pub(super) fn rounds(&self) -> Vec<Round> {
        let parent = lock(&self.parent);
        let threads: Vec<_> = self.threads.iter().map(lock).collect();
        let round = |(nth, (&released, &taken)): (usize, (&Time, &Nanos))| {
            let lap = |spins: &Vec<Spin>| {
                let Spin { start, end, work, taken: at_start } = spins[nth];
                let kept = at_start.saturating_sub(taken);
                Lap { start: start.since(released), end: end.since(released), work, kept }
            };
            threads.iter().map(|spins| lap(spins)).collect()
        };
        parent.released.iter().zip(&parent.taken).enumerate().map(round).collect()
    }

    fn parent(&self, step: usize, now: Time) {
        let mut parent = lock(&self.parent);
        match step {
            PREPARE => parent.taken.push(machine::taken()),
            RELEASE => parent.released.push(now),
            _ => {}
        }
    }
}

impl Watch for Watched {
    fn step(&self, task: TaskId, step: usize, now: Time) {
        if task == PARENT {
            return self.parent(step, now);
        }
        let mut spins = lock(&self.threads[task.index() - 1]);
        match step {
            START => {
                let (work, taken) = (cpu_time(), machine::taken());
                spins.push(Spin { start: now, end: now, work, taken });
            }
            END => {
                if let Some(spin) = spins.last_mut() {
                    (spin.end, spin.work) = (now, cpu_time().saturating_sub(spin.work));
                }
            }
            _ => {}
        }
    }
}
