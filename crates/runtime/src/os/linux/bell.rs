//! The two fds that end a worker's wait in tokio's driver: an event fd that any thread may write to, and a timer fd set
//! to the next expiry of this runtime's timers. The driver waits for both as it waits for sockets.
//!
//! Both are edge-triggered: each ring and each expiry is an event of its own, although no thread reads the fds. A ring
//! before the wait ends that wait at once. To ring is one system call and calls no code of tokio.

use super::clock;
use super::gettime::kernels;
use runyard_engine::time::Time;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

/// The bell of one driver.
#[derive(Debug)]
pub(crate) struct Bell {
    event: AsyncFd<OwnedFd>,
    alarm: AsyncFd<OwnedFd>,
}

impl Bell {
    /// Makes a bell of the driver with this handle.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub(crate) fn new(handle: &Handle) -> io::Result<Bell> {
        let _entered = handle.enter();
        // SAFETY: the call takes only numbers.
        let event = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes only numbers.
        let alarm = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        Ok(Bell { event: watched(event)?, alarm: watched(alarm)? })
    }

    /// Ends the current wait in the driver, or else the next one. May be called in a signal handler.
    pub(crate) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: the kernel reads eight bytes, the size of the number. It refuses only when the sum of all rings no
        // longer fits, which takes centuries.
        unsafe {
            libc::write(
                self.event.get_ref().as_raw_fd(),
                (&raw const one).cast(),
                size_of_val(&one),
            );
        }
    }

    /// Waits in the driver by `wait`, until `at` on the monotonic clock at the latest. Sets the timer fd before each
    /// wait, even to an unchanged instant: a visit to the driver that did not wait may have consumed the event.
    pub(crate) fn wait_until<R>(&self, at: Option<Time>, wait: impl FnOnce() -> R) -> R {
        at.into_iter().for_each(|at| self.set(at));
        let result = wait();
        if at.is_some() {
            // Discards the clock's anchor: after the expiry no reading may lie before it.
            clock::forget();
        }
        result
    }

    /// Makes later rings wake the polled task. Returns whether the driver still exists.
    pub(crate) fn listen(&self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.event.poll_read_ready(cx) {
                // The task is being polled, so this ring has had its effect.
                Poll::Ready(Ok(mut rung)) => rung.clear_ready(),
                Poll::Ready(Err(_)) => return false,
                Poll::Pending => return true,
            }
        }
    }

    fn set(&self, Time(at): Time) {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would disarm the timer fd.
        let at = kernels(at.max(1));
        let value = libc::timespec {
            tv_sec: (at / 1_000_000_000).cast_signed(),
            tv_nsec: (at % 1_000_000_000).cast_signed(),
        };
        let spec = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the kernel reads one setting and writes none.
        unsafe {
            libc::timerfd_settime(
                self.alarm.get_ref().as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const spec,
                std::ptr::null_mut(),
            );
        }
    }
}

/// Registers the fd with the driver.
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open while it lives, never changes its number, and has no other owner.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created the fd for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
