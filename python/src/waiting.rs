//! Work that takes long, while Python stays awake.

use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How soon Ctrl-C is noticed, and how often a bar moves.
const PATIENCE: Duration = Duration::from_millis(50);

/// Does `work` on a thread of its own, without the interpreter. Meanwhile Python handles signals, and `look` is called
/// now and then. If one of them raises, the work is told to stop by what it is given, and its result is not used.
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
            // It is waited for until it comes.
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
