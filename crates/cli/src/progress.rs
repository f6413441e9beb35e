//! The progress of a command, for a person that waits. A terminal on standard error gets a bar. Elsewhere a command
//! with many runs prints a line now and then, for a log, and an experiment tells its present work.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runyard_engine::time::{Nanos, Time};
use runyard_labs::Progress;
use runyard_outcome::stderr::say;
use std::io::{IsTerminal as _, stderr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Work that ends sooner than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// The period at which time-driven progress is redrawn.
const TICK: Duration = Duration::from_millis(200);

/// A bar of the milliseconds that a run will take, or a spinner for a run of unknown length.
fn bar_of_time(duration: Option<Nanos>, [with_end, without]: [&str; 2]) -> ProgressBar {
    match duration {
        Some(duration) => bar(Some(duration.0 / 1_000_000), with_end),
        None => bar(None, without),
    }
}

/// A bar of this length, or a spinner.
fn bar(length: Option<u64>, style: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(style).expect("the template is right"))
}

/// A bar that leaves nothing on the terminal.
#[derive(Debug)]
struct Passing(ProgressBar);

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A simulated run, which reports its own progress.
#[derive(Debug)]
pub(crate) struct SimProgress {
    duration: Option<Nanos>,
    started: Instant,
    bar: Option<Passing>,
}

impl SimProgress {
    pub(crate) fn new(duration: Option<Nanos>) -> SimProgress {
        SimProgress { duration, started: Instant::now(), bar: None }
    }

    /// Notes that the run has reached `now`.
    pub(crate) fn look(&mut self, now: Time) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE {
            let styles = [
                "{wide_bar} {pos} of {len} ms simulated, {eta} left",
                "{spinner} {pos} ms simulated in {elapsed}",
            ];
            self.bar = Some(Passing(bar_of_time(self.duration, styles)));
        }
        if let Some(Passing(bar)) = &self.bar {
            bar.set_position(now.0 / 1_000_000);
        }
    }
}

/// The progress of many runs: a bar on a terminal, otherwise a line now and then.
#[derive(Debug)]
pub(crate) struct RunsProgress {
    bar: Option<Passing>,
    all: usize,
    /// The number of runs that were done at the beginning.
    found: Option<usize>,
    begun: Instant,
    next: Instant,
}

/// The time between two lines.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

impl RunsProgress {
    pub(crate) fn new(all: usize) -> RunsProgress {
        let bar = || Passing(bar(Some(all as u64), "{wide_bar} {pos} of {len} runs, {eta} left"));
        let bar = stderr().is_terminal().then(bar);
        let begun = Instant::now();
        RunsProgress { bar, all, found: None, begun, next: begun + BETWEEN_LINES }
    }

    /// Notes that `done` runs are done. The runs of the first call were done before.
    pub(crate) fn look(&mut self, done: usize) {
        let found = *self.found.get_or_insert(done);
        if let Some(Passing(bar)) = &self.bar {
            if done == found {
                bar.reset_eta();
            }
            return bar.set_position(done as u64);
        }
        let now = Instant::now();
        if now >= self.next {
            self.next = now + BETWEEN_LINES;
            let each = (now - self.begun).as_secs_f64() / (done - found).max(1) as f64;
            let left = (each * (self.all - done) as f64).round();
            say(format_args!("{done} of {} runs, {left} s left", self.all));
        }
    }
}

/// The time between two lines of an experiment. The user has to see at least each two seconds that it goes on.
const BETWEEN_STEPS: Duration = Duration::from_millis(1_500);

/// A thread that shows how long some work has taken. Dropping it removes the display.
#[derive(Debug)]
pub(crate) struct Shown {
    over: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Shows a run on real CPUs, whose length is known from the scenario.
pub(crate) fn of_wall_time(duration: Option<Nanos>) -> Shown {
    let styles = ["{wide_bar} {elapsed} of {msg}, {eta} left", "{spinner} running for {elapsed}"];
    let long = duration.map(|duration| format!("{} ms", duration.0 / 1_000_000));
    Shown::new(move || bar_of_time(duration, styles).with_message(long.unwrap_or_default()))
}

/// Shows work of unknown length.
pub(crate) fn of(what: &'static str) -> Shown {
    Shown::new(move || bar(None, "{spinner} {msg}, {elapsed}").with_message(what))
}

/// Shows the present work of an experiment and the time left: a line that changes on a terminal, otherwise line after
/// line.
pub(crate) fn of_experiment(title: String, progress: Progress) -> Shown {
    let terminal = stderr().is_terminal();
    let (over, is_over) = mpsc::channel::<()>();
    let goes_on = move |time| is_over.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    let show = move || {
        let text = || format!("{title}: {}", progress.text());
        if terminal && goes_on(PATIENCE) {
            let Passing(bar) = &Passing(bar(None, "{spinner} {msg}"));
            while goes_on(TICK) {
                bar.set_message(text());
                bar.tick();
            }
        } else if !terminal {
            while goes_on(BETWEEN_STEPS) {
                say(text());
            }
        }
        progress.take_messages().iter().for_each(say);
    };
    Shown { over: Some(over), thread: Some(thread::spawn(show)) }
}

impl Shown {
    fn new(make: impl FnOnce() -> ProgressBar + Send + 'static) -> Shown {
        if !stderr().is_terminal() {
            return Shown { over: None, thread: None };
        }
        let (over, is_over) = mpsc::channel();
        let show = move || {
            let started = Instant::now();
            if is_over.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let Passing(bar) = &Passing(make().with_elapsed(PATIENCE));
            while is_over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                match bar.length() {
                    Some(_) => bar.set_position(started.elapsed().as_millis() as u64),
                    None => bar.tick(),
                }
            }
        };
        Shown { over: Some(over), thread: Some(thread::spawn(show)) }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.over.take());
        // A failed display thread is no failure of the command.
        self.thread.take().map(thread::JoinHandle::join);
    }
}
