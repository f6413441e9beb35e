//! Whether a run had the machine to itself.

use crate::clock::process_cpu_time;
use crate::machine::Stat;
use runyard_engine::time::Nanos;
use std::time::Instant;

/// How much of the machine's CPU time others may take, and the machine's host, in parts of a thousand each.
const MOST: u64 = 10;

/// The beginning of a run.
pub(super) struct Watch {
    began: Instant,
    own: Nanos,
    stat: Stat,
}

/// Who had the CPUs during a run, in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Disturbed {
    /// Other processes, the kernel's own work and idle loops among them.
    pub(super) others: u64,
    /// The host of a virtual machine.
    pub(super) stolen: u64,
}

impl Watch {
    pub(super) fn begin() -> Watch {
        Watch { began: Instant::now(), own: process_cpu_time(), stat: Stat::now() }
    }

    /// Who disturbed the run, if it was more than may be.
    pub(super) fn end(self) -> Option<Disturbed> {
        let now = Stat::now();
        let own = process_cpu_time().saturating_sub(self.own);
        let wall = Nanos(self.began.elapsed().as_nanos() as u64);
        let disturbed = Disturbed::by(self.stat, now, own, wall);
        (disturbed.others.max(disturbed.stolen) > MOST).then_some(disturbed)
    }
}

impl Disturbed {
    /// The kernel samples who runs and measures who idles, so others have what nobody is known to have.
    fn by(then: Stat, now: Stat, own: Nanos, wall: Nanos) -> Disturbed {
        let all = (wall.0 * now.cpus).max(1);
        let idle = now.idle.saturating_sub(then.idle);
        let stolen = now.stolen.saturating_sub(then.stolen);
        let others = Nanos(all).saturating_sub(idle + stolen + own);
        Disturbed { others: others.0 * 1_000 / all, stolen: stolen.0 * 1_000 / all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_nobody_is_known_to_have() {
        let then = Stat::read("cpu  10 0 5 100 20 0 0 3 9 9\ncpu0 1\ncpu1 2\nintr 7\n");
        let of = |idle, stolen| Stat {
            cpus: 2,
            idle: Nanos::from_millis(idle),
            stolen: Nanos::from_millis(stolen),
        };
        assert_eq!(then, of(1_200, 30));
        // A second of two CPUs: 1,200 ms idle, 20 stolen, 740 the run's own, which leaves 40.
        let now = of(2_400, 50);
        let by = Disturbed::by(then, now, Nanos::from_millis(740), Nanos::from_secs(1));
        assert_eq!(by, Disturbed { others: 20, stolen: 10 });
    }
}
