//! The longest time that an idle CPU may take to wake up: a request to the kernel's CPU latency QoS, a part of PM QoS.
//!
//! A deeper idle state saves more energy and takes longer to leave. In a virtual machine even the first idle state is
//! an exit to the host, which may have given the CPU to another guest. The kernel obeys the lowest latency requested by
//! any process, on all CPUs of the machine, while the file of the request is open. So a request is that file, and ends
//! with the process at the latest.
//!
//! (Rejected: `pm_qos_resume_latency_us` in `/sys`, one file per CPU. It would spare the other CPUs, but keeps its
//! value when a process is killed.)

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The device that takes requests.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Requests that, while the file is open, no CPU enters an idle state that takes longer than this to leave. Reports a
/// refusal on standard error.
pub(crate) fn ask(latency: Duration) -> Option<File> {
    let asked = ask_in(Path::new(DEVICE), latency);
    let refused = |error: &io::Error| {
        eprintln!("runyard: {DEVICE}: {error}: idle CPUs keep their usual wake-up latency");
    };
    asked.inspect_err(refused).ok()
}

/// Creates no file: a missing file means that there is no such device.
fn ask_in(device: &Path, latency: Duration) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(device)?;
    // The device reads a write of exactly four bytes as a number, and any other length as digits.
    file.write_all(&micros(latency).to_ne_bytes())?;
    Ok(file)
}

/// Returns the latency in the kernel's unit, microseconds. It is rounded down: a stricter request also keeps to the
/// latency.
fn micros(latency: Duration) -> i32 {
    i32::try_from(latency.as_micros()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::temp_dir;
    use std::fs;
    use std::path::PathBuf;
    use std::process;

    /// Returns a path that no other test uses.
    fn place(name: &str) -> PathBuf {
        temp_dir().join(format!("runyard-{name}-{}", process::id()))
    }

    #[test]
    fn whole_microseconds_are_asked_for_and_never_more_than_was_said() {
        let asked = [0, 999, 1_000, 29_999].map(|nanos| micros(Duration::from_nanos(nanos)));
        assert_eq!(asked, [0, 0, 1, 29]);
        let long = [2_147_483_647, 2_147_483_648].map(|us| micros(Duration::from_micros(us)));
        assert_eq!(long, [i32::MAX; 2]);
        assert_eq!(micros(Duration::MAX), i32::MAX);
    }

    #[test]
    fn four_bytes_are_written() {
        let device = place("device");
        fs::write(&device, "").unwrap();
        let file = ask_in(&device, Duration::from_micros(0x0102_0304)).unwrap();
        assert_eq!(fs::read(&device).unwrap(), 0x0102_0304_i32.to_ne_bytes());
        drop(file);
        fs::remove_file(&device).unwrap();
    }

    #[test]
    fn where_there_is_no_device_none_is_made() {
        let device = place("no-device");
        let refused = ask_in(&device, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert!(!device.exists());
    }
}
