//! Ctrl-C and other signals that ask the command to end. At the first signal the command ends as soon as it can and
//! shows its results. At the second signal it ends at once.
//!
//! The handler only sets a flag, since it may run on a thread that the runtime is stopping. Some programs (`timeout`)
//! send a signal twice at once: to the command and to its process group. Signals within [`TWICE`] count as one.

use crate::exit::Done;
use crate::outputs::tell_what_is_left;
use runyard_engine::time::Time;
use runyard_hosts::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
#[cfg(unix)]
use std::time::Duration;

const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// The least time between two signals that count as two.
#[cfg(unix)]
const TWICE: Duration = Duration::from_millis(100);

/// Whether a signal asked the command to end.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Notes each later signal that asks for an end. On a system that takes no handler, the signal ends the command.
    pub(crate) fn expect() -> Interrupt {
        let it = Interrupt::default();
        end_at_another();
        for signal in SIGNALS {
            let _ = flag::register_usize(signal, it.signal.clone(), signal as usize);
            let _ = flag::register(signal, it.asked.clone());
        }
        it
    }

    /// The flag that a signal sets.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// Whether a signal came.
    pub(crate) fn came(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Reports that a run ended too early, or the work that it left undone.
    pub(crate) fn tell(&self, end: Time, left: &[String]) {
        match self.came() {
            true => say(format_args!("interrupted at {end}: the report is of the run until then")),
            false => tell_what_is_left(left),
        }
    }

    /// The outcome of the command: `done`, unless a signal came.
    pub(crate) fn done(&self, done: Done) -> Done {
        match u8::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(signal @ 1..) => Done::Interrupted(signal),
            _ => done,
        }
    }
}

/// Calls the function when a signal asks for an end; then the command ends. The next signal ends it at once.
#[cfg(unix)]
pub(crate) fn on_signal(show: impl FnOnce() -> Result<Done, Failure> + Send + 'static) {
    end_at_another();
    let Ok(mut signals) = signal_hook::iterator::Signals::new(SIGNALS) else { return };
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        let shown = show().map(|_| Done::Interrupted(signal as u8));
        std::process::exit(crate::exit::number(shown).into());
    });
}

/// No thread waits for signals here: a signal ends the command.
#[cfg(not(unix))]
pub(crate) fn on_signal(_: impl FnOnce() -> Result<Done, Failure> + Send + 'static) {}

/// Makes the second signal end the command at once.
fn end_at_another() {
    let again = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, again.clone());
    }
    expect_another(again);
}

/// Sets `again` a moment after the first signal. A thread waits for that moment without using the CPU.
#[cfg(unix)]
fn expect_another(again: Arc<AtomicBool>) {
    let Ok(mut signals) = signal_hook::iterator::Signals::new(SIGNALS) else { return };
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            std::thread::sleep(TWICE);
            again.store(true, Ordering::Relaxed);
        }
    });
}

/// No thread waits here: every signal after the first ends the command at once.
#[cfg(not(unix))]
fn expect_another(again: Arc<AtomicBool>) {
    for signal in SIGNALS {
        let _ = flag::register(signal, again.clone());
    }
}
