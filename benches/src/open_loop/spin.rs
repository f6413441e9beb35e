//! Service time: so many steps of a computation, not so much time on a clock. A request that is
//! stopped, by whomever, has the same steps to do afterwards.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use super::CPUS;
use runyard_engine::time::Nanos;

/// One measurement: long beside a look at the clock, short beside the time between two events
/// that disturb it, so that most are undisturbed even on a CPU that is shared.
const CHUNK: u64 = 10_000;

/// How long all CPUs are measured; the first half warms them up.
const CALIBRATION: Duration = Duration::from_millis(400);

/// How fast this machine computes while all of its CPUs do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    pub(crate) steps_per_us: f64,
}

impl Spin {
    /// Measures the machine: the median over short measurements on all CPUs at once, since CPUs
    /// may share what they compute with, and at a load of 1 they do.
    pub(crate) fn calibrate() -> Spin {
        let mut chunks: Vec<_> = thread::scope(|scope| {
            let measuring: Vec<_> = (0..CPUS).map(|_| scope.spawn(measure)).collect();
            let joined = measuring.into_iter().map(|thread| thread.join().expect("it computes"));
            joined.flatten().collect()
        });
        let middle = chunks.len() / 2;
        let (_, median, _) = chunks.select_nth_unstable(middle);
        Spin { steps_per_us: CHUNK as f64 / median.as_nanos() as f64 * 1e3 }
    }

    /// Computes for so long, if it is not stopped meanwhile.
    pub(crate) fn compute(self, service: Nanos) {
        steps(self.steps_of(service));
    }

    fn steps_of(self, service: Nanos) -> u64 {
        (service.0 as f64 * self.steps_per_us / 1e3) as u64
    }
}

fn measure() -> Vec<Duration> {
    let begin = Instant::now();
    let mut chunks = Vec::new();
    while begin.elapsed() < CALIBRATION {
        let chunk = Instant::now();
        steps(CHUNK);
        chunks.push(chunk.elapsed());
    }
    chunks.split_off(chunks.len() / 2)
}

/// Each step needs the result of the last.
fn steps(count: u64) {
    black_box((0..count).fold(1, |hash, step| (hash ^ step).wrapping_mul(0x5bd1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_time_is_a_number_of_steps() {
        let spin = Spin { steps_per_us: 512.5 };
        assert_eq!(spin.steps_of(Nanos::from_micros(50)), 25_625);
        assert_eq!(spin.steps_of(Nanos::from_micros(100)), 51_250);
        assert_eq!(spin.steps_of(Nanos(0)), 0);
    }

    #[test]
    fn a_measured_machine_computes() {
        let Spin { steps_per_us } = Spin::calibrate();
        assert!(steps_per_us.is_finite() && steps_per_us > 0.0, "{steps_per_us}");
    }
}
