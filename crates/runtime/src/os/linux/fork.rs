//! Whether this process is a child of fork(2), in which no thread of its runtimes exists but the one that forked.
//!
//! The sign is a word in a page that the kernel clears in a child (`MADV_WIPEONFORK`, Linux 4.14), also in one that
//! raw clone(2) makes. A child that shares the memory of its parent (vfork(2)) leaves it alone: its parent's thread waits
//! for it, and the other threads go on. Where the kernel refuses such a page, the C library calls a function in the
//! child of `fork`; then a child of raw clone(2) is not known.
//!
//! Rejected:
//!
//! * To compare process ids: that is a system call for each question, and the child of vfork(2) has another id.
//! * `pthread_atfork` alone: raw clone(2) does not call it.
//!
//! Invariants: the word is 0 only in a child; a child makes runtimes only if none lived when it was made.

use super::pages::{PAGE, map, unmap};
use crate::os::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::ptr::NonNull;

/// The values of the word.
const CHILD: u32 = 0;
const HERE: u32 = 1;

/// The word until a page for it is there, or if the kernel refuses that.
static UNWIPED: AtomicU32 = AtomicU32::new(HERE);

/// The place of the word. It stays valid for ever.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNWIPED).cast_mut());

/// The number of runtimes whose threads may live.
static NR_LIVING: AtomicU32 = AtomicU32::new(0);

/// Whether the C library calls `forked` in the children of `fork`.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// Whether the page is not asked for, as if the kernel refused it: for tests.
pub(in crate::os) static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is a child that has one thread of those that its parent had. May be called in a signal
/// handler.
#[inline]
pub(crate) fn is_child() -> bool {
    // SAFETY: the pointer leads to a static, or to a page that is never unmapped.
    unsafe { (*WORD.load(Ordering::Relaxed)).load(Ordering::Relaxed) == CHILD }
}

/// Notes that a runtime is about to start threads. Returns `false` if none can be made in this process: it is a child,
/// and may have copies of locks whose holders it does not have.
pub(crate) fn begin() -> bool {
    if is_child() {
        if NR_LIVING.load(Ordering::SeqCst) > 0 {
            return false;
        }
        word().store(HERE, Ordering::SeqCst);
    } else if std::ptr::eq(word(), &raw const UNWIPED) {
        provide();
    }
    NR_LIVING.fetch_add(1, Ordering::SeqCst);
    true
}

/// Notes that the threads of a runtime have ended.
pub(crate) fn end() {
    NR_LIVING.fetch_sub(1, Ordering::SeqCst);
}

fn word() -> &'static AtomicU32 {
    // SAFETY: as in `is_child`.
    unsafe { &*WORD.load(Ordering::SeqCst) }
}

/// Provides a sign of children.
fn provide() {
    let Some(page) = wiped_page() else { return be_called() };
    let word: *mut AtomicU32 = page.as_ptr().cast();
    // SAFETY: the page is mapped, aligned and ours; a zeroed atomic is valid.
    unsafe { (*word).store(HERE, Ordering::SeqCst) };
    let old = (&raw const UNWIPED).cast_mut();
    if WORD.compare_exchange(old, word, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        // SAFETY: another thread was faster, so nobody knows this page.
        unsafe { unmap(page, PAGE) };
    }
}

/// Maps a page that the kernel clears in a child.
fn wiped_page() -> Option<NonNull<u8>> {
    if IS_REFUSED.load(Ordering::SeqCst) {
        return None;
    }
    let page = map(PAGE)?;
    // SAFETY: the page is ours.
    let wipes = unsafe { libc::madvise(page.as_ptr().cast(), PAGE, libc::MADV_WIPEONFORK) } == 0;
    if !wipes {
        // SAFETY: the page was just mapped, and nobody else knows it.
        unsafe { unmap(page, PAGE) };
    }
    wipes.then_some(page)
}

/// Has the C library call `forked` in children.
fn be_called() {
    extern "C" fn forked() {
        UNWIPED.store(CHILD, Ordering::SeqCst);
    }
    if !IS_CALLED.swap(true, Ordering::SeqCst) {
        // SAFETY: the function uses only an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
}

/// Panics in a child, which has no thread that could answer the call. `asked` begins the message.
#[inline]
#[track_caller]
pub(crate) fn refuse_in_child(asked: &str) {
    if is_child() {
        refuse(asked);
    }
}

#[cold]
#[track_caller]
fn refuse(asked: &str) -> ! {
    panic!(
        "{asked} in a child of fork, which has no thread of the runtime: it can only exec or exit"
    )
}

/// Ends the process if it is a child. Called where the code ends that may have forked, and the runtime's own would go on.
#[inline]
pub(crate) fn end_child() {
    if is_child() {
        abort_child();
    }
}

#[cold]
fn abort_child() -> ! {
    let why = "runyard: a child of fork went on behind the poll that forked it; it can only exec or exit, as it has no \
               thread of the runtime\n";
    // SAFETY: the kernel reads as many bytes as the text has. The calls take no lock that another thread may hold.
    unsafe {
        libc::write(libc::STDERR_FILENO, why.as_ptr().cast(), why.len());
        libc::abort()
    }
}
