//! From a line of a recording to a record.
//!
//! These formats are read, and may be mixed:
//!
//! | recorder | a line |
//! |---|---|
//! | `perf sched script`, `perf script` with any `-F` that has the CPU, the time, the event and the trace | `a 7/8 [000] 1.5: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000` |
//! | the same by libtraceevent's plug-in | `a 7 [000] 1.5: sched:sched_switch: a:7 [120] S ==> b:2 [120]` |
//! | ftrace's `trace` and `trace_pipe` | `a-7 (7) [000] d.h2. 1.5: sched_waking: comm=b pid=2 prio=120 target_cpu=000` |
//! | `trace-cmd report` | the same, with the name of the event padded to a column |
//! | `trace-cmd report -l` | `a-7 0d.h2. 1.5: sched_waking: ...` |
//! | `trace-cmd report -w` | ` Latency: 85.7 usecs` behind a switch |
//! | `trace-cmd report -R` | no `==>`, and the state as a number |
//!
//! A task's name may contain any character, also spaces and `-`, `:`, `=`. So a field after a name is searched from the
//! right, where only numbers follow it. The fields before the CPU are searched in the same way. A line that does not
//! name the running task is read only if nothing else fits.

use super::record::{BEGINS, Context, Left, Named, Record, What};
use runyard_engine::cpu::MAX_CPUS;

/// The number of brackets that are tried for the CPU of a line. The kernel's names have 15 bytes, each of which may be
/// a bracket.
const BRACKETS: usize = 16;

/// The number of `==>` that are tried for the one between the tasks of a switch. A name has room for three.
const ARROWS: usize = 4;

/// The number of blanks before the fields above which they are padding. A name may begin with a blank.
const PADDED: usize = 2;

/// The place in a line, in bytes, and what is wrong there.
pub(super) type Nonsense = (usize, &'static str);

/// Returns the record of a line, or the place at which the line becomes invalid.
pub(super) fn record(line: &str) -> Result<Record<'_>, Nonsense> {
    let Some(head) = head(line) else {
        return Err((indent(line), "no event: a line has `COMM-PID [CPU] SECONDS: EVENT: FIELDS`"));
    };
    let Head { mut record, name, fields } = head;
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

/// Returns the number of blanks at the beginning of a line, in bytes.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The part of a line before its fields, with the event's name and the fields.
struct Head<'t> {
    record: Record<'t>,
    name: &'t str,
    fields: &'t str,
}

/// Returns the first head that fits: one with a running task, one of the latency format, one without a running task.
fn head(line: &str) -> Option<Head<'_>> {
    let line = without_buffer(line);
    let brackets = || line.match_indices('[').take(BRACKETS).map(|(at, _)| at);
    let named = |at: usize| bracketed(line, at, running(&line[..at])?);
    let unnamed = |at: usize| bracketed(line, at, None);
    brackets().find_map(named).or_else(|| latency(line)).or_else(|| brackets().find_map(unnamed))
}

/// Cuts off the name of `trace-cmd`'s buffer before a line: `buffer:     a-7 [000] ...`.
fn without_buffer(line: &str) -> &str {
    match line.split_once(": ") {
        Some((name, rest)) if !name.contains(char::is_whitespace) && rest.starts_with("  ") => rest,
        _ => line,
    }
}

/// Returns the head whose CPU is in the bracket at `at`.
fn bracketed<'t>(line: &'t str, at: usize, who: Option<(u32, &'t str)>) -> Option<Head<'t>> {
    let rest = &line[at + 1..];
    let (cpu, rest) = digits(rest);
    let rest = rest.strip_prefix(']')?;
    let (token, rest) = word(rest);
    match time(token) {
        Some(_) => event(who, cpu, ("", token, rest)),
        None => {
            let (time, rest) = word(rest);
            event(who, cpu, (token, time, rest))
        }
    }
}

/// Returns the head of `trace-cmd report -l`, which has no bracket: `a-7 0d.h2. 1.5: ...`.
fn latency(line: &str) -> Option<Head<'_>> {
    let times = line.match_indices(": ").take(BRACKETS).filter_map(|(colon, _)| {
        let begin = line[..colon].rfind([' ', '\t'])? + 1;
        Some((begin, time(&line[begin..=colon])?))
    });
    times.into_iter().find_map(|(begin, _)| {
        let before = line[..begin].trim_end();
        let (who, cpu) = before.rsplit_once(char::is_whitespace)?;
        let (cpu, flags) = digits(cpu);
        let (time, rest) = word(&line[begin..]);
        let are_flags = flags.len() >= 4 && flags.starts_with(['.', 'd', 'D', 'b', 'B', 'X']);
        let who = running(who).filter(|_| are_flags)?;
        event(who, cpu, (flags, time, rest))
    })
}

/// Returns the head with this CPU, these flags, this time and this rest of the line.
fn event<'t>(
    who: Option<(u32, &'t str)>,
    cpu: &str,
    (flags, at, rest): (&str, &str, &'t str),
) -> Option<Head<'t>> {
    let cpu = number(cpu).filter(|&cpu| (cpu as usize) < MAX_CPUS)?;
    // The third flag is h or H in a hardware interrupt, s in a soft one, z or Z in an NMI.
    let context = match flags.chars().nth(2) {
        Some('h' | 'H' | 'z' | 'Z') => Context::Interrupt,
        Some('s' | 'S') => Context::Softirq,
        Some(_) => Context::Task,
        None => Context::Unknown,
    };
    // The second flag names the waiting requests: N or n at once, L or l lazy, B or b both. A p is none of them.
    let resched = flags.chars().nth(1).is_some_and(|flag| "NnLlBb".contains(flag));
    let (mut event, mut fields) = word(rest);
    if number(event).is_some() {
        // The number of events, which `perf script -F period` shows.
        (event, fields) = word(fields);
    }
    let unpadded = fields.trim_start();
    // Only one blank is removed otherwise, because a name may begin with another.
    let fields = match fields.len() - unpadded.len() > PADDED {
        true => unpadded,
        false => fields.strip_prefix(' ').unwrap_or(fields),
    };
    let name = event.strip_suffix(':').unwrap_or(event);
    let name = name.rsplit(':').next().unwrap_or(name);
    let record = Record { place: 0, at: time(at)?, cpu, who, context, resched, what: What::Other };
    (!name.is_empty()).then_some(Head { record, name, fields })
}

/// Reads `comm pid`, `comm pid/tid`, `comm-tid`, `comm-tid (tgid)` or `tid`. A negative number means that the task is
/// unknown.
fn running(text: &str) -> Option<Option<(u32, &str)>> {
    let text = text.trim();
    let text = match text.strip_suffix(')') {
        Some(open) => open.rsplit_once('(')?.0.trim_end(),
        None => text,
    };
    let (comm, last) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
    if let Some(tid) = number(last.rsplit('/').next()?) {
        return Some(Some((tid, comm.trim_end())));
    }
    if last.rsplit('/').next() == Some("-1") {
        return Some(None);
    }
    let (comm, tid) = text.rsplit_once('-')?;
    Some(Some((number(tid)?, comm)))
}

/// Reads `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`, the same without
/// the arrow, or `a:1 [120] S ==> b:2 [120]`.
fn switch(fields: &str) -> Option<What<'_>> {
    let fields = match fields.strip_suffix(" usecs") {
        Some(rest) => rest.rsplit_once(" Latency: ")?.0,
        None => fields,
    };
    let at = |between: &str, arrow: &str| {
        let mut places = fields.rmatch_indices(between).take(ARROWS);
        places.find_map(|(at, _)| switched(&fields[..at], &fields[at + arrow.len()..]))
    };
    at(" ==> next_comm=", " ==> ")
        .or_else(|| at(" ==> ", " ==> "))
        .or_else(|| at(" next_comm=", " "))
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

/// Reads `S`, `D|K`, `R`, `R+`, or the kernel's number. A task that was preempted, `+`, is runnable in any state.
fn left(text: &str) -> Option<Left> {
    if let Some(bits) = number(text) {
        // No line says which kernel this is. A dead task passes for a parked one, which sleeps for ever.
        return Some(Left::of_bits(bits, true));
    }
    match text {
        "" => None,
        _ if text.ends_with('+') || text.starts_with('R') => Some(Left::Ready),
        _ if text.contains(['X', 'Z', 'x']) => Some(Left::Exited),
        _ if text.starts_with('D') => Some(Left::Blocked),
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

/// Splits a text behind its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Returns the first word of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}
