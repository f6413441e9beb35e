//! The counters of a run as the text of `/proc/schedstat`, in the version of its format that a kernel has.
//!
//! The events of a run have all counters of the lines of CPUs, and the results of balancing for those of domains. So
//! the sums over the text are those of the report: of the time that tasks executed and waited, of switches, and of
//! passes. Some columns of domains have no count here and are 0: the sums of imbalances, the tasks that were moved while
//! their caches were warm, `lb_nobusyq` (a pass without a busier run queue counts in `lb_nobusyg`), and the choices of
//! wake-ups that the machine makes otherwise than the kernel. Linux itself no longer counts `sbe_*` and `sbf_*`.
//!
//! The kernel's own text is a count since its start. [`difference`] makes the count of a run of two of them.

use crate::account::CpuTotals;
use crate::balance::{BalanceTotals, IDLE_KINDS};
use runyard_engine::balance::{Balanced, IdleKind};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::kernel::Kernel;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use runyard_engine::topology::{Level, Topology};
use std::fmt::Write;

/// The unit of the time stamp: the tick of a kernel with HZ=1000.
const JIFFY: Nanos = Nanos::from_millis(1);

/// The numbers of a CPU's line.
const CPU_NUMBERS: usize = 9;

/// The numbers of a domain's line that do not depend on the state of the CPU.
const DOMAIN_NUMBERS: usize = 12;

/// The CPUs of a word of a mask.
const WORD: usize = 32;

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchedstatVersion {
    /// Through Linux 6.9: passes of idle CPUs come before those of busy ones.
    V15,
    /// From 6.10 on: passes of busy CPUs come first.
    V16,
    /// From 6.14 on: domains have names, and imbalances four columns.
    V17,
}

impl SchedstatVersion {
    /// All versions.
    pub const ALL: [SchedstatVersion; 3] =
        [SchedstatVersion::V15, SchedstatVersion::V16, SchedstatVersion::V17];

    /// The version of a kernel; 15 for a kernel that was not released.
    #[must_use]
    pub fn of(kernel: Kernel) -> SchedstatVersion {
        match kernel {
            Kernel::V6_12 => SchedstatVersion::V16,
            Kernel::V6_18_15 | Kernel::V6_18 => SchedstatVersion::V17,
            _ => SchedstatVersion::V15,
        }
    }

    /// Its number in the first line of the text.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            SchedstatVersion::V15 => 15,
            SchedstatVersion::V16 => 16,
            SchedstatVersion::V17 => 17,
        }
    }

    /// The columns of the sums of imbalances.
    fn imbalances(self) -> usize {
        if self == SchedstatVersion::V17 { 4 } else { 1 }
    }

    /// The words before the numbers of a domain's line.
    fn domain_words(self) -> usize {
        if self == SchedstatVersion::V17 { 3 } else { 2 }
    }

    /// The numbers of a domain's line.
    fn domain_numbers(self) -> usize {
        IDLE_KINDS.len() * (7 + self.imbalances()) + DOMAIN_NUMBERS
    }

    /// The states of a CPU in the order of their columns.
    fn moments(self) -> [IdleKind; IDLE_KINDS.len()] {
        match self {
            SchedstatVersion::V15 => [IdleKind::Idle, IdleKind::Busy, IdleKind::NewlyIdle],
            _ => [IdleKind::Busy, IdleKind::Idle, IdleKind::NewlyIdle],
        }
    }
}

/// The counters of a run, from its events.
#[derive(Debug)]
pub(crate) struct Schedstat {
    topology: Topology,
    cpus: Vec<CpuCounts>,
    /// For each task the part of its wait that is among the delays of CPUs.
    charged: Vec<Nanos>,
    /// The CPU of a timer that expired, until the wake-up that follows.
    expired: Option<CpuId>,
}

/// The counters of one CPU.
#[derive(Clone, Debug, Default)]
struct CpuCounts {
    yields: u64,
    decisions: u64,
    went_idle: u64,
    wakeups: u64,
    own_wakeups: u64,
    waited: Nanos,
    domains: Vec<DomainCounts>,
}

/// The counters of a domain of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct DomainCounts {
    passes: [BalanceTotals; IDLE_KINDS.len()],
    /// Wake-ups by this CPU on another CPU of the domain, and of no smaller one.
    remote_wakeups: u64,
}

impl Schedstat {
    pub(crate) fn new(topology: Topology) -> Schedstat {
        let domains = vec![DomainCounts::default(); topology.levels().count()];
        let cpu = CpuCounts { domains, ..CpuCounts::default() };
        let cpus = vec![cpu; topology.cpus()];
        Schedstat { topology, cpus, charged: Vec::new(), expired: None }
    }

    /// Forgets the counts so far, when the accounts of tasks begin anew.
    pub(crate) fn forget(&mut self) {
        *self = Schedstat { expired: self.expired, ..Schedstat::new(self.topology) };
    }

    /// Takes the next event. A wake-up has a method of its own.
    pub(crate) fn event(&mut self, event: &Event) {
        match event.what {
            What::Switch { prev, next } => {
                let cpu = &mut self.cpus[event.cpu.index()];
                cpu.decisions += 1;
                cpu.went_idle += u64::from(next.is_none());
                cpu.yields += u64::from(matches!(prev, Some((_, Left::Yielded))));
            }
            What::Balanced(balanced) => self.balanced(event.cpu, balanced),
            What::TimerExpired { .. } => {
                self.expired = Some(event.cpu);
                return;
            }
            _ => {}
        }
        self.expired = self.expired.filter(|&cpu| cpu != event.cpu);
    }

    /// Counts a wake-up of a task on the CPU `to`. The CPU `by` executes the task that woke it, if a task did.
    pub(crate) fn wake(&mut self, to: CpuId, by: Option<CpuId>) {
        let expired = self.expired.take();
        let by = by.or(expired).unwrap_or(to);
        let near = |level: &Level| self.topology.span(by, *level).contains(&to.index());
        let domain = self.topology.levels().position(|level| near(&level));
        let cpu = &mut self.cpus[by.index()];
        cpu.wakeups += 1;
        match domain.filter(|_| by != to) {
            None => cpu.own_wakeups += 1,
            Some(domain) => cpu.domains[domain].remote_wakeups += 1,
        }
    }

    /// Notes that a task that waited so long in its life is on this CPU.
    pub(crate) fn wait(&mut self, cpu: CpuId, task: TaskId, waited: Nanos) {
        if task.index() >= self.charged.len() {
            self.charged.resize(task.index() + 1, Nanos::ZERO);
        }
        let charged = std::mem::replace(&mut self.charged[task.index()], waited);
        self.cpus[cpu.index()].waited += waited - charged;
    }

    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        let Some(at) = self.topology.levels().position(|level| level == balanced.level) else {
            return;
        };
        let domain = &mut self.cpus[cpu.index()].domains[at];
        domain.passes[balanced.idle_kind as usize].add(balanced.found);
    }

    /// The text in this version of the format, for a run of this length with these accounts of its CPUs.
    pub(crate) fn text(
        &self,
        version: SchedstatVersion,
        duration: Nanos,
        account: impl Fn(CpuId) -> CpuTotals,
    ) -> String {
        let mut text =
            format!("version {}\ntimestamp {}\n", version.number(), duration.0 / JIFFY.0);
        let levels: Vec<_> = self.topology.levels().collect();
        for (id, cpu) in self.topology.iter().zip(&self.cpus) {
            let account = account(id);
            let numbers: [u64; CPU_NUMBERS] = [
                cpu.yields,
                0,
                cpu.decisions,
                cpu.went_idle,
                cpu.wakeups,
                cpu.own_wakeups,
                account.executing().0,
                cpu.waited.0,
                account.switches,
            ];
            line(&mut text, format_args!("cpu{}", id.index()), numbers);
            for (at, (&level, domain)) in levels.iter().zip(&cpu.domains).enumerate() {
                let mask = mask(self.topology.span(id, level), self.topology.cpus());
                let numbers = domain.numbers(version);
                match version {
                    SchedstatVersion::V17 => {
                        let name = domain_name(level);
                        line(&mut text, format_args!("domain{at} {name} {mask}"), numbers);
                    }
                    _ => line(&mut text, format_args!("domain{at} {mask}"), numbers),
                }
            }
        }
        text
    }
}

impl DomainCounts {
    fn numbers(&self, version: SchedstatVersion) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(version.domain_numbers());
        let mut all = BalanceTotals::default();
        for moment in version.moments() {
            let passes = self.passes[moment as usize];
            all.taken += passes.taken;
            // A pass that found only pinned tasks is balanced in the kernel's count.
            numbers.extend([passes.passes(), passes.balanced + passes.pinned, passes.failed]);
            numbers.extend(vec![0; version.imbalances()]);
            let (hot, no_queue, no_group) = (0, 0, passes.balanced);
            numbers.extend([passes.moved, hot, no_queue, no_group]);
        }
        // A request for a running task counts once it is granted, so none fails.
        numbers.extend([all.taken, 0, all.taken]);
        numbers.extend([0; 6]);
        numbers.extend([self.remote_wakeups, 0, 0]);
        numbers
    }
}

/// The kernel's name of a domain.
fn domain_name(level: Level) -> &'static str {
    match level {
        Level::Smt => "SMT",
        Level::Node => "MC",
        Level::Machine => "NUMA",
    }
}

fn line(text: &mut String, begin: std::fmt::Arguments<'_>, numbers: impl IntoIterator<Item = u64>) {
    write!(text, "{begin}").expect("a string takes all");
    numbers.into_iter().for_each(|it| write!(text, " {it}").expect("a string takes all"));
    text.push('\n');
}

/// A mask of CPUs in hexadecimal, in words of 32 CPUs, as the kernel prints it.
fn mask(span: std::ops::Range<usize>, cpus: usize) -> String {
    let word = |word: usize| {
        let here = cpus.min((word + 1) * WORD) - word * WORD;
        let bits = (0..here).filter(|bit| span.contains(&(word * WORD + bit)));
        let bits = bits.fold(0_u32, |bits, bit| bits | 1 << bit);
        format!("{bits:0width$x}", width = here.div_ceil(4))
    };
    (0..cpus.div_ceil(WORD)).rev().map(word).collect::<Vec<_>>().join(",")
}

/// The counts between two texts of one kernel, in the same form.
///
/// # Errors
/// If a text is not in a known version of the format, or the CPUs are not the same.
pub fn difference(before: &str, after: &str) -> Result<String, String> {
    let version = version_of(after)?;
    let mut text = format!("version {}\n", version.number());
    let (before, after) = (before.lines(), after.lines());
    if before.clone().count() != after.clone().count() {
        return Err("the CPUs or domains have changed".to_owned());
    }
    for (old, new) in before.zip(after).skip(1) {
        let (old_words, old) = split(old, version)?;
        let (words, new) = split(new, version)?;
        if old_words != words {
            return Err(format!("{} became {}", old_words.join(" "), words.join(" ")));
        }
        // Some of the kernel's counters have 32 bits and begin again at 0.
        let since = |(new, old): (u64, u64)| match new.checked_sub(old) {
            Some(count) => count,
            None => u64::from((new as u32).wrapping_sub(old as u32)),
        };
        line(&mut text, format_args!("{}", words.join(" ")), new.into_iter().zip(old).map(since));
    }
    Ok(text)
}

fn version_of(text: &str) -> Result<SchedstatVersion, String> {
    let first = text.lines().next().unwrap_or_default();
    let known = SchedstatVersion::ALL.into_iter();
    let mut known = known.filter(|it| first == format!("version {}", it.number()));
    known.next().ok_or_else(|| format!("{first:?} is no known version of the format"))
}

/// The words and the numbers of a line.
fn split(line: &str, version: SchedstatVersion) -> Result<(Vec<&str>, Vec<u64>), String> {
    let all: Vec<_> = line.split_whitespace().collect();
    let first = all.first().copied().unwrap_or_default();
    let (words, count) = match first {
        "timestamp" => (1, 1),
        _ if first.starts_with("cpu") => (1, CPU_NUMBERS),
        _ if first.starts_with("domain") => (version.domain_words(), version.domain_numbers()),
        _ => return Err(format!("{first:?} begins no line of the format")),
    };
    let numbers = all.get(words..).unwrap_or_default().iter().map(|word| word.parse());
    let numbers: Vec<_> =
        numbers.collect::<Result<_, _>>().map_err(|_| format!("not a number in {line:?}"))?;
    match numbers.len() == count {
        true => Ok((all[..words].to_vec(), numbers)),
        false => Err(format!("{first} has {} numbers, not {count}", numbers.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_digit_for_four_cpus_and_a_comma_for_each_32() {
        assert_eq!(mask(0..1, 1), "1");
        assert_eq!(mask(2..4, 6), "0c");
        assert_eq!(mask(32..36, 36), "f,00000000");
        assert_eq!(mask(0..64, 64), "ffffffff,ffffffff");
    }

    #[test]
    fn each_version_has_the_numbers_that_the_kernel_documents() {
        let counts = SchedstatVersion::ALL.map(|it| (it.number(), it.domain_numbers()));
        assert_eq!(counts, [(15, 36), (16, 36), (17, 45)]);
        let of = |name: &str| SchedstatVersion::of(name.parse().unwrap()).number();
        assert_eq!(["6.1", "6.6", "6.12", "6.18"].map(of), [15, 15, 16, 17]);
        assert_eq!(of("idle-balance"), 15);
    }

    #[test]
    fn a_difference_keeps_the_words_and_subtracts_the_numbers() {
        let text = |start: u64| {
            let numbers = |count: u64| (start..start + count).map(|it| format!(" {it}"));
            let [cpu, domain] = [9, 45].map(|count| numbers(count).collect::<String>());
            format!("version 17\ntimestamp {start}\ncpu0{cpu}\ndomain0 MC 3{domain}\n")
        };
        let [cpu, domain] = [9, 45].map(|count| " 5".repeat(count));
        let since = format!("version 17\ntimestamp 5\ncpu0{cpu}\ndomain0 MC 3{domain}\n");
        assert_eq!(difference(&text(2), &text(7)), Ok(since));
        let wrapped = difference(&text(u64::from(u32::MAX)), &text(u64::from(u32::MAX) + 1));
        assert!(wrapped.unwrap().contains("timestamp 1\n"));
        let [short, unknown] = [("domain0 MC 3 2", "domain0 MC 3"), ("version 17", "version 14")]
            .map(|(from, to)| difference(&text(2), &text(7).replace(from, to)));
        assert_eq!(unknown.unwrap_err(), "\"version 14\" is no known version of the format");
        assert!(short.is_ok(), "another first number is no missing one");
        let cut = text(7).trim_end().rsplit_once(' ').unwrap().0.to_owned();
        assert_eq!(difference(&text(2), &cut).unwrap_err(), "domain0 has 44 numbers, not 45");
    }
}
