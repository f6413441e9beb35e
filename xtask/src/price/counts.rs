//! The counts of one run: from callgrind's file, joined with the disassembly of the objects that it names.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::workspace::{self, Outcome, program};

/// The functions of the C library that allocate.
const ALLOCATING: [&str; 6] =
    ["malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"];

/// The counts of a run, or of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions in user mode.
    pub instructions: f64,
    /// Instructions that lock the bus or a cache line.
    pub locked: f64,
    /// Readings of the time-stamp counter.
    pub clock_reads: f64,
    /// Calls of the C library's allocator that allocate.
    pub allocations: f64,
}

impl Counts {
    /// The counts of one operation, of which the longer run had `more`.
    pub(super) fn of_one(shorter: Counts, longer: Counts, more: u64) -> Counts {
        let one = |short: f64, long: f64| (long - short) / more as f64;
        Counts {
            instructions: one(shorter.instructions, longer.instructions),
            locked: one(shorter.locked, longer.locked),
            clock_reads: one(shorter.clock_reads, longer.clock_reads),
            allocations: one(shorter.allocations, longer.allocations),
        }
    }
}

/// The kinds of instructions that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Locked,
    ClockRead,
    Other,
}

impl Kind {
    /// The kind of an instruction, as objdump writes it.
    fn of(instruction: &str) -> Kind {
        // To exchange a register with memory locks without a prefix.
        let exchanges = instruction.starts_with("xchg") && instruction.contains('(');
        match instruction.split_whitespace().next() {
            Some("lock") => Kind::Locked,
            _ if exchanges => Kind::Locked,
            Some("rdtsc" | "rdtscp") => Kind::ClockRead,
            _ => Kind::Other,
        }
    }
}

/// How often the instructions of each object were executed, by their addresses, and the calls that allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Executed {
    objects: BTreeMap<String, BTreeMap<u64, u64>>,
    allocations: u64,
}

/// The disassembly of the objects that were asked for.
#[derive(Default)]
pub(super) struct Code(BTreeMap<String, HashMap<u64, Kind>>);

impl Code {
    /// The kinds of the instructions of an object by their addresses; `None` if the object is no file.
    fn of(&mut self, object: &str) -> Outcome<Option<&HashMap<u64, Kind>>> {
        if !Path::new(object).is_file() {
            return Ok(None);
        }
        if !self.0.contains_key(object) {
            let shown =
                workspace::output(program("objdump").args(["-d", "--no-show-raw-insn", object]))?;
            let code =
                String::from_utf8_lossy(&shown.stdout).lines().filter_map(instruction).collect();
            self.0.insert(object.to_owned(), code);
        }
        Ok(self.0.get(object))
    }
}

/// Counts a run from callgrind's file, written with `--dump-instr=yes --dump-line=no` and without compression.
pub(super) fn counts(file: &str, code: &mut Code) -> Outcome<Counts> {
    let executed = executed(file)?;
    let mut counts = Counts { allocations: executed.allocations as f64, ..Counts::default() };
    let (mut all, mut known) = (0, 0);
    for (object, executed) in &executed.objects {
        all += executed.values().sum::<u64>();
        let Some(code) = code.of(object)? else { continue };
        for (address, times) in executed {
            let Some(kind) = code.get(address) else { continue };
            known += times;
            match kind {
                Kind::Locked => counts.locked += *times as f64,
                Kind::ClockRead => counts.clock_reads += *times as f64,
                Kind::Other => {}
            }
        }
    }
    counts.instructions = all as f64;
    // Objects that are no files, such as the kernel's, have little.
    if known * 100 < all * 99 {
        return Err(format!("only {known} of {all} instructions are in the disassembly").into());
    }
    Ok(counts)
}

/// The address and the kind in a line of objdump: `  1a2b: lock xadd %eax,(%rdi)`.
fn instruction(line: &str) -> Option<(u64, Kind)> {
    let (address, instruction) = line.split_once(":\t")?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    Some((address, Kind::of(instruction)))
}

fn executed(file: &str) -> Outcome<Executed> {
    let mut executed = Executed::default();
    let (mut object, mut callee) = (String::new(), "");
    let mut lines = file.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("ob=") {
            name.clone_into(&mut object);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = name;
        } else if let Some(call) = line.strip_prefix("calls=") {
            let times = call.split(' ').next().and_then(|times| times.parse::<u64>().ok());
            let times = times.ok_or_else(|| format!("not a call of callgrind: {line}"))?;
            // A name may have a version: `malloc@@GLIBC_2.2.5`, and callgrind's mark of a recursion: `malloc'2`.
            let name = callee.split(['@', '\'']).next().unwrap_or_default();
            if ALLOCATING.contains(&name) {
                executed.allocations += times;
            }
            // The next line has the cost of what was called.
            lines.next();
        } else if let Some(cost) = line.strip_prefix("0x") {
            let wrong = || format!("not a cost of callgrind: {line}");
            let (address, times) = cost.split_once(' ').ok_or_else(wrong)?;
            let address = u64::from_str_radix(address, 16).map_err(|_| wrong())?;
            let times: u64 = times.trim().parse().map_err(|_| wrong())?;
            *executed.objects.entry(object.clone()).or_default().entry(address).or_default() +=
                times;
        }
    }
    Ok(executed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
version: 1
positions: instr
events: Ir

ob=/bin/a
fl=???
fn=main
0x10 5
0x14 2
cob=/lib/libc.so.6
cfi=???
cfn=malloc
calls=3 0x99
0x14 300
0x18 1

ob=/lib/libc.so.6
fn=malloc
0x99 3
cfn=malloc'2
calls=2 0x99
0x9c 100
";

    #[test]
    fn a_file_of_callgrind_says_how_often_each_instruction_was_executed() {
        let executed = executed(FILE).unwrap();
        assert_eq!(executed.objects["/bin/a"], [(0x10, 5), (0x14, 2), (0x18, 1)].into());
        assert_eq!(executed.objects["/lib/libc.so.6"], [(0x99, 3)].into());
        assert_eq!(executed.allocations, 5);
    }

    #[test]
    fn a_broken_file_is_an_error_with_its_line() {
        let error = super::executed("0x10 many\n").unwrap_err().to_string();
        assert_eq!(error, "not a cost of callgrind: 0x10 many");
    }

    #[test]
    fn an_instruction_has_its_kind() {
        let kind = |line| instruction(line).map(|(_, kind)| kind);
        assert_eq!(kind("   1a2b:\tlock xadd %eax,(%rdi)"), Some(Kind::Locked));
        assert_eq!(kind("   1a2b:\txchg   %eax,(%rdi)"), Some(Kind::Locked));
        assert_eq!(kind("   1a2b:\txchg   %ax,%ax"), Some(Kind::Other));
        assert_eq!(kind("   1a2b:\trdtsc"), Some(Kind::ClockRead));
        assert_eq!(kind("0000000000001a2b <main>:"), None);
    }

    #[test]
    fn the_longer_run_has_the_cost_of_its_operations_more() {
        let run = |instructions| Counts { instructions, ..Counts::default() };
        assert_eq!(Counts::of_one(run(100.0), run(350.0), 10), run(25.0));
    }
}
