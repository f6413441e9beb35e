//! Service time as a number of computation steps, not as a span on a clock. A preempted request has the same steps left
//! when it resumes.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use super::CPUS;
use runyard_engine::time::Nanos;

/// Steps of one measurement. It is long compared with a clock read. It is short compared with the time between two
/// disturbances, so that most measurements are undisturbed even on a shared CPU.
const CHUNK: u64 = 10_000;

/// Length of the measurement of all CPUs; the first half warms them up.
const CALIBRATION: Duration = Duration::from_millis(400);

/// Computing speed of this machine while all of its CPUs compute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    pub(crate) steps_per_us: f64,
}

impl Spin {
    /// Measures the machine: the median of short measurements on all CPUs at once, because CPUs may share execution
    /// units, as they do at a load of 1.
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

    /// Computes for `service`, if the thread is not preempted meanwhile.
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

/// Computes `count` steps, each of which depends on the last.
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
