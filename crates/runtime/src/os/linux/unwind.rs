//! Follows a copy of a stack from function to function, by the unwinding tables that compilers write.
//!
//! Not for signal handlers, and not for the thread of that stack itself. The tables are those of the loaded objects.
//! Each is used only while the loader reports its object and holds its lock, so the object stays loaded.

use super::code;
use super::quiet::{Object, Tables};
use gimli::{CfaRule, EhFrame, Register, RegisterRule, UnwindContext, UnwindSection};

/// The most functions that are followed: of an endless recursion, the innermost ones.
const MOST: usize = 256;

/// The number of registers that unwinding uses, and the numbers of some of them in the tables. The address of the next
/// instruction comes last.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: usize = 17;
#[cfg(target_arch = "x86_64")]
pub(super) const SP: usize = 7;
#[cfg(target_arch = "x86_64")]
const RETURN: usize = 16;

/// The same for 64-bit Arm.
#[cfg(target_arch = "aarch64")]
pub(super) const REGISTERS: usize = 33;
#[cfg(target_arch = "aarch64")]
pub(super) const SP: usize = 31;
#[cfg(target_arch = "aarch64")]
const RETURN: usize = 30;

/// The number of the next instruction's address.
const PC: usize = REGISTERS - 1;

/// All registers of a thread that unwinding uses.
pub(super) type Registers = [usize; REGISTERS];

/// Returns the addresses in the functions of a thread with these registers and the stack of `word_at`: first the
/// innermost function, then each caller's return address.
pub(super) fn addresses(
    registers: Registers,
    word_at: impl Fn(usize) -> Option<usize>,
) -> Vec<usize> {
    let mut found = Vec::with_capacity(MOST);
    found.push(registers[PC]);
    let mut walk = Walk { registers, word_at: &word_at, is_behind_call: false, is_over: false };
    let mut context = UnwindContext::new();
    loop {
        let before = found.len();
        // All objects are visited again and again: a caller may be in an object that was visited before.
        code::each_object(|object| {
            let is_here = |walk: &Walk<'_>| !walk.is_over && object.has(walk.inside());
            let unwinding = if is_here(&walk) { object.unwinding() } else { None };
            while is_here(&walk) && found.len() < MOST {
                let step =
                    unwinding.as_ref().and_then(|unwinding| walk.step(unwinding, &mut context));
                walk.is_over = step.is_none();
                found.extend(step);
            }
        });
        if found.len() == before || found.len() == MOST {
            return found;
        }
    }
}

/// The way from the innermost function outwards.
struct Walk<'a> {
    registers: Registers,
    word_at: &'a dyn Fn(usize) -> Option<usize>,
    /// Whether the next instruction is behind a call, and so may be behind its function.
    is_behind_call: bool,
    is_over: bool,
}

impl Walk<'_> {
    /// Returns an address inside the function.
    fn inside(&self) -> usize {
        self.registers[PC] - usize::from(self.is_behind_call)
    }

    /// Goes on to the caller of a function of this object, which stays loaded. Returns the address at which the caller
    /// goes on; `None` if it is not known.
    fn step(&mut self, object: &Object, context: &mut UnwindContext<usize>) -> Option<usize> {
        // SAFETY: the loader holds its lock, so the object stays loaded.
        let Tables { header, frames, bases } = unsafe { object.tables() }.ok()??;
        let at = self.inside() as u64;
        let table = header.table()?;
        let entry = table.fde_for_address(&frames, &bases, at, EhFrame::cie_from_offset).ok()?;
        let row = entry.unwind_info_for_address(&frames, &bases, context, at).ok()?;
        let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let end = self.register(register)?.checked_add_signed(isize::try_from(offset).ok()?)?;
        let place = |offset: i64| end.checked_add_signed(isize::try_from(offset).ok()?);
        let mut caller = self.registers;
        for (nth, value) in caller.iter_mut().enumerate() {
            match row.register(Register(nth as u16)) {
                None | Some(RegisterRule::SameValue) => {}
                Some(RegisterRule::Offset(offset)) => *value = (self.word_at)(place(offset)?)?,
                Some(RegisterRule::ValOffset(offset)) => *value = place(offset)?,
                Some(RegisterRule::Register(other)) => *value = self.register(other)?,
                // A register that no code saved: the caller's table says that it does not need it.
                Some(_) => *value = 0,
            }
        }
        caller[SP] = end;
        caller[PC] = caller[RETURN];
        // Only the innermost function may have an empty frame.
        let is_sane = caller[PC] > 0 && (end > self.registers[SP] || !self.is_behind_call);
        self.registers = caller;
        self.is_behind_call = !entry.is_signal_trampoline();
        is_sane.then_some(caller[PC])
    }

    fn register(&self, register: Register) -> Option<usize> {
        self.registers.get(usize::from(register.0)).copied()
    }
}
