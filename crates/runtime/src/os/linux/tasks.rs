//! The threads of this process by `/proc`, and the system call in which a thread waits. Allocates only in `open`: an
//! inspected thread may hold the allocator's lock.

use super::futex;
use super::thread::{Tid, in_proc};
use crate::os::refusal::Later;
use std::fs::File;
use std::os::fd::AsRawFd;

/// The bytes of a folder's listing that are read at a time.
const ENTRIES: usize = 1 << 14;

/// The folder of the threads.
#[derive(Debug)]
pub(crate) struct Tasks {
    folder: File,
    /// The buffer of the listing, in words of eight bytes, since the entries are aligned to that.
    entries: Box<[u64]>,
}

/// The wait of a thread, without a timeout, for a word to differ from `expected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FutexWait {
    pub(crate) expected: u32,
}

impl Tasks {
    /// Opens the folder; `None` where `/proc` does not have it.
    pub(crate) fn open() -> Option<Tasks> {
        let folder = File::open("/proc/self/task").ok()?;
        Some(Tasks { folder, entries: vec![0; ENTRIES / 8].into() })
    }

    /// Returns a number that changes when a thread starts or ends, unless as many start as end.
    pub(crate) fn links(&self) -> u64 {
        // SAFETY: a zeroed stat is valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one stat into a valid one.
        let known = unsafe { libc::fstat(self.folder.as_raw_fd(), &raw mut stat) } == 0;
        #[expect(clippy::useless_conversion, reason = "other targets have other types")]
        if known { stat.st_nlink.into() } else { 0 }
    }

    /// Calls `each` with every thread.
    pub(crate) fn each(&mut self, mut each: impl FnMut(Tid)) {
        let folder = self.folder.as_raw_fd();
        // SAFETY: the call takes only numbers.
        unsafe { libc::lseek(folder, 0, libc::SEEK_SET) };
        loop {
            let (at, size) = (self.entries.as_mut_ptr(), size_of_val(&*self.entries));
            // SAFETY: the kernel writes at most the number of bytes that it is given.
            let written = unsafe { libc::syscall(libc::SYS_getdents64, folder, at, size) };
            let Ok(written @ 1..) = usize::try_from(written) else { return };
            let bytes = self.entries.iter().flat_map(|word| word.to_ne_bytes());
            names(bytes.take(written), |name| each(Tid(name)));
        }
    }
}

/// Calls `each` with the names that are numbers, from entries as `getdents64` writes them: inode number (8 bytes),
/// offset (8), length of the entry (2), type (1), and the name up to a zero.
fn names(bytes: impl Iterator<Item = u8>, mut each: impl FnMut(i32)) {
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let (mut nth, mut length, mut name) = (0, [0; 2], Some(0_i32));
    for byte in bytes {
        match nth {
            LENGTH => length[0] = byte,
            17 => length[1] = byte,
            0..NAME => {}
            _ if byte == 0 => {
                name.take().filter(|&name| name > 0).into_iter().for_each(&mut each);
            }
            _ => {
                let digit = i32::from(byte) - i32::from(b'0');
                let is_digit = byte.is_ascii_digit();
                name =
                    name.filter(|_| is_digit).and_then(|it| it.checked_mul(10)?.checked_add(digit));
            }
        }
        nth += 1;
        if nth > NAME && nth == usize::from(u16::from_ne_bytes(length)) {
            (nth, name) = (0, Some(0));
        }
    }
}

/// Returns the wait of a thread of this process, if it waits without a timeout for a futex that is not the runtime's
/// own.
pub(crate) fn futex_wait_of(thread: Tid) -> Option<FutexWait> {
    let mut text = [0; 256];
    let Some(line) = in_proc(thread, "syscall", &mut text) else {
        // The thread may have ended. The caller has not.
        if in_proc(super::thread::current(), "syscall", &mut [0; 256]).is_none() {
            super::note_refused(Later::Calls);
        }
        return None;
    };
    futex_wait(std::str::from_utf8(line).ok()?)
}

/// Parses a line of that file: `NUMBER ARGUMENT*6 STACK PROGRAM_COUNTER`, or a single word if the thread runs.
fn futex_wait(line: &str) -> Option<FutexWait> {
    let mut fields = line.split(' ');
    let number: libc::c_long = fields.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (_, operation, expected, timeout) = (argument()?, argument()?, argument()?, argument()?);
    let (_, bits) = (argument()?, argument()? as u32);
    let flags = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64;
    let operation = (operation & !flags) as libc::c_int;
    let is_wait = number == libc::SYS_futex
        && match operation {
            libc::FUTEX_WAIT => true,
            libc::FUTEX_WAIT_BITSET => bits != futex::OURS,
            _ => false,
        };
    (is_wait && timeout == 0).then_some(FutexWait { expected: expected as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn every_thread_is_listed_once() {
        let mut tasks = Tasks::open().unwrap();
        let (send, receive) = channel();
        let (stop, stopped) = channel::<()>();
        let other = thread::spawn(move || {
            send.send(crate::os::thread::current()).unwrap();
            let _ = stopped.recv();
        });
        let mut seen = Vec::new();
        tasks.each(|tid| seen.push(tid.0));
        for tid in [crate::os::thread::current(), receive.recv().unwrap()] {
            assert_eq!(seen.iter().filter(|&&it| it == tid.0).count(), 1, "{tid:?} in {seen:?}");
        }
        assert!(tasks.links() > 2);
        drop(stop);
        other.join().unwrap();
    }

    #[test]
    fn a_wait_for_a_lock_is_told_from_others() {
        let lock = format!("{} 0x7f00 0x89 0x2 0x0 0x0 0xffffffff 0x7ffc 0x7f01", libc::SYS_futex);
        assert_eq!(futex_wait(&lock), Some(FutexWait { expected: 2 }));
        assert_eq!(futex_wait(&lock.replace("0x89", "0x80")), Some(FutexWait { expected: 2 }));
        assert_eq!(futex_wait(&lock.replace("0x2 0x0", "0x2 0x7f02")), None, "it has a timeout");
        assert_eq!(futex_wait(&lock.replace("0x89", "0x81")), None, "it wakes");
        assert_eq!(futex_wait(&lock.replace("0xffffffff", "0x52756e79")), None, "it is ours");
        assert_eq!(futex_wait("running"), None);
        assert_eq!(futex_wait("-1 0x7ffc 0x7f01"), None);
    }
}
