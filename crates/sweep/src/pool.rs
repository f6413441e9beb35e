//! Many independent pieces of work on all CPUs.
//!
//! Each thread takes the next piece when it is free, so no more pieces are in progress than there are threads. The
//! results go to the calling thread, which alone writes. No thread waits for another, so all CPUs are busy until the
//! last pieces.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Does `work` for each of `pieces` on `jobs` threads. It calls `done` with each result, in the order in which the
/// pieces end; `done` returns whether to go on. Each thread has its own state, which begins as `T::default()`. When
/// `stop` returns `true`, no further piece is begun. The function returns whether all pieces were done.
///
/// # Panics
/// If `work` panics.
pub fn each<T: Default, R: Send>(
    (jobs, pieces): (usize, &[usize]),
    stop: &(dyn Fn() -> bool + Sync),
    work: impl Fn(&mut T, usize) -> Option<R> + Sync,
    mut done: impl FnMut(usize, R) -> bool,
) -> bool {
    let next = AtomicUsize::new(0);
    let (to, from) = mpsc::channel();
    let (next, work) = (&next, &work);
    let mut count = 0;
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, pieces.len().max(1)) {
            let to = to.clone();
            scope.spawn(move || {
                let mut state = T::default();
                while !stop()
                    && let Some(&piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
                    && let Some(result) = work(&mut state, piece)
                    && to.send((piece, result)).is_ok()
                {}
            });
        }
        drop(to);
        for (piece, result) in from {
            count += 1;
            // The channel is then closed, and a thread that sends into it ends.
            if !done(piece, result) {
                break;
            }
        }
    });
    count == pieces.len()
}

/// The result of `work`, or its panic message.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // No state of the work is used again after a panic.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        format!("a bug of the simulator: {}", text.unwrap_or("it panicked"))
    })
}

/// The number of threads that this machine runs at once.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_piece_is_done_once() {
        for jobs in [0, 1, 3, 100] {
            let mut seen = vec![0; 50];
            let pieces: Vec<usize> = (0..50).rev().collect();
            let square = |_: &mut (), piece| Some(piece * piece);
            let all = each((jobs, &pieces), &|| false, square, |piece, result| {
                assert_eq!(result, piece * piece);
                seen[piece] += 1;
                true
            });
            assert!(all && seen == [1; 50], "{jobs}: {seen:?}");
        }
        assert!(each((4, &[]), &|| false, |_: &mut (), _| Some(()), |_, ()| true));
    }

    #[test]
    fn what_is_stopped_is_not_begun() {
        let begun = Mutex::new(0);
        let stop = || *begun.lock().unwrap() >= 5;
        let work = |_: &mut (), _| {
            *begun.lock().unwrap() += 1;
            Some(())
        };
        let pieces: Vec<usize> = (0..1000).collect();
        assert!(!each((2, &pieces), &stop, work, |_, ()| true));
        assert!(*begun.lock().unwrap() <= 6);
        assert!(!each((2, &pieces), &|| false, |_: &mut (), _| Some(()), |_, ()| false));
    }

    #[test]
    fn a_panic_is_a_reason() {
        let reason = caught(|| {
            if true {
                panic!("{} is odd", 3)
            }
        });
        assert_eq!(reason, Err("a bug of the simulator: 3 is odd".to_owned()));
        assert_eq!(caught(|| 5), Ok(5));
    }
}
