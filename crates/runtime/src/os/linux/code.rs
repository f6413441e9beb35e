//! The places of code that may hold a lock which every thread needs: the allocator's and the loader's locks, which
//! unwinding takes too (H4, H5).
//!
//! The code is found by addresses, since file names vary. All executable parts of an object are recorded if the object
//! contains one of [`marks`] or is the loader. The program itself is never recorded: a thread that is stopped inside it
//! stays stopped, and goes on when the keeper sees that another thread waits for its lock. This includes the C library
//! inside a static program. Wherever it is, a system call is also such a place.
//!
//! Some functions of the libraries hold no such lock if the program called them ([`quiet`]).

use super::quiet::{self, Frame, Object};
use crate::os::sync::{AtomicUsize, OnceLock, Ordering};
use std::ops::Range;

/// The most stretches of code that are recorded. The C library, the loader and the unwinder have one each; old C
/// libraries keep their threads and the loader's calls in objects of their own.
const STRETCHES: usize = 16;

/// The begin and the end of each stretch in memory.
static CODE: [[AtomicUsize; 2]; STRETCHES] =
    [const { [const { AtomicUsize::new(0) }; 2] }; STRETCHES];

/// Returns whether a thread that was interrupted at this place should not be stopped at once: it may hold such a lock,
/// or it waited in the kernel and is about to wait again. May be called in a signal handler.
pub(super) fn is_unsafe(at: Frame) -> bool {
    is_at_system_call(at.pc)
        || is_in_library(at.pc) && !quiet::is_called_from_outside(at, is_in_library)
}

/// Returns whether the next instruction is a system call. A thread whose wait in the kernel was interrupted goes on
/// there, and waits again.
fn is_at_system_call(pc: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    let code = [0x0f, 0x05];
    #[cfg(target_arch = "aarch64")]
    let code = 0xd400_0001_u32.to_le_bytes();
    // SAFETY: each byte that is read belongs to an instruction that the thread is about to execute. The later bytes are
    // read only if the first byte is that of the system call instruction.
    let byte = |nth: usize| unsafe { ((pc + nth) as *const u8).read() };
    pc > 0 && code.iter().enumerate().all(|(nth, &expected)| byte(nth) == expected)
}

/// Returns whether the address is in code of the libraries. May be called in a signal handler.
pub(super) fn is_in_library(at: usize) -> bool {
    CODE.iter().any(|[begin, end]| {
        (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&at)
    })
}

/// Finds the libraries, once for the process. Not for signal handlers: it takes the loader's lock.
pub(super) fn find_libraries() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let mut found = Found { marks: marks(), loader: loader(), nr: 0, objects: Vec::new() };
        each_object(|object| found.look_at(object));
        quiet::find(&found.objects);
    });
}

/// The search for libraries: the addresses that identify them, the number of stretches found, and the objects found.
struct Found {
    marks: [usize; 5],
    loader: Option<usize>,
    nr: usize,
    objects: Vec<Object>,
}

unsafe extern "C" {
    /// The unwinder's entry. Only its address is used.
    fn _Unwind_RaiseException();
}

/// Returns the addresses that identify the libraries. In a program that is not position-independent, the addresses of
/// functions may lie in the program itself.
fn marks() -> [usize; 5] {
    [
        text_of_the_c_library(),
        libc::pthread_create as *const () as usize,
        libc::fwrite as *const () as usize,
        libc::dlopen as *const () as usize,
        _Unwind_RaiseException as *const () as usize,
    ]
}

/// Returns the address of a constant of the GNU C library.
#[cfg(target_env = "gnu")]
fn text_of_the_c_library() -> usize {
    // SAFETY: the call has no arguments and returns the address of a constant.
    unsafe { libc::gnu_get_libc_version() as usize }
}

#[cfg(not(target_env = "gnu"))]
fn text_of_the_c_library() -> usize {
    libc::malloc as *const () as usize
}

/// Returns the loader's base address; `None` if the program has no loader.
fn loader() -> Option<usize> {
    // SAFETY: the call takes a number, and reads the words that the kernel left for the program.
    let base = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    (base > 0).then_some(base)
}

impl Found {
    fn look_at(&mut self, object: &Loaded<'_>) {
        let is_loader = self.loader == Some(object.base);
        let is_program = object.has(find_libraries as *const () as usize);
        if is_program || !is_loader && !self.marks.into_iter().any(|at| object.has(at)) {
            return;
        }
        self.objects.extend(object.unwinding());
        for (stretch, _) in object.stretches().filter(|&(_, is_code)| is_code) {
            if let Some([begin, end]) = CODE.get(self.nr) {
                begin.store(stretch.start, Ordering::Relaxed);
                end.store(stretch.end, Ordering::Relaxed);
                self.nr += 1;
            }
        }
    }
}

/// An object of the process, as the loader describes it.
#[derive(Clone, Copy)]
pub(super) struct Loaded<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

impl Loaded<'_> {
    /// Returns whether the address is inside the object.
    pub(super) fn has(&self, at: usize) -> bool {
        self.stretches().any(|(stretch, _)| stretch.contains(&at))
    }

    /// Returns the loaded parts of the object, each with whether it is code.
    fn stretches(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loaded.map(|header| (self.part(header), header.p_flags & libc::PF_X != 0))
    }

    fn part(&self, header: &libc::Elf64_Phdr) -> Range<usize> {
        let begin = self.base.wrapping_add(header.p_vaddr as usize);
        begin..begin + header.p_memsz as usize
    }

    /// Returns the object's unwinding data, if it has any.
    pub(super) fn unwinding(&self) -> Option<Object> {
        let is_it = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_GNU_EH_FRAME;
        let header = self.part(self.headers.iter().find(is_it)?);
        Some(Object { loaded: self.stretches().map(|(stretch, _)| stretch).collect(), header })
    }
}

/// Calls `look` with each object. The loader holds its lock meanwhile, so each object stays loaded. Not for signal
/// handlers.
pub(super) fn each_object<F: FnMut(&Loaded<'_>)>(mut look: F) {
    unsafe extern "C" fn call<F: FnMut(&Loaded<'_>)>(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        look: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the C library passes one object, and the pointer that `each_object` gave it.
        let (object, look) = unsafe { (&*object, &mut *look.cast::<F>()) };
        let nr = object.dlpi_phnum.into();
        // SAFETY: the object says where its headers are and how many there are.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, nr) };
        look(&Loaded { base: object.dlpi_addr as usize, headers });
        0
    }
    // SAFETY: the call lends `look` only to `call`, and only until it returns.
    unsafe {
        libc::dl_iterate_phdr(Some(call::<F>), (&raw mut look).cast());
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_and_the_program_is_not() {
        find_libraries();
        assert!(is_in_library(libc::pthread_create as *const () as usize));
        assert!(is_in_library(_Unwind_RaiseException as *const () as usize));
        assert!(!is_in_library(marks as *const () as usize));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let code = |name: &str| {
            let line = maps.lines().find(|line| line.contains(name) && line.contains(" r-xp "));
            let begin = line.and_then(|line| line.split('-').next());
            usize::from_str_radix(begin.expect("it is mapped"), 16).unwrap()
        };
        assert!(is_in_library(code("/libc.so")) && is_in_library(code("/ld-linux")));
    }
}
