//! Functions of the C library that hold no lock, and the check of their callers.
//!
//! A thread that is stopped in such a function holds the locks of its caller. If the program called the function, the
//! thread may be stopped there as in the program itself. If the library called it (`malloc` calls `mmap`, `fwrite`
//! calls `write`), the thread may hold a lock that every thread needs. So the handler unwinds: each frame in the
//! library has to be one of these functions, up to a caller outside.
//!
//! A table gives, for each instruction of these functions, the place of the caller's frame. It is made once, outside of
//! handlers, from the library's own unwinding data. In the handler, a frame costs a binary search and one or two reads
//! of the stack.
//!
//! The list contains no function that might hold a lock, and no unknown one: each name is chosen, not guessed. These
//! functions look harmless but are left out: `fork`, `posix_spawn`, `pthread_create`, `raise`, `abort` and the `setuid`
//! family make system calls of their own while they hold locks; `readdir` has the lock of its directory; `getrandom`
//! has memory of its own in new libraries; `sbrk` belongs to the allocator.

use crate::os::sync::OnceLock;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, ParsedEhFrameHdr,
    Pointer, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};
use std::ffi::CStr;
use std::ops::Range;

/// The most frames of these functions in a row that are followed. `stat` has two.
const FRAMES: usize = 8;

/// More than the largest frame of these functions, in bytes; a larger one is not followed.
const LARGEST_FRAME: usize = 1 << 16;

/// The registers of a thread that unwinding needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) pc: usize,
    pub(super) sp: usize,
    /// The frame pointer, or another value if the code uses the register otherwise.
    pub(super) fp: usize,
}

/// An object of the library that has unwinding data.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// All loaded parts of the object.
    pub(super) loaded: Vec<Range<usize>>,
    /// The object's `.eh_frame_hdr`.
    pub(super) header: Range<usize>,
}

/// The place of the caller's frame, for a range of instructions of a function.
#[derive(Clone, Copy, Debug)]
struct Row {
    begin: usize,
    end: usize,
    /// Whether the frame ends `size` bytes above the frame pointer; otherwise it ends that far above the stack pointer.
    by_fp: bool,
    size: usize,
    /// The distance of the caller's saved frame pointer below the end of the frame, if it is saved.
    saved_fp: Option<usize>,
}

/// The rows, in the order of their addresses.
static ROWS: OnceLock<Box<[Row]>> = OnceLock::new();

/// Makes the table, once for the process. Not for signal handlers: it asks the loader, and allocates.
pub(super) fn find(objects: &[Object]) {
    ROWS.get_or_init(|| {
        if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
            return Box::default();
        }
        let mut rows: Vec<_> = NAMES.iter().flat_map(|name| rows_of(name, objects)).collect();
        rows.sort_unstable_by_key(|row| (row.begin, row.end));
        // A function may have several names.
        rows.dedup_by_key(|row| row.begin);
        rows.into()
    });
    // SAFETY: the call returns a pointer, which is not followed. Its other effect is to clear the loader's error that a
    // name was not found.
    unsafe { libc::dlerror() };
}

/// Returns whether a thread in the library was called from outside it and holds none of its locks. May be called in a
/// signal handler.
pub(super) fn is_called_from_outside(mut at: Frame, is_in_library: fn(usize) -> bool) -> bool {
    let Some(rows) = ROWS.get() else { return false };
    // Later, this is one byte before the return address: that is behind the call, and so may be behind the function.
    let mut inside = at.pc;
    for _ in 0..FRAMES {
        let Some(row) = row_of(rows, inside) else { return false };
        let Some(caller) = row.caller(at) else { return false };
        if !is_in_library(caller.pc) {
            return true;
        }
        (at, inside) = (caller, caller.pc - 1);
    }
    false
}

fn row_of(rows: &[Row], pc: usize) -> Option<&Row> {
    let after = rows.partition_point(|row| row.begin <= pc);
    rows[..after].last().filter(|row| pc < row.end)
}

impl Row {
    fn caller(&self, at: Frame) -> Option<Frame> {
        let end = if self.by_fp { at.fp } else { at.sp }.checked_add(self.size)?;
        let is_sane = end % WORD == 0 && end > at.sp && end - at.sp <= LARGEST_FRAME;
        // SAFETY: the words lie between the stack pointer of a frame and the end of the frame, as the function's own
        // data says. The stack belongs to the calling thread.
        let word = |below: usize| unsafe { ((end - below) as *const usize).read() };
        let is_in_frame = |below: usize| below >= WORD && below <= end - at.sp;
        if !is_sane || !self.saved_fp.is_none_or(is_in_frame) {
            return None;
        }
        let pc = word(WORD);
        let fp = self.saved_fp.map_or(at.fp, word);
        (pc > 0).then_some(Frame { pc, sp: end, fp })
    }
}

const WORD: usize = size_of::<usize>();

pub(super) type Bytes = EndianSlice<'static, NativeEndian>;

/// Returns the rows of the named function. Returns none if it is in none of these objects, or has unusual unwinding
/// data.
fn rows_of(name: &CStr, objects: &[Object]) -> Vec<Row> {
    // SAFETY: the name ends in zero; the result is an address or null.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr();
    let has = |object: &&Object| object.loaded.iter().any(|part| part.contains(&address));
    let object = objects.iter().find(has);
    object.and_then(|object| object.rows(address).ok().flatten()).unwrap_or_default()
}

impl Object {
    /// Returns the rows of the function that begins at this address; none if one of its rows is unusual.
    fn rows(&self, function: usize) -> gimli::Result<Option<Vec<Row>>> {
        // SAFETY: the C library and the unwinder stay loaded as long as the process lives.
        let Some(Tables { header, frames, bases }) = unsafe { self.tables() }? else {
            return Ok(None);
        };
        let Some(table) = header.table() else { return Ok(None) };
        let address = function as u64;
        let entry = table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset)?;
        if entry.initial_address() != address || entry.is_signal_trampoline() {
            return Ok(None);
        }
        let mut context = UnwindContext::new();
        let mut steps = entry.rows(&frames, &bases, &mut context)?;
        let mut rows = Some(Vec::new());
        while let Some(step) = steps.next_row()? {
            rows = rows.zip(row(step)).map(|(mut rows, row)| {
                rows.push(row);
                rows
            });
        }
        Ok(rows)
    }

    /// Returns the object's unwinding tables, if they have the usual form.
    ///
    /// # Safety
    /// The object stays loaded as long as the tables are used.
    pub(super) unsafe fn tables(&self) -> gimli::Result<Option<Tables>> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(self.header.start as u64);
        // SAFETY: the header is loaded, and the caller promises that it stays.
        let header = unsafe { bytes(self.header.clone()) };
        let header = EhFrameHdr::from(header).parse(&bases, WORD as u8)?;
        let Pointer::Direct(frames_at) = header.eh_frame_ptr() else { return Ok(None) };
        let has = |part: &&Range<usize>| part.contains(&(frames_at as usize));
        let Some(part) = self.loaded.iter().find(has) else { return Ok(None) };
        // SAFETY: as above.
        let frames = EhFrame::from(unsafe { bytes(frames_at as usize..part.end) });
        Ok(Some(Tables { header, frames, bases: bases.set_eh_frame(frames_at) }))
    }
}

/// The unwinding tables of an object.
pub(super) struct Tables {
    pub(super) header: ParsedEhFrameHdr<Bytes>,
    pub(super) frames: EhFrame<Bytes>,
    pub(super) bases: BaseAddresses,
}

/// Converts a row, if it has the form that all ordinary functions have.
fn row(step: &UnwindTableRow<usize>) -> Option<Row> {
    let &CfaRule::RegisterAndOffset { register, offset } = step.cfa() else { return None };
    let below = |rule| match rule {
        Some(RegisterRule::Offset(offset)) => usize::try_from(-offset).ok(),
        _ => None,
    };
    let fp = step.register(X86_64::RBP);
    let is_kept = matches!(fp, None | Some(RegisterRule::Undefined | RegisterRule::SameValue));
    let saved_fp = below(fp);
    let is_ordinary = [X86_64::RSP, X86_64::RBP].contains(&register)
        && below(step.register(X86_64::RA)) == Some(WORD)
        && (is_kept || saved_fp.is_some());
    is_ordinary.then_some(Row {
        begin: step.start_address() as usize,
        end: step.end_address() as usize,
        by_fp: register == X86_64::RBP,
        size: usize::try_from(offset).ok()?,
        saved_fp,
    })
}

/// Returns the bytes at these addresses.
///
/// # Safety
/// They are loaded for reading as long as the result is used, and no code writes to them.
unsafe fn bytes(at: Range<usize>) -> Bytes {
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(at.start as *const u8, at.len()) };
    EndianSlice::new(bytes, NativeEndian)
}

/// Functions that compute on memory without a lock, and bare system calls. A name is skipped if the library lacks it,
/// or has it only as a part of another function.
const NAMES: &[&CStr] = &[
    // Functions for memory and strings.
    c"memcpy",
    c"memmove",
    c"memset",
    c"memcmp",
    c"bcmp",
    c"bzero",
    c"memchr",
    c"memrchr",
    c"rawmemchr",
    c"memmem",
    c"mempcpy",
    c"memccpy",
    c"explicit_bzero",
    c"__memcpy_chk",
    c"__memmove_chk",
    c"__memset_chk",
    c"__mempcpy_chk",
    c"strlen",
    c"strnlen",
    c"strcmp",
    c"strncmp",
    c"strchr",
    c"strrchr",
    c"strchrnul",
    c"strcpy",
    c"strncpy",
    c"stpcpy",
    c"stpncpy",
    c"strcat",
    c"strncat",
    c"strstr",
    c"strspn",
    c"strcspn",
    c"strpbrk",
    c"strcasecmp",
    c"strncasecmp",
    c"wcslen",
    c"wcsnlen",
    c"wcscmp",
    c"wcsncmp",
    c"wcschr",
    c"wcsrchr",
    c"wcscpy",
    c"wmemcpy",
    c"wmemmove",
    c"wmemset",
    c"wmemcmp",
    c"wmemchr",
    c"__errno_location",
    // System calls.
    c"syscall",
    c"read",
    c"write",
    c"pread",
    c"pread64",
    c"pwrite",
    c"pwrite64",
    c"readv",
    c"writev",
    c"preadv",
    c"preadv64",
    c"pwritev",
    c"pwritev64",
    c"preadv2",
    c"preadv64v2",
    c"pwritev2",
    c"pwritev64v2",
    c"open",
    c"open64",
    c"openat",
    c"openat64",
    c"creat",
    c"creat64",
    c"close",
    c"close_range",
    c"dup",
    c"dup2",
    c"dup3",
    c"pipe",
    c"pipe2",
    c"lseek",
    c"lseek64",
    c"stat",
    c"stat64",
    c"fstat",
    c"fstat64",
    c"lstat",
    c"lstat64",
    c"fstatat",
    c"fstatat64",
    c"statx",
    c"__xstat",
    c"__xstat64",
    c"__fxstat",
    c"__fxstat64",
    c"__lxstat",
    c"__lxstat64",
    c"__fxstatat",
    c"__fxstatat64",
    c"statfs",
    c"statfs64",
    c"fstatfs",
    c"fstatfs64",
    c"access",
    c"faccessat",
    c"ftruncate",
    c"ftruncate64",
    c"truncate",
    c"truncate64",
    c"fallocate",
    c"fallocate64",
    c"posix_fadvise",
    c"posix_fadvise64",
    c"fsync",
    c"fdatasync",
    c"sync_file_range",
    c"flock",
    c"rename",
    c"renameat",
    c"renameat2",
    c"link",
    c"linkat",
    c"unlink",
    c"unlinkat",
    c"symlink",
    c"symlinkat",
    c"readlink",
    c"readlinkat",
    c"mkdir",
    c"mkdirat",
    c"rmdir",
    c"chdir",
    c"fchdir",
    c"chmod",
    c"fchmod",
    c"chown",
    c"fchown",
    c"lchown",
    c"utimensat",
    c"futimens",
    c"umask",
    c"getdents64",
    c"ioctl",
    c"fcntl",
    c"fcntl64",
    c"sendfile",
    c"sendfile64",
    c"splice",
    c"tee",
    c"vmsplice",
    c"copy_file_range",
    c"mmap",
    c"mmap64",
    c"munmap",
    c"mremap",
    c"madvise",
    c"mprotect",
    c"msync",
    c"mlock",
    c"munlock",
    c"mincore",
    c"memfd_create",
    c"poll",
    c"ppoll",
    c"select",
    c"pselect",
    c"epoll_create",
    c"epoll_create1",
    c"epoll_ctl",
    c"epoll_wait",
    c"epoll_pwait",
    c"eventfd",
    c"eventfd_read",
    c"eventfd_write",
    c"timerfd_create",
    c"timerfd_settime",
    c"timerfd_gettime",
    c"inotify_init",
    c"inotify_init1",
    c"inotify_add_watch",
    c"inotify_rm_watch",
    c"socket",
    c"socketpair",
    c"bind",
    c"listen",
    c"accept",
    c"accept4",
    c"connect",
    c"shutdown",
    c"send",
    c"recv",
    c"sendto",
    c"recvfrom",
    c"sendmsg",
    c"recvmsg",
    c"sendmmsg",
    c"recvmmsg",
    c"getsockopt",
    c"setsockopt",
    c"getsockname",
    c"getpeername",
    c"nanosleep",
    c"clock_nanosleep",
    c"usleep",
    c"sleep",
    c"sched_yield",
    c"clock_gettime",
    c"gettimeofday",
    c"time",
    c"getpid",
    c"getppid",
    c"gettid",
    c"getuid",
    c"geteuid",
    c"getgid",
    c"getegid",
    c"getrusage",
    c"getpriority",
    c"prctl",
    c"sched_getaffinity",
    c"sched_setaffinity",
    c"sched_getcpu",
    c"kill",
    c"wait",
    c"wait3",
    c"wait4",
    c"waitpid",
    c"waitid",
];
