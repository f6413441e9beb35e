//! Long work, during which Python still handles signals.

use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The longest time until Ctrl-C is noticed, and the interval at which a progress bar moves.
const PATIENCE: Duration = Duration::from_millis(50);

/// Executes `work` on a thread of its own, without the interpreter lock.
///
/// Meanwhile Python handles signals, and `look` is called now and then. If one of them raises, the flag passed to
/// `work` asks it to stop, and its result is dropped.
pub(crate) fn done_meanwhile<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> R + Send,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<R> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (to, mut from) = mpsc::channel();
        let stop = &stop;
        let worker = scope.spawn(move || {
            // The receiver lives until this result arrives.
            let _ = to.send(work(stop));
        });
        let mut raised = None;
        loop {
            let came;
            (from, came) = py.detach(move || {
                let came = from.recv_timeout(PATIENCE);
                (from, came)
            });
            match came {
                Ok(result) => return raised.map_or(Ok(result), Err),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let panic = worker.join().expect_err("it sends, or panics");
                    resume_unwind(panic)
                }
            }
            if let (None, Err(error)) = (&raised, py.check_signals().and_then(|()| look(py))) {
                stop.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
    })
}
