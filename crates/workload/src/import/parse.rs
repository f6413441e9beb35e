//! From the lines of a recording to records.
//!
//! Three formats are read line by line, and may be mixed. They are `perf sched script` (and `perf script`) in the
//! kernel's format, the same in the format of libtraceevent's plug-in (`prev:1 [120] S ==> next:2 [120]`), and ftrace's
//! text, with or without flags and thread group. A line begins with the running task, the CPU and the time; the event
//! follows.
//!
//! A task's name may contain any character, also spaces and `-`, `:`, `=`. So a field after a name is searched from the
//! right, where only numbers follow it. The fields before the CPU are searched in the same way.
//!
//! An invalid line is skipped and counted, and the first few are reported with their places. Events that the import
//! does not use are valid lines.

use crate::diagnostic::Fault;
use runyard_engine::cpu::MAX_CPUS;

/// The number of invalid lines that are reported.
const TOLD: usize = 10;

/// The longest recording. An event further from the first one has a broken time.
const LONGEST_NS: u64 = 24 * 60 * 60 * 1_000_000_000;

/// The number of brackets that are tried for the CPU of a line. The kernel's names have 15 bytes, each of which may be
/// a bracket.
const BRACKETS: usize = 16;

/// The number of `==>` that are tried for the one between the tasks of a switch. A name has room for three.
const ARROWS: usize = 4;

/// The number of the idle task, on every CPU.
pub const IDLE: u32 = 0;

/// The note in a trace that says when the run of a scenario begins, before the number of nanoseconds of
/// CLOCK_MONOTONIC. `runyard linux` writes it.
pub const BEGINS: &str = "runyard: the run begins at ";

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'t> {
    /// The name of the thread.
    pub comm: &'t str,
    /// Its number.
    pub tid: u32,
    /// The kernel's priority: 0 to 99 real-time, where a lower number precedes; 100 to 139 fair; below 0 deadline.
    pub prio: i32,
}

/// The state of a task that leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The task is runnable.
    Ready,
    /// The task sleeps.
    Asleep,
    /// The task sleeps without reacting to signals, mostly for a device.
    Blocked,
    /// The task has ended.
    Exited,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'t> {
    /// A CPU goes from one task to another.
    Switch {
        /// The task that had the CPU.
        prev: Named<'t>,
        /// The state in which it left.
        left: Left,
        /// The task that has it now.
        next: Named<'t>,
    },
    /// A wake-up, as the waker records it.
    Waking(Named<'t>),
    /// A woken task becomes runnable, as the CPU of its queue records it.
    Wakeup(Named<'t>),
    /// A task is runnable for the first time.
    New(Named<'t>),
    /// The kernel charged a task for so many nanoseconds up to now.
    Charged {
        /// The number of the thread.
        tid: u32,
        /// The CPU time, in nanoseconds.
        nanos: u64,
    },
    /// A note of [`runyard linux`](BEGINS): its run begins at this time, by CLOCK_MONOTONIC.
    Begins(u64),
    /// Any other event that names the running task.
    Other,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'t> {
    /// The time, in nanoseconds of the recorder's clock.
    pub at: u64,
    /// The number of the CPU.
    pub cpu: u32,
    /// The running task and its name. Both are unknown if perf recorded a task that has ended.
    pub who: Option<(u32, &'t str)>,
    /// Whether this happened in an interrupt, as far as the line says.
    pub interrupt: bool,
    /// Whether the kernel is asked to reschedule this CPU at this moment, as far as the line says.
    pub resched: bool,
    /// What happened.
    pub what: What<'t>,
}

impl Record<'_> {
    fn names_deadline(&self) -> bool {
        let is_deadline = |task: &Named<'_>| task.prio < 0;
        match &self.what {
            What::Switch { prev, next, .. } => is_deadline(prev) || is_deadline(next),
            What::Waking(task) | What::Wakeup(task) | What::New(task) => is_deadline(task),
            What::Charged { .. } | What::Begins(_) | What::Other => false,
        }
    }
}

/// The content of a text.
#[derive(Debug, Default)]
pub(super) struct Recording<'t> {
    /// The records in the order of time.
    pub(super) records: Vec<Record<'t>>,
    /// The number of invalid lines, and the first of them.
    pub(super) skipped: usize,
    pub(super) faults: Vec<Fault>,
    /// The number of events that the recorder reports as lost.
    pub(super) lost: u64,
    /// The recorded kernel, as `uname -r` prints it (`perf script --header`).
    pub(super) release: Option<&'t str>,
    /// The begin of the first line that names a task of the deadline policy.
    pub(super) first_deadline: Option<usize>,
}

/// Returns the events of a recording in the order of time. Invalid lines are skipped.
///
/// ```
/// use runyard_workload::import::{Left, What, records};
///
/// let text = "a-7 [000] d..2. 1.000005000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 \
///     prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120";
/// let [record] = records(text)[..] else { panic!("there is one line") };
/// assert!(matches!(record.what, What::Switch { left: Left::Asleep, .. }));
/// ```
#[must_use]
pub fn records(text: &str) -> Vec<Record<'_>> {
    recording(text).records
}

/// Reads a recording. The lines need not be in order.
pub(super) fn recording(text: &str) -> Recording<'_> {
    let mut recording = Recording::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Err((column, what)) = recording.take(line.trim_end()) {
            recording.skipped += 1;
            if recording.faults.len() < TOLD {
                recording.faults.push(Fault::new(at + column, what));
            }
        }
        let read = recording.records.last().filter(|_| recording.first_deadline.is_none());
        if read.is_some_and(Record::names_deadline) {
            recording.first_deadline = Some(at);
        }
        at += line.len();
    }
    // Lines of several CPUs may be merged out of order. Lines with equal times keep their order.
    recording.records.sort_by_key(|record| record.at);
    recording
}

type Nonsense = (usize, &'static str);

impl<'t> Recording<'t> {
    fn take(&mut self, line: &'t str) -> Result<(), Nonsense> {
        if let Some(said) = line.strip_prefix('#') {
            self.release = self.release.or(release(said));
            return Ok(());
        }
        if line.trim_start().is_empty() {
            return Ok(());
        }
        if let Some(events) = lost(line) {
            self.lost = self.lost.saturating_add(events);
            return Ok(());
        }
        let record = record(line)?;
        let first = self.records.first().unwrap_or(&record);
        if record.at.abs_diff(first.at) > LONGEST_NS {
            return Err((indent(line), "more than a day from the first event"));
        }
        self.records.push(record);
        Ok(())
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Reads ` os release : 6.18.44`.
fn release(said: &str) -> Option<&str> {
    let (key, value) = said.split_once(':')?;
    (key.trim() == "os release").then(|| value.trim())
}

/// Returns the number of lost events in `CPU:1 [LOST 12 EVENTS]` or `CPU:1 [12 EVENTS DROPPED]`.
fn lost(line: &str) -> Option<u64> {
    let note = line.strip_prefix("CPU:")?.split_once('[')?.1.strip_suffix(']')?;
    let events = note.strip_prefix("LOST ").map_or_else(|| note.strip_suffix(" DROPPED"), Some)?;
    events.strip_suffix(" EVENTS")?.parse().ok()
}

/// Returns the record of a line, or the place at which the line becomes invalid.
fn record(line: &str) -> Result<Record<'_>, Nonsense> {
    let mut heads = line.match_indices('[').take(BRACKETS).filter_map(|(at, _)| head(line, at));
    let Some((mut record, name, fields)) = heads.next() else {
        return Err((indent(line), "no event: a line has `COMM-PID [CPU] SECONDS: EVENT: FIELDS`"));
    };
    let what = match name {
        "sched_switch" => switch(fields).ok_or("no sched_switch: tasks, state or `==>` missing"),
        "sched_waking" => woken(fields, What::Waking),
        "sched_wakeup" => woken(fields, What::Wakeup),
        "sched_wakeup_new" => woken(fields, What::New),
        "sched_stat_runtime" => charged(fields).ok_or("no sched_stat_runtime: no pid or runtime"),
        "tracing_mark_write" => Ok(begins(fields).map_or(What::Other, What::Begins)),
        _ => Ok(What::Other),
    };
    let fields_at = line.len() - fields.len();
    record.what = what.map_err(|what| (fields_at, what))?;
    Ok(record)
}

/// Returns the part of a line before its fields, if its CPU is in the bracket at `at`, with the event's name and the
/// fields.
fn head(line: &str, at: usize) -> Option<(Record<'_>, &str, &str)> {
    let rest = &line[at + 1..];
    let (cpu, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let rest = rest.strip_prefix(']')?;
    let cpu = number(cpu).filter(|&cpu| (cpu as usize) < MAX_CPUS)?;
    let who = running(&line[..at])?;
    let (token, rest) = word(rest);
    let (flags, (time, rest)) = match time(token) {
        Some(_) => ("", (token, rest)),
        None => (token, word(rest)),
    };
    // The third flag is h or H in a hardware interrupt, s in a soft one, z or Z in an NMI.
    let interrupt = flags.chars().nth(2).is_some_and(|flag| "hHsSzZ".contains(flag));
    // The second flag names the waiting requests: N or n at once, L or l lazy, B or b both. A p is none of them.
    let resched = flags.chars().nth(1).is_some_and(|flag| "NnLlBb".contains(flag));
    let (event, fields) = word(rest);
    // Only one space is removed, because a name may begin with another.
    let fields = fields.strip_prefix(' ').unwrap_or(fields);
    let name = event.strip_suffix(':').unwrap_or(event);
    let name = name.rsplit(':').next().unwrap_or(name);
    let record = Record { at: self::time(time)?, cpu, who, interrupt, resched, what: What::Other };
    (!name.is_empty()).then_some((record, name, fields))
}

/// Reads `comm pid`, `comm pid/tid`, `comm-tid` or `comm-tid (tgid)`. A negative number means that the task is unknown.
fn running(text: &str) -> Option<Option<(u32, &str)>> {
    let text = text.trim();
    let text = match text.strip_suffix(')') {
        Some(open) => open.rsplit_once('(')?.0.trim_end(),
        None => text,
    };
    let (comm, last) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
    if let Some(tid) = number(last.rsplit('/').next()?).filter(|_| !comm.is_empty()) {
        return Some(Some((tid, comm.trim_end())));
    }
    if last.rsplit('/').next() == Some("-1") {
        return Some(None);
    }
    let (comm, tid) = text.rsplit_once('-')?;
    Some(Some((number(tid)?, comm)))
}

/// Reads `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`, or `a:1 [120] S
/// ==> b:2 [120]`.
fn switch(fields: &str) -> Option<What<'_>> {
    let at = |arrow: &str| {
        let mut arrows = fields.rmatch_indices(arrow).take(ARROWS);
        arrows.find_map(|(at, _)| switched(&fields[..at], &fields[at + " ==> ".len()..]))
    };
    at(" ==> next_comm=").or_else(|| at(" ==> "))
}

fn switched<'t>(prev: &'t str, next: &'t str) -> Option<What<'t>> {
    let (prev, state) = match prev.rsplit_once(" prev_state=") {
        Some(keyed) => keyed,
        None => prev.rsplit_once(' ')?,
    };
    let prev = named(prev, ["prev_comm=", " prev_pid=", " prev_prio="])?;
    let next = named(next, ["next_comm=", " next_pid=", " next_prio="])?;
    Some(What::Switch { prev, left: left(state)?, next })
}

/// Reads `S`, `D|K`, `R` or `R+`. A task that was preempted, `+`, is runnable in any state.
fn left(state: &str) -> Option<Left> {
    match state {
        "" => None,
        _ if state.ends_with('+') || state.starts_with('R') => Some(Left::Ready),
        _ if state.contains(['X', 'Z', 'x']) => Some(Left::Exited),
        _ if state.starts_with('D') => Some(Left::Blocked),
        _ => Some(Left::Asleep),
    }
}

/// Reads `comm=a pid=1 prio=120 target_cpu=003`, or `a:1 [120] CPU:003`, each perhaps with `success=1`.
fn woken<'t>(
    fields: &'t str,
    what: impl Fn(Named<'t>) -> What<'t>,
) -> Result<What<'t>, &'static str> {
    let cpu = fields.rsplit_once(" target_cpu=").or_else(|| fields.rsplit_once(" CPU:"));
    let rest = cpu.map_or(fields, |(rest, _)| rest);
    let (task, success) = rest.rsplit_once(" success=").unwrap_or((rest, "1"));
    match named(task, ["comm=", " pid=", " prio="]) {
        Some(_) if success == "0" => Ok(What::Other),
        Some(task) => Ok(what(task)),
        None => Err("no wake-up: name, pid or prio missing"),
    }
}

/// Reads `comm=a pid=1 runtime=1000 [ns]`, perhaps with a vruntime.
fn charged(fields: &str) -> Option<What<'_>> {
    let (task, nanos) = fields.rsplit_once(" runtime=")?;
    let tid = number(task.rsplit_once(" pid=")?.1)?;
    Some(What::Charged { tid, nanos: word(nanos).0.parse().ok()? })
}

/// Reads the time of a [note](BEGINS).
fn begins(fields: &str) -> Option<u64> {
    fields.strip_prefix(BEGINS)?.trim_end().parse().ok()
}

/// Reads a task with these keys, or as `comm:pid [prio]`.
fn named<'t>(text: &'t str, [comm, pid, prio]: [&str; 3]) -> Option<Named<'t>> {
    if let Some((rest, value)) = text.rsplit_once(prio) {
        let prio = word(value).0.parse().ok()?;
        let (rest, tid) = rest.rsplit_once(pid)?;
        return Some(Named { comm: rest.strip_prefix(comm)?, tid: number(tid)?, prio });
    }
    let (rest, prio) = text.trim_end().strip_suffix(']')?.rsplit_once(" [")?;
    let (comm, tid) = rest.rsplit_once(':')?;
    Some(Named { comm, tid: number(tid)?, prio: prio.parse().ok()? })
}

/// Reads `2149.125485:` in nanoseconds, with up to nine decimals.
fn time(token: &str) -> Option<u64> {
    let (seconds, fraction) = token.strip_suffix(':')?.split_once(['.', ','])?;
    if fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let nanos = u64::from(number(fraction)?) * scale;
    u64::from(number(seconds)?).checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Reads a number of digits without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Returns the first word of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(line: &str) -> Record<'_> {
        let recording = recording(line);
        assert_eq!(recording.faults, [], "{line}");
        recording.records[0]
    }

    fn named(comm: &str, tid: u32, prio: i32) -> Named<'_> {
        Named { comm, tid, prio }
    }

    #[test]
    fn the_kernels_and_the_plug_ins_lines_say_the_same() {
        let prev = named("swapper/1", 0, 120);
        let next = named("alpha-worker", 2001, 19);
        let what = What::Switch { prev, left: Left::Ready, next };
        let head = "         swapper     0 [001]  2149.125567:       sched:sched_switch: ";
        let kernel = "prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> \
                      next_comm=alpha-worker next_pid=2001 next_prio=19";
        let plugin = "swapper/1:0 [120] R ==> alpha-worker:2001 [19]";
        for fields in [kernel, plugin] {
            let line = format!("{head}{fields}");
            let who = Some((0, "swapper"));
            let record = Record {
                at: 2_149_125_567_000,
                cpu: 1,
                who,
                interrupt: false,
                resched: false,
                what,
            };
            assert_eq!(only(&line), record);
        }
    }

    #[test]
    fn wake_ups_are_read_in_all_their_forms() {
        let head = "a 1 [000] 1.5: sched:sched_waking: ";
        for fields in [
            "comm=b:c pid=2 prio=120 target_cpu=000",
            "comm=b:c pid=2 prio=120 success=1 target_cpu=000",
            "b:c:2 [120] success=1 CPU:003",
            "b:c:2 [120] CPU:003",
            "b:c:2 [120]",
        ] {
            let line = format!("{head}{fields}");
            assert_eq!(only(&line).what, What::Waking(named("b:c", 2, 120)), "{fields}");
        }
        let line = format!("{head}comm=b pid=2 prio=120 success=0 target_cpu=000");
        assert_eq!(only(&line).what, What::Other);
    }

    #[test]
    fn a_name_may_have_anything() {
        for comm in ["a b", "-", "a-1", "x:y", "k=v", "a pid=7", "[0] 1.0: e:", "==>", " ==> b:1 "]
        {
            let who = format!("{comm} 12 [003] 1.000000001: sched:sched_switch: ");
            let kernel = format!(
                "{who}prev_comm={comm} prev_pid=12 prev_prio=-1 prev_state=D|K ==> \
                 next_comm={comm} next_pid=13 next_prio=99"
            );
            let plugin = format!("{who}{comm}:12 [-1] D|K ==> {comm}:13 [99]");
            for line in [kernel, plugin] {
                let record = only(&line);
                let (prev, next) = (named(comm, 12, -1), named(comm, 13, 99));
                assert_eq!(record.what, What::Switch { prev, left: Left::Blocked, next }, "{line}");
                let name = comm.trim();
                assert_eq!((record.who, record.at), (Some((12, name)), 1_000_000_001), "{line}");
            }
        }
    }

    #[test]
    fn ftrace_text_is_read_with_and_without_its_columns() {
        for head in [
            "          a b-c-12      [003] d.h2.   17.250000: sched_waking: ",
            "          a b-c-12      [003] dNH2    17.250000: sched_waking: ",
            "  a b-c-12    (     12) [003] d.s2.   17.250000: sched_waking: ",
            "  a b-c-12    (-------) [003] d.Z2.   17.250000: sched_waking: ",
        ] {
            let line = format!("{head}comm=d pid=2 prio=120 target_cpu=000");
            let record = only(&line);
            assert_eq!((record.at, record.cpu), (17_250_000_000, 3), "{line}");
            assert_eq!(record.who, Some((12, "a b-c")), "{line}");
            assert!(record.interrupt, "{line}");
        }
        let idle =
            only("  <idle>-0  [001] 17,25: sched_wakeup: comm=d pid=2 prio=120 target_cpu=000");
        assert_eq!((idle.who, idle.interrupt), (Some((IDLE, "<idle>")), false));
    }

    #[test]
    fn numbers_of_the_thread_and_of_nobody_are_known() {
        let tail = "[000] 1.0: sched:sched_process_exit: comm=a pid=2 prio=120";
        assert_eq!(only(&format!("a 7/9 {tail}")).who, Some((9, "a")));
        assert_eq!(only(&format!(":-1 -1 {tail}")).who, None);
        assert_eq!(only(&format!(":-1 -1/-1 {tail}")).who, None);
    }

    #[test]
    fn a_preempted_task_is_runnable_whatever_its_state() {
        for (state, expected) in [
            ("R", Left::Ready),
            ("R+", Left::Ready),
            ("S+", Left::Ready),
            ("S", Left::Asleep),
            ("I", Left::Asleep),
            ("D", Left::Blocked),
            ("Z", Left::Exited),
            ("X", Left::Exited),
        ] {
            assert_eq!(left(state), Some(expected), "{state}");
        }
    }

    #[test]
    fn notes_of_loss_and_headers_are_no_nonsense() {
        let text = "# tracer: nop\n\nCPU:1 [LOST 12 EVENTS]\nCPU:0 [3 EVENTS DROPPED]\n";
        let recording = recording(text);
        assert_eq!((recording.lost, recording.skipped, recording.records.len()), (15, 0, 0));
    }

    #[test]
    fn what_makes_no_sense_has_a_place() {
        let switch = "a 1 [000] 1.0: sched:sched_switch: ";
        for (line, column) in [
            ("hello", 0),
            ("  hello", 2),
            ("a 1 [000] 1.0:", 0),
            ("a 1 [0x0] 1.0: e: f", 0),
            ("a 1 [70000] 1.0: e: f", 0),
            ("a 1 [000] 1.0000000001: e: f", 0),
            ("a 1 [000] 99999999999.0: e: f", 0),
            ("a 1 [000] -1.0: e: f", 0),
            (&format!("{switch}prev_comm=a"), switch.len()),
            (&format!("{switch}a:1 [120] ==> b:2 [120]"), switch.len()),
            (&format!("{switch}a:x [120] S ==> b:2 [120]"), switch.len()),
            ("a 1 [000] 1.0: sched_waking: comm=b", 29),
            ("a 1 [000] 1.0: sched_stat_runtime: comm=b pid=2 runtime=-5 [ns]", 35),
        ] {
            let recording = recording(line);
            assert_eq!(recording.records, [], "{line}");
            assert_eq!(recording.faults.iter().map(|fault| fault.at).collect::<Vec<_>>(), [column]);
        }
    }

    #[test]
    fn only_the_first_lines_that_make_no_sense_are_told() {
        let text = "nonsense\n".repeat(1_000);
        let recording = recording(&text);
        assert_eq!((recording.skipped, recording.faults.len()), (1_000, TOLD));
    }

    #[test]
    fn lines_are_put_in_the_order_of_time() {
        let text = "a 1 [000] 2.0: e: x\na 1 [000] 1.0: f: x\nb 2 [000] 90000.0: g: x\n";
        let recording = recording(text);
        let times: Vec<_> = recording.records.iter().map(|record| record.at).collect();
        assert_eq!(times, [1_000_000_000, 2_000_000_000]);
        assert_eq!(recording.faults[0].what, "more than a day from the first event");
    }
}
