//! Functions of the C library that hold no lock, and who called them.
//!
//! A thread that is stopped in such a function holds what its caller holds. Called by the program it may be
//! stopped there as in the program itself; called by the library (`malloc` calls `mmap`, `fwrite` calls `write`)
//! it may hold a lock that everybody needs. So the handler unwinds: each frame in the library has to be one of
//! these functions, up to a caller outside.
//!
//! A table says for each instruction of these functions where their caller is. It is made once, outside of
//! handlers, from what the library says for its own unwinding. In the handler a frame is a binary search and
//! one or two reads of the stack.
//!
//! Not here is a function that only might hold something, nor one that is not known: names are chosen, not
//! guessed. Neither are those that look harmless and are not: `fork`, `posix_spawn`, `pthread_create`, `raise`,
//! `abort` and the `setuid` family make system calls of their own while they hold locks; `readdir` has the
//! lock of its directory; `getrandom` has memory of its own in new libraries; `sbrk` is the allocator's.

use crate::os::sync::OnceLock;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, ParsedEhFrameHdr,
    Pointer, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};
use std::ffi::CStr;
use std::ops::Range;

/// How many frames of these functions one upon another are followed. `stat` has two.
const FRAMES: usize = 8;

/// No frame of these functions is as large; what is said to be is not followed.
const LARGEST_FRAME: usize = 1 << 16;

/// Where a thread is: its registers that unwinding takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) pc: usize,
    pub(super) sp: usize,
    /// The frame pointer, or what the register is used for instead.
    pub(super) fp: usize,
}

/// An object of the library that says how it is unwound.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// All that is loaded of it.
    pub(super) loaded: Vec<Range<usize>>,
    /// Its `.eh_frame_hdr`.
    pub(super) header: Range<usize>,
}

/// For some instructions of a function: where its caller is.
#[derive(Clone, Copy, Debug)]
struct Row {
    begin: usize,
    end: usize,
    /// Whether the frame ends so many bytes above the frame pointer; if not, above the stack pointer.
    by_fp: bool,
    size: usize,
    /// How far below the end of the frame the caller's frame pointer is, if it is saved.
    saved_fp: Option<usize>,
}

/// In the order of their addresses.
static ROWS: OnceLock<Box<[Row]>> = OnceLock::new();

/// Makes the table, once for the process. Not in a signal handler: it asks the loader, and allocates.
pub(super) fn find(objects: &[Object]) {
    ROWS.get_or_init(|| {
        if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
            return Box::default();
        }
        let mut rows: Vec<_> = NAMES.iter().flat_map(|name| rows_of(name, objects)).collect();
        rows.sort_unstable_by_key(|row| (row.begin, row.end));
        // One function has several names.
        rows.dedup_by_key(|row| row.begin);
        rows.into()
    });
    // SAFETY: the call gives a pointer, which nobody follows. What it also does is to forget that a name was
    // not found.
    unsafe { libc::dlerror() };
}

/// Whether a thread that is in the library was called from outside of it, and holds nothing of it. May be called in
/// a signal handler.
pub(super) fn is_called_from_outside(mut at: Frame, is_in_library: fn(usize) -> bool) -> bool {
    let Some(rows) = ROWS.get() else { return false };
    // A return address is behind the call, and so may be behind the function.
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
        // SAFETY: the words lie between the stack pointer of a frame and the end of that, as the function says
        // itself, and the thread to which the stack belongs is the calling one.
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

/// What unwinding a function takes; nothing if it is none of these objects', or strange.
fn rows_of(name: &CStr, objects: &[Object]) -> Vec<Row> {
    // SAFETY: the name ends in zero; what comes back is an address, or null.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr();
    let has = |object: &&Object| object.loaded.iter().any(|part| part.contains(&address));
    let object = objects.iter().find(has);
    object.and_then(|object| object.rows(address).ok().flatten()).unwrap_or_default()
}

impl Object {
    /// The rows of the function that begins there; none if one of them is strange.
    fn rows(&self, function: usize) -> gimli::Result<Option<Vec<Row>>> {
        // SAFETY: the C library and the unwinder are there for as long as the process is.
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

    /// Its tables, if they are as usual.
    ///
    /// # Safety
    /// The object stays loaded for as long as they are used.
    pub(super) unsafe fn tables(&self) -> gimli::Result<Option<Tables>> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(self.header.start as u64);
        // SAFETY: this is loaded, and the caller promises that it stays.
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

/// How the functions of an object are unwound.
pub(super) struct Tables {
    pub(super) header: ParsedEhFrameHdr<Bytes>,
    pub(super) frames: EhFrame<Bytes>,
    pub(super) bases: BaseAddresses,
}

/// The row in our words, if it has what all ordinary functions have.
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

/// What is loaded there.
///
/// # Safety
/// It is loaded for reading, for as long as the bytes are used, and nobody writes to it.
unsafe fn bytes(at: Range<usize>) -> Bytes {
    // SAFETY: the caller promises it.
    let bytes = unsafe { std::slice::from_raw_parts(at.start as *const u8, at.len()) };
    EndianSlice::new(bytes, NativeEndian)
}

/// Computations on memory that take no lock, and bare system calls. A name that a library does not have, or not as
/// a function of its own, is not found.
const NAMES: &[&CStr] = &[
    // Of memory and strings.
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
    // Of the kernel.
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
