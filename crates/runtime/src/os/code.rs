//! Where the code lies that may hold a lock which everybody needs: the allocator's and the loader's, which
//! unwinding takes too (H4, H5).
//!
//! Found by addresses, as files have any names: of an object that has one of [`marks`], or is the loader,
//! all that can be executed is noted. Never of the program itself: a thread that is stopped in it is stopped,
//! and goes on when the keeper sees that somebody waits. So is one of a static program, which has the C
//! library inside itself.
//!
//! In some functions of the libraries nobody holds such a lock who was called by the program ([`quiet`]).

use crate::os::quiet::{self, Frame, Object};
use crate::primitives::{AtomicUsize, Once, Ordering};

/// As many stretches of code as there may be: the C library, of which old ones have threads and the loader's
/// calls apart, the loader, and the unwinder have one each.
const STRETCHES: usize = 16;

/// Where each begins and ends in memory.
static CODE: [[AtomicUsize; 2]; STRETCHES] =
    [const { [const { AtomicUsize::new(0) }; 2] }; STRETCHES];

/// Whether somebody who is there may hold such a lock. May be called in a signal handler.
pub(super) fn may_hold_a_lock(at: Frame) -> bool {
    is_in_library(at.pc) && !quiet::is_called_from_outside(at, is_in_library)
}

/// Whether that is code of the libraries. May be called in a signal handler.
pub(super) fn is_in_library(at: usize) -> bool {
    CODE.iter().any(|[begin, end]| {
        (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&at)
    })
}

/// Looks where the libraries are, once for the process. Not in a signal handler: it takes the loader's lock.
pub(super) fn find_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut found = Found { marks: marks(), loader: loader(), nr: 0, objects: Vec::new() };
        // SAFETY: the call lends `found` to `look_at` for as long as it takes, and to nobody else.
        unsafe {
            libc::dl_iterate_phdr(Some(look_at), (&raw mut found).cast());
        }
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

unsafe extern "C" fn look_at(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library passes one object, and what `find_libraries` gave it.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<Found>()) };
    // SAFETY: it says where its headers are, and how many.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let base = object.dlpi_addr as usize;
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let stretches = loaded.map(|header| {
        let begin = base.wrapping_add(header.p_vaddr as usize);
        (begin..begin + header.p_memsz as usize, header.p_flags & libc::PF_X != 0)
    });
    let has = |at: usize| stretches.clone().any(|(stretch, _)| stretch.contains(&at));
    let is_loader = found.loader == Some(base);
    if has(look_at as *const () as usize) || !is_loader && !found.marks.into_iter().any(has) {
        return 0;
    }
    let unwinding = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    found.objects.extend(unwinding.map(|header| {
        let begin = base.wrapping_add(header.p_vaddr as usize);
        let loaded = stretches.clone().map(|(stretch, _)| stretch).collect();
        Object { loaded, header: begin..begin + header.p_memsz as usize }
    }));
    for (stretch, _) in stretches.clone().filter(|&(_, is_code)| is_code) {
        if let Some([begin, end]) = CODE.get(found.nr) {
            begin.store(stretch.start, Ordering::Relaxed);
            end.store(stretch.end, Ordering::Relaxed);
            found.nr += 1;
        }
    }
    0
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
