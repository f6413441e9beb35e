//! Ctrl-C, and what asks a command to end in another way: the first time it ends as soon as it can and shows what there
//! is, the second time it ends at once.
//!
//! A handler sets a flag and does nothing else: it may run on a thread that the runtime is just stopping. Some programs
//! send a signal twice at once, to the command and to its process group (`timeout`): what comes within [`TWICE`] is once.

use crate::exit::Done;
use crate::outputs::tell_what_is_left;
use runyard_engine::time::Time;
use runyard_hosts::Failure;
use runyard_hosts::stderr::say;
use runyard_hosts::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
#[cfg(unix)]
use std::time::Duration;

const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// How far apart two signals are that are two.
#[cfg(unix)]
const TWICE: Duration = Duration::from_millis(100);

/// Whether somebody asked the command to end.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on a signal that asks for an end is noted. Where the system takes no handler it ends the command.
    pub(crate) fn expect() -> Interrupt {
        let it = Interrupt::default();
        end_at_another();
        for signal in SIGNALS {
            let _ = flag::register_usize(signal, it.signal.clone(), signal as usize);
            let _ = flag::register(signal, it.asked.clone());
        }
        it
    }

    /// What is set when it came.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// Whether it came.
    pub(crate) fn came(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Says that a run came to its end too early, or what it left undone.
    pub(crate) fn tell(&self, end: Time, left: &[String]) {
        match self.came() {
            true => say(format_args!("interrupted at {end}: the report is of the run until then")),
            false => tell_what_is_left(left),
        }
    }

    /// How the command went that went like that if nobody interrupted it.
    pub(crate) fn done(&self, done: Done) -> Done {
        match u8::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(signal @ 1..) => Done::Interrupted(signal),
            _ => done,
        }
    }
}

/// What is called when a signal asks for an end; then the command ends. The next signal ends it at once.
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

/// There is no thread that waits for signals: they end the command.
#[cfg(not(unix))]
pub(crate) fn on_signal(_: impl FnOnce() -> Result<Done, Failure> + Send + 'static) {}

/// The second signal ends the command at once.
fn end_at_another() {
    let again = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, again.clone());
    }
    expect_another(again);
}

/// Sets `again` a moment after the first signal. A thread waits for that, which costs nothing meanwhile.
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

/// There is no such thread: every signal after the first ends the command at once.
#[cfg(not(unix))]
fn expect_another(again: Arc<AtomicBool>) {
    for signal in SIGNALS {
        let _ = flag::register(signal, again.clone());
    }
}
