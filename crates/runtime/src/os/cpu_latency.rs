//! How long an idle CPU may take to come back: a request to the kernel's CPU latency QoS, of PM QoS.
//!
//! An idle CPU enters an idle state, the deeper the less energy it takes and the longer it needs to come
//! back; in a virtual machine, even the first is an exit to the host, which may have given the CPU to
//! somebody else. The kernel heeds the least latency that anybody asks for, on all CPUs of the machine, as
//! long as the file in which it was asked for is open: so a request is that file, and ends with the
//! process at the latest.
//!
//! (Rejected: `pm_qos_resume_latency_us` in `/sys`, a file for each CPU. It would spare the other CPUs, and
//! stays as it is when a process is killed.)

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Where a request is made.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Asks that no CPU, while the file is open, enters an idle state from which it needs longer than that.
/// Says so where it is refused.
pub(crate) fn ask(latency: Duration) -> Option<File> {
    let asked = ask_in(Path::new(DEVICE), latency);
    let refused = |error: &io::Error| {
        eprintln!("runyard: {DEVICE}: {error}: idle CPUs come back as late as they do");
    };
    asked.inspect_err(refused).ok()
}

/// Nothing is created: a file that is not there already is no device.
fn ask_in(device: &Path, latency: Duration) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(device)?;
    // Four bytes at once are a number; of any other length they would be digits.
    file.write_all(&micros(latency).to_ne_bytes())?;
    Ok(file)
}

/// As the kernel counts. Who is stricter than was asked for keeps to it too, so parts are dropped.
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

    /// Somewhere nobody else writes.
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
