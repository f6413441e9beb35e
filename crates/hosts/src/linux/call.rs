//! Long system calls for `kernel` events: reads of random numbers, which the kernel computes in the call.
//!
//! One read of many takes as long as its number of bytes says, whatever the machine's memory does, and needs no
//! privilege. It is not a call of the simulator's kind. A kernel without preemption looks for another task after each
//! page of such a read (`get_random_bytes_user` in `drivers/char/random.c`), some 10 us, under `none` as well as under
//! `voluntary`. The simulator's call has no such point under `none`, and one every 100 us under `voluntary`. A call
//! without any point that every user may make was not found.

use crate::clock::cpu_time;
use crate::sync::OnceLock;
use runyard_engine::time::Nanos;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read as _};

/// The device that computes.
const DEVICE: &str = "/dev/urandom";

/// The number of bytes of the read that measures how fast the kernel is: 2 to 4 ms.
const MEASURED: usize = 1 << 20;

/// The largest number of bytes of one read, which bounds a thread's buffer: 8 to 16 ms. Longer events take several.
const LARGEST: usize = 4 << 20;

/// The device, with the nanoseconds that [`MEASURED`] bytes take.
static SOURCE: OnceLock<Result<(File, u64), String>> = OnceLock::new();

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Opens the device and measures it, before a run that needs it. Returns the reason if that fails.
pub(super) fn prepare() -> Result<(), String> {
    let source = SOURCE.get_or_init(|| measure().map_err(|error| format!("{DEVICE}: {error}")));
    source.as_ref().map(|_| ()).map_err(String::clone)
}

fn measure() -> io::Result<(File, u64)> {
    let mut device = File::open(DEVICE)?;
    let mut bytes = vec![0; MEASURED];
    device.read_exact(&mut bytes)?;
    let began = cpu_time();
    device.read_exact(&mut bytes)?;
    Ok((device, cpu_time().saturating_sub(began).0.max(1)))
}

/// Makes the calling thread work in the kernel for `span`. Returns the CPU time that it used, or `None` if
/// [`prepare`] failed or was not called.
pub(super) fn work(span: Nanos) -> Option<Nanos> {
    let (device, nanos) = SOURCE.get()?.as_ref().ok()?;
    BUFFER.with_borrow_mut(|buffer| {
        let began = cpu_time();
        loop {
            let worked = cpu_time().saturating_sub(began);
            let left = span.saturating_sub(worked);
            if left == Nanos::ZERO {
                return Some(worked);
            }
            let bytes = u128::from(left.0) * MEASURED as u128 / u128::from(*nanos);
            let bytes = usize::try_from(bytes).unwrap_or(LARGEST).clamp(1, LARGEST);
            buffer.resize(buffer.len().max(bytes), 0);
            // A signal may end a read early; the rest follows.
            let mut device = device;
            if device.read(&mut buffer[..bytes]).ok()? == 0 {
                return None;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call may take longer than it was measured: another guest of the host, or an interrupt. Not each of many does.
    #[test]
    fn a_call_takes_the_time_that_is_asked_for() {
        prepare().unwrap();
        work(Nanos::from_millis(1));
        let call = |_| {
            let began = cpu_time();
            let worked = work(Nanos::from_millis(5)).unwrap();
            let used = cpu_time().saturating_sub(began);
            assert!(worked >= Nanos::from_millis(5) && used >= worked, "{worked:?} of {used:?}");
            used
        };
        let is_short = |used| used < Nanos::from_millis(15);
        assert!((0..100).map(call).any(is_short), "each of 100 calls took 15 ms and more");
    }
}
