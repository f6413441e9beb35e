//! Where the code lies that may hold a lock which everybody needs: the allocator's and the loader's, which
//! unwinding takes too (H4, H5).
//!
//! Found by addresses, as files have any names: of an object that has one of [`marks`], or is the loader,
//! all that can be executed is noted. Never of the program itself: a thread that is stopped in it is stopped,
//! and goes on when the keeper sees that somebody waits. So is one of a static program, which has the C
//! library inside itself. A system call is another such point, wherever it is.
//!
//! In some functions of the libraries nobody holds such a lock who was called by the program ([`quiet`]).

use crate::os::quiet::{self, Frame, Object};
use crate::os::sync::{AtomicUsize, OnceLock, Ordering};
use std::ops::Range;

/// As many stretches of code as there may be: the C library, of which old ones have threads and the loader's
/// calls apart, the loader, and the unwinder have one each.
const STRETCHES: usize = 16;

/// Where each begins and ends in memory.
static CODE: [[AtomicUsize; 2]; STRETCHES] =
    [const { [const { AtomicUsize::new(0) }; 2] }; STRETCHES];

/// Whether a thread that was interrupted there had better not be stopped at once: it may hold such a lock, or it
/// waited in the kernel and is about to wait again. May be called in a signal handler.
pub(super) fn is_unsafe(at: Frame) -> bool {
    is_at_system_call(at.pc)
        || is_in_library(at.pc) && !quiet::is_called_from_outside(at, is_in_library)
}

/// Whether the next instruction is a system call. That is where a thread goes on which was interrupted as it
/// waited in the kernel, and waits again.
fn is_at_system_call(pc: usize) -> bool {
    let code: &[u8] = match () {
        () if cfg!(target_arch = "x86_64") => &[0x0f, 0x05],
        () if cfg!(target_arch = "aarch64") => &0xd400_0001_u32.to_le_bytes(),
        () => return false,
    };
    // SAFETY: each byte is of an instruction that the thread is about to execute: a first byte that is the call's
    // has the others behind it.
    let byte = |nth: usize| unsafe { ((pc + nth) as *const u8).read() };
    pc > 0 && code.iter().enumerate().all(|(nth, &expected)| byte(nth) == expected)
}

/// Whether that is code of the libraries. May be called in a signal handler.
pub(super) fn is_in_library(at: usize) -> bool {
    CODE.iter().any(|[begin, end]| {
        (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&at)
    })
}

/// Looks where the libraries are, once for the process. Not in a signal handler: it takes the loader's lock.
pub(super) fn find_libraries() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let mut found = Found { marks: marks(), loader: loader(), nr: 0, objects: Vec::new() };
        each_object(|object| found.look_at(object));
        quiet::find(&found.objects);
    });
}

/// What is looked for, how many stretches were found, and of which objects.
struct Found {
    marks: [usize; 5],
    loader: Option<usize>,
    nr: usize,
    objects: Vec<Object>,
}

unsafe extern "C" {
    /// The unwinder's entry. Only its address is taken.
    fn _Unwind_RaiseException();
}

/// Addresses in the libraries that matter. In a program that is not independent of its position those of
/// functions may be in the program.
fn marks() -> [usize; 5] {
    [
        text_of_the_c_library(),
        libc::pthread_create as *const () as usize,
        libc::fwrite as *const () as usize,
        libc::dlopen as *const () as usize,
        _Unwind_RaiseException as *const () as usize,
    ]
}

/// A constant of the GNU C library.
#[cfg(target_env = "gnu")]
fn text_of_the_c_library() -> usize {
    // SAFETY: the call has no arguments and gives the address of a constant.
    unsafe { libc::gnu_get_libc_version() as usize }
}

#[cfg(not(target_env = "gnu"))]
fn text_of_the_c_library() -> usize {
    libc::malloc as *const () as usize
}

/// Where the loader begins; nowhere, if the program has none.
fn loader() -> Option<usize> {
    // SAFETY: the call takes a number, and reads what the kernel left for the program.
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

/// An object of the process, as the loader tells of it.
#[derive(Clone, Copy)]
pub(super) struct Loaded<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

impl Loaded<'_> {
    /// Whether that address is in it.
    pub(super) fn has(&self, at: usize) -> bool {
        self.stretches().any(|(stretch, _)| stretch.contains(&at))
    }

    /// What is loaded of it, and whether that is code.
    fn stretches(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loaded.map(|header| (self.part(header), header.p_flags & libc::PF_X != 0))
    }

    fn part(&self, header: &libc::Elf64_Phdr) -> Range<usize> {
        let begin = self.base.wrapping_add(header.p_vaddr as usize);
        begin..begin + header.p_memsz as usize
    }

    /// How it is unwound, if it says so.
    pub(super) fn unwinding(&self) -> Option<Object> {
        let is_it = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_GNU_EH_FRAME;
        let header = self.part(self.headers.iter().find(is_it)?);
        Some(Object { loaded: self.stretches().map(|(stretch, _)| stretch).collect(), header })
    }
}

/// Looks at all objects. The loader has its lock meanwhile, so what is looked at stays. Not in a signal handler.
pub(super) fn each_object<F: FnMut(&Loaded<'_>)>(mut look: F) {
    unsafe extern "C" fn call<F: FnMut(&Loaded<'_>)>(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        look: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the C library passes one object, and what `each_object` gave it.
        let (object, look) = unsafe { (&*object, &mut *look.cast::<F>()) };
        let nr = object.dlpi_phnum.into();
        // SAFETY: it says where its headers are, and how many.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, nr) };
        look(&Loaded { base: object.dlpi_addr as usize, headers });
        0
    }
    // SAFETY: the call lends `look` to `call` for as long as it takes, and to nobody else.
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
