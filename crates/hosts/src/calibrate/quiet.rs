//! Whether a run had the machine to itself.

use crate::clock::process_cpu_time;
use crate::stat::Stat;
use runyard_engine::time::Nanos;
use std::time::Instant;

/// The largest share of the machine's CPU time that other processes may take, and likewise the machine's host, in parts
/// of a thousand.
const MOST: u64 = 10;

/// The beginning of a run.
pub(super) struct Watch {
    began: Instant,
    own: Nanos,
    stat: Stat,
}

/// The use of the CPUs by others during a run, in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Disturbed {
    /// Other processes; this includes the kernel's own work and idle loops.
    pub(super) others: u64,
    /// The host of a virtual machine.
    pub(super) stolen: u64,
}

impl Watch {
    pub(super) fn begin() -> Watch {
        Watch { began: Instant::now(), own: process_cpu_time(), stat: Stat::now(None) }
    }

    /// The disturbance of the run, if it exceeds the limit.
    pub(super) fn end(self) -> Option<Disturbed> {
        let now = Stat::now(None);
        let own = process_cpu_time().saturating_sub(self.own);
        let wall = Nanos::from(self.began.elapsed());
        let disturbed = Disturbed::by(self.stat, now, own, wall);
        (disturbed.others.max(disturbed.stolen) > MOST).then_some(disturbed)
    }
}

impl Disturbed {
    /// The kernel samples the running thread and measures idle time, so the share of others is the rest.
    fn by(then: Stat, now: Stat, own: Nanos, wall: Nanos) -> Disturbed {
        let all = (wall.0 * now.cpus).max(1);
        let idle = Nanos(now.idle_ns.saturating_sub(then.idle_ns));
        let stolen = Nanos(now.stolen_ns.saturating_sub(then.stolen_ns));
        let others = Nanos(all).saturating_sub(idle + stolen + own);
        Disturbed { others: others.0 * 1_000 / all, stolen: stolen.0 * 1_000 / all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_nobody_is_known_to_have() {
        let then = Stat::read("cpu  10 0 5 100 20 0 0 3 9 9\ncpu0 1\ncpu1 2\nintr 7\n", None);
        let of = |idle, stolen| Stat {
            cpus: 2,
            idle_ns: Nanos::from_millis(idle).0,
            stolen_ns: Nanos::from_millis(stolen).0,
        };
        assert_eq!(then, of(1_200, 30));
        // One second of two CPUs: 1,200 ms idle, 20 stolen, 740 for the run itself, which leaves 40.
        let now = of(2_400, 50);
        let by = Disturbed::by(then, now, Nanos::from_millis(740), Nanos::from_secs(1));
        assert_eq!(by, Disturbed { others: 20, stolen: 10 });
    }
}
