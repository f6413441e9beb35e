//! The lateness of a FIFO task on the one CPU of a runtime, beside a neighbour that spends its time in the C library or
//! in the kernel. Before and after these, each round measures the lower bound: a bare signal and futex without a
//! runtime.
//!
//! Like the hogs of [`probe`](super::probe), a neighbour keeps its CPU for long polls and seldom reads the clock.

use super::Effort;
use super::floor::{Cpus, Way, handoffs};
use super::host::builder;
use super::probe::{Lateness, PRIORITY, SLACK, percentiles, probe};
use runyard::{Task, blocking, spawn, yield_now};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{LineWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Length of a neighbour's poll: that of the probe's hogs.
const POLL: Duration = Duration::from_millis(50);

/// Approximate time between two clock reads of a neighbour.
const CHUNK: Duration = Duration::from_millis(1);

/// The work that a neighbour repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    Spin,
    CopyMuch,
    CopyLittle,
    Read,
    WriteNull,
    WriteFile,
    Stat,
    Print,
    SortStrings,
    FaultPages,
    Spawn,
    Fork,
    Block,
}

impl Neighbour {
    const ALL: [Neighbour; 13] = [
        Neighbour::Spin,
        Neighbour::CopyMuch,
        Neighbour::CopyLittle,
        Neighbour::Read,
        Neighbour::WriteNull,
        Neighbour::WriteFile,
        Neighbour::Stat,
        Neighbour::Print,
        Neighbour::SortStrings,
        Neighbour::FaultPages,
        Neighbour::Spawn,
        Neighbour::Fork,
        Neighbour::Block,
    ];

    fn name(self) -> &'static str {
        match self {
            Neighbour::Spin => "spins",
            Neighbour::CopyMuch => "copies 32 MB",
            Neighbour::CopyLittle => "copies 4 KB",
            Neighbour::Read => "reads 4 KB of /dev/zero",
            Neighbour::WriteNull => "writes 4 KB to /dev/null",
            Neighbour::WriteFile => "writes 4 KB to a file",
            Neighbour::Stat => "stats a file",
            Neighbour::Print => "prints lines",
            Neighbour::SortStrings => "sorts Strings",
            Neighbour::FaultPages => "faults pages in",
            Neighbour::Spawn => "starts processes",
            Neighbour::Fork => "forks",
            Neighbour::Block => "spins in `blocking`",
        }
    }

    /// Returns one unit of the work. Its memory and files are created beforehand.
    fn work(self) -> Box<dyn FnMut() + Send> {
        match self {
            Neighbour::Spin => Box::new(|| {
                for step in 0..1_000 {
                    black_box(step);
                }
            }),
            Neighbour::CopyMuch => copies(32 << 20),
            Neighbour::CopyLittle => copies(4 << 10),
            Neighbour::Read => {
                let (mut zero, mut bytes) = (open("/dev/zero"), vec![0; 4 << 10]);
                Box::new(move || zero.read_exact(black_box(&mut bytes)).expect("zeros are read"))
            }
            Neighbour::WriteNull => writes(File::create("/dev/null")),
            // The open descriptor suffices, so the name is removed.
            Neighbour::WriteFile => {
                let path = std::env::temp_dir().join(format!("neighbour-{}", std::process::id()));
                let file = File::create(&path);
                fs::remove_file(&path).expect("a file of ours can be removed");
                writes_from_the_start(file.expect("a file can be made"))
            }
            Neighbour::Stat => {
                Box::new(|| assert!(!fs::metadata("/dev/null").expect("it is there").is_dir()))
            }
            Neighbour::Print => {
                let null = File::create("/dev/null").expect("anybody may write to it");
                let mut out = LineWriter::new(null);
                Box::new(move || {
                    writeln!(out, "{}: {:?}", black_box(7), "a line").expect("it is printed");
                })
            }
            Neighbour::SortStrings => Box::new(|| {
                let mut names: Vec<_> =
                    (0..1_000_u32).map(|n| (n * 7_919 % 1_009).to_string()).collect();
                names.sort();
                black_box(names);
            }),
            Neighbour::FaultPages => Box::new(|| {
                let mut pages = vec![0_u8; 4 << 20];
                pages.iter_mut().step_by(4 << 10).for_each(|byte| *byte = black_box(1));
            }),
            Neighbour::Spawn => Box::new(|| succeeds(&mut Command::new("/bin/true"))),
            // A command with a user id is started by `fork`, not by `posix_spawn`.
            Neighbour::Fork => Box::new(|| {
                let own = rustix::process::getuid().as_raw();
                succeeds(Command::new("/bin/true").uid(own));
            }),
            Neighbour::Block => Box::new(|| {
                blocking(|| (0..1_000_000).for_each(|step| _ = black_box(step)));
            }),
        }
    }

    /// Returns the lateness of each period of a FIFO task beside this neighbour.
    fn lateness(self, periods: usize) -> Vec<Duration> {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let runtime = builder(1).build();
        runtime.block_on(async move {
            let neighbour = spawn(self.stay(stops));
            let task = Task::builder().fifo(PRIORITY).slack(SLACK);
            let lateness = task.spawn(probe(periods)).await.expect("the probe does not panic");
            stop.store(true, Ordering::Relaxed);
            neighbour.await.expect("a neighbour does not panic");
            lateness
        })
    }

    async fn stay(self, stop: Arc<AtomicBool>) {
        let mut work = self.work();
        let started = Instant::now();
        work();
        let repeats = (CHUNK.as_nanos() / started.elapsed().as_nanos().max(1)).max(1);
        while !stop.load(Ordering::Relaxed) {
            let end = Instant::now() + POLL;
            while Instant::now() < end {
                (0..repeats).for_each(|_| work());
            }
            yield_now().await;
        }
    }
}

fn open(path: &str) -> File {
    File::open(path).expect("every machine has it")
}

fn copies(bytes: usize) -> Box<dyn FnMut() + Send> {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    Box::new(move || black_box(&mut to).copy_from_slice(black_box(&from)))
}

fn writes(file: std::io::Result<File>) -> Box<dyn FnMut() + Send> {
    let (mut file, bytes) = (file.expect("anybody may write to it"), vec![0; 4 << 10]);
    Box::new(move || file.write_all(black_box(&bytes)).expect("it is written"))
}

/// Returns work that writes from the start of the file each time, so that the file does not grow.
fn writes_from_the_start(file: File) -> Box<dyn FnMut() + Send> {
    use std::os::unix::fs::FileExt;
    let bytes = vec![0; 4 << 10];
    Box::new(move || file.write_all_at(black_box(&bytes), 0).expect("it is written"))
}

fn succeeds(command: &mut Command) {
    assert!(command.status().expect("it can be started").success());
}

/// Measures every neighbour and the lower bound, in turns.
pub(crate) fn measure(effort: &Effort) -> Vec<Lateness> {
    let periods = effort.periods.max(1);
    let mut floors = Some(Vec::new());
    let mut lateness = [const { Vec::new() }; Neighbour::ALL.len()];
    for _ in 0..effort.rounds.max(1) {
        floors = floors.zip(floor(periods)).map(|(all, round)| [all, round].concat());
        for (neighbour, all) in Neighbour::ALL.into_iter().zip(&mut lateness) {
            all.extend(neighbour.lateness(periods));
        }
    }
    let floor = Lateness { probe: "floor: signal and futex", figures: floors.map(percentiles) };
    let beside = Neighbour::ALL.into_iter().zip(lateness).map(|(neighbour, lateness)| Lateness {
        probe: neighbour.name(),
        figures: Some(percentiles(lateness)),
    });
    std::iter::once(floor).chain(beside).collect()
}

/// Measures `count` handoffs on a new thread, which is bound to a CPU. Returns `None` on a machine with one CPU.
fn floor(count: usize) -> Option<Vec<Duration>> {
    let allowed = sched_getaffinity(None).expect("a thread has an affinity");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let &[here, from, ..] = &cpus[..] else { return None };
    let handoffs = move || handoffs(Way::Signal, Cpus { here, from }, count).ok();
    thread::spawn(handoffs).join().expect("a measurement does not panic")
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    #[test]
    fn beside_every_neighbour_every_period_is_measured() {
        const FEW: usize = 20;
        for neighbour in Neighbour::ALL {
            let lateness = within_time(move || neighbour.lateness(FEW));
            assert_eq!(lateness.len(), FEW, "{neighbour:?}");
        }
    }
}
