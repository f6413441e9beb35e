//! The watchdog, a thread that finds a program that hangs. It allocates nothing and takes no lock, since a preempted
//! task may hold any lock.

use crate::programs::PROGRAMS;
use crate::supervisor::said;
use runyard::Runtime;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a round may last. A round of some milliseconds takes up to some seconds if the siege uses most of a
/// small machine. In addition, a thread that is not a worker may wait for a lock of a preempted task until that task's
/// next turn.
const DEADLINE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_secs(1);

/// The progress of a program.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of rounds that have ended.
    pub rounds: AtomicU64,
    /// Whether a round is in progress.
    pub plays: AtomicBool,
}

/// The state that the besieged process shares with its watchdog.
#[derive(Debug)]
pub struct Scene {
    /// The progress of each program, in the order of the list of programs.
    pub progress: Vec<Progress>,
    /// The pipe to the supervisor.
    pub line: File,
    /// The process's standard error, without the lock that programs take for it.
    pub error: File,
    /// The seed of this siege.
    pub seed: u64,
}

impl Scene {
    /// Sends a line to the supervisor.
    pub fn say(&self, what: &str) {
        let mut line = Line::default();
        let _ = writeln!(line, "{what}");
        let _ = (&self.line).write_all(line.text());
    }
}

/// A text of limited length, stored in place.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line { bytes: [0; 512], length: 0 }
    }
}

impl Line {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.length + more.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(more.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// A file that is written without a buffer or a lock.
struct Unbuffered<'a>(&'a File);

impl fmt::Write for Unbuffered<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// The number of rounds that a program had at the last check, and the time since which it has not changed.
#[derive(Clone, Copy)]
struct Seen {
    rounds: u64,
    since: Instant,
}

/// Starts the thread, which checks the programs until the runtime is dropped. If the thread itself hangs, the
/// supervisor notices the missing reports.
pub fn start(scene: &Arc<Scene>, runtime: &Arc<Runtime>) {
    let (scene, runtime) = (scene.clone(), Arc::downgrade(runtime));
    let watch = move || {
        let mut seen = vec![Seen { rounds: 0, since: Instant::now() }; PROGRAMS.len()];
        while runtime.strong_count() > 0 {
            scene.say(said::ALIVE);
            if let Some(hangs) = look(&scene, &mut seen) {
                tell(&scene, &runtime, &seen, hangs);
                scene.say(said::HANGS);
                return;
            }
            thread::sleep(LOOK);
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(watch).expect("a thread can be made");
}

/// Returns a program that hangs, if there is one.
fn look(scene: &Scene, seen: &mut [Seen]) -> Option<usize> {
    let now = Instant::now();
    for (progress, seen) in scene.progress.iter().zip(&mut *seen) {
        let rounds = progress.rounds.load(Ordering::SeqCst);
        if rounds != seen.rounds || !progress.plays.load(Ordering::SeqCst) {
            *seen = Seen { rounds, since: now };
        }
    }
    seen.iter().position(|seen| now.duration_since(seen.since) > DEADLINE)
}

/// Prints the program that hangs, the progress of the others, and the state of the runtime.
fn tell(scene: &Scene, runtime: &Weak<Runtime>, seen: &[Seen], hangs: usize) {
    let mut out = Unbuffered(&scene.error);
    let (name, seed) = (PROGRAMS[hangs].name, scene.seed);
    let _ = writeln!(out, "siege: program {name} hangs, seed {seed}");
    for ((program, progress), seen) in PROGRAMS.iter().zip(&scene.progress).zip(seen) {
        if progress.plays.load(Ordering::SeqCst) {
            let (name, rounds, since) = (program.name, seen.rounds, seen.since.elapsed());
            let _ = writeln!(out, "program {name}: {rounds} rounds, the last {since:?} ago");
        }
    }
    let _ = runtime.upgrade().map(|runtime| runtime.picture(&mut out));
}
