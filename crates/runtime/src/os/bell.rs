//! What ends the wait of a worker in tokio's driver: an event fd that anybody writes to, and a timer fd for the next
//! expiry of a timer of this runtime. The driver waits for both, as for every socket.
//!
//! Both are watched by edges: each ring and each expiry is an event of its own, although nobody reads the fds. One that
//! comes before the wait ends the wait at once. To ring is one system call, and calls nothing of tokio's.

use crate::os::clock;
use runyard_engine::time::Time;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

/// The bell of a driver.
#[derive(Debug)]
pub(crate) struct Bell {
    event: AsyncFd<OwnedFd>,
    alarm: AsyncFd<OwnedFd>,
}

impl Bell {
    /// A bell of the driver with this handle.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn new(handle: &Handle) -> io::Result<Bell> {
        let _entered = handle.enter();
        // SAFETY: the call takes numbers only.
        let event = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes numbers only.
        let alarm = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        Ok(Bell { event: watched(event)?, alarm: watched(alarm)? })
    }

    /// Ends the wait of whoever waits in the driver, or the next one. May be called in a signal handler.
    pub(crate) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: the kernel reads eight bytes, where a number has as many. It refuses when the sum of all rings is as
        // large as a number can be, which takes centuries.
        unsafe {
            libc::write(
                self.event.get_ref().as_raw_fd(),
                (&raw const one).cast(),
                size_of_val(&one),
            );
        }
    }

    /// Waits in the driver by `wait`, until `at` on the monotonic clock at the latest. Each wait sets the timer fd, also to
    /// what it was set to before: a visit that did not wait may have taken that event.
    pub(crate) fn wait_until<R>(&self, at: Option<Time>, wait: impl FnOnce() -> R) -> R {
        at.into_iter().for_each(|at| self.set(at));
        let result = wait();
        if at.is_some() {
            // After the expiry no clock is before it.
            clock::forget();
        }
        result
    }

    /// From now on a ring wakes the task that is polled. Whether the driver is there.
    pub(crate) fn listen(&self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.event.poll_read_ready(cx) {
                // Whoever was rung for that has seen it.
                Poll::Ready(Ok(mut rung)) => rung.clear_ready(),
                Poll::Ready(Err(_)) => return false,
                Poll::Pending => return true,
            }
        }
    }

    fn set(&self, Time(at): Time) {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // An instant of zero would be no setting.
        let at = at.max(1);
        let value = libc::timespec {
            tv_sec: (at / 1_000_000_000).cast_signed(),
            tv_nsec: (at % 1_000_000_000).cast_signed(),
        };
        let spec = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the kernel reads one setting, and writes none.
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

/// Has the driver wait for it.
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, always has the same number, and nobody else has it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
