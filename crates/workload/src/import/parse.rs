//! From the text of a recording to records in the order of time, and to what is odd about the text.
//!
//! Each line is read alone ([`line`](super::line)). An invalid line is skipped and counted, and the first few are
//! reported with their places. Events that the import does not use are valid lines. So are notes of the recorders, and
//! the call chains of events.
//!
//! The clock of a recorder may jump, and tools put lines with a time of 0 before the others. A machine without any event
//! for [`LONGEST_GAP_NS`] does not exist, so the text is cut there, and the part with the most events is kept.

use super::line::{self, Nonsense};
use super::record::{Record, What};
use crate::diagnostic::Fault;

/// The number of oddities of one kind that are reported.
const TOLD: usize = 10;

/// The longest time without an event, in nanoseconds: a minute.
const LONGEST_GAP_NS: u64 = 60 * 1_000_000_000;

/// The events that a line must be if it contains these words.
const SCHEDULER: [&str; 2] = ["sched_switch", "sched_wak"];

/// The functions of the kernel in whose call chains a wake-up comes from an interrupt, by the begin of their names.
const INTERRUPTS: [&str; 7] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "__irq_exit_rcu",
    "handle_softirqs",
    "__do_softirq",
    "el1h_64_irq",
    "el0t_64_irq",
];

/// The content of a text.
#[derive(Debug, Default)]
pub(super) struct Recording<'t> {
    /// The records in the order of time.
    pub(super) records: Vec<Record<'t>>,
    /// The number of invalid lines, and the first of them.
    pub(super) skipped: usize,
    pub(super) faults: Vec<Fault>,
    /// The number of lines with an event of the scheduler, and of the invalid ones among them.
    pub(super) scheduler: usize,
    pub(super) unread: usize,
    /// The number of events that the recorder reports as lost.
    pub(super) lost: u64,
    /// The first oddities of the text that are no invalid lines, with their places.
    pub(super) notes: Vec<Fault>,
    /// The number of CPUs that the recorder names.
    pub(super) cpus: u32,
    /// The recorded kernel, as `uname -r` prints it (`perf script --header`).
    pub(super) release: Option<&'t str>,
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
    let (mut place, mut follows_event) = (0, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        let taken = match follows_event && is_chain(trimmed) {
            true => {
                recording.chain(trimmed);
                Ok(true)
            }
            false => recording.take(place, trimmed),
        };
        match taken {
            Ok(is_event) => follows_event = is_event,
            Err((column, what)) => recording.skip(place + column, what),
        }
        place += line.len();
    }
    // Lines of several CPUs may be merged out of order. Lines with equal times keep their order.
    recording.records.sort_by_key(|record| record.at);
    recording.keep_longest();
    recording
}

impl<'t> Recording<'t> {
    /// Takes a line. Returns whether it is an event, whose call chain may follow.
    fn take(&mut self, place: usize, line: &'t str) -> Result<bool, Nonsense> {
        if line.trim_start().is_empty() || self.is_note(place, line) {
            return Ok(false);
        }
        let is_scheduler = SCHEDULER.iter().any(|event| line.contains(event));
        self.scheduler += usize::from(is_scheduler);
        let read = line::record(line);
        self.unread += usize::from(is_scheduler && read.is_err());
        self.records.push(Record { place, ..read? });
        Ok(true)
    }

    fn skip(&mut self, place: usize, what: &str) {
        self.skipped += 1;
        if self.faults.len() < TOLD {
            self.faults.push(Fault::new(place, what));
        }
    }

    fn note(&mut self, place: usize, what: impl Into<String>) {
        if self.notes.len() < TOLD {
            self.notes.push(Fault::new(place, what));
        }
    }

    /// Takes a line that a recorder writes beside the events: its head, losses, statistics.
    fn is_note(&mut self, place: usize, line: &'t str) -> bool {
        let text = line.trim_start();
        if let Some(said) = text.strip_prefix('#') {
            self.release = self.release.or(release(said));
            self.cpus = self.cpus.max(cpus(said).unwrap_or(0));
            return true;
        }
        if let Some(events) = lost(text) {
            self.lost = self.lost.saturating_add(events);
            self.note(place, format!("{events} events were lost here"));
            return true;
        }
        if let Some(cpus) = text.strip_prefix("cpus=").and_then(|cpus| cpus.parse().ok()) {
            self.cpus = self.cpus.max(cpus);
            return true;
        }
        let is_empty = text.starts_with("CPU ") && text.ends_with(" is empty");
        let is_latency = text.ends_with(" usecs") || text.contains(" Latency: ");
        let is_latency = is_latency
            && ["Average ", "Maximum ", "Minimum "].iter().any(|it| text.starts_with(it));
        is_empty || is_latency || text.starts_with("version = ")
    }

    /// Takes a line of the last event's call chain.
    fn chain(&mut self, line: &str) {
        let symbol =
            line.split_whitespace().find(|word| !word.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_interrupt = |symbol: &str| INTERRUPTS.iter().any(|it| symbol.starts_with(it));
        if symbol.is_some_and(is_interrupt)
            && let Some(record) = self.records.last_mut()
        {
            record.interrupt = true;
        }
    }

    /// Keeps the longest part of the records that no long gap divides.
    fn keep_longest(&mut self) {
        let parts = self.records.chunk_by(|one, next| next.at - one.at <= LONGEST_GAP_NS);
        let mut begin = 0;
        let parts: Vec<_> = parts
            .map(|part| {
                begin += part.len();
                begin - part.len()..begin
            })
            .collect();
        let Some(longest) = parts.iter().rev().max_by_key(|part| part.len()).cloned() else {
            return;
        };
        for part in parts.into_iter().filter(|part| *part != longest) {
            let (number, first) = (part.len(), &self.records[part.start]);
            let near = if part.start < longest.start { longest.start } else { longest.end - 1 };
            let seconds = first.at.abs_diff(self.records[near].at) / 1_000_000_000;
            let what = format!(
                "the clock jumps: {number} events, {seconds} s from the others, are left out"
            );
            self.note(first.place, what);
        }
        self.records.truncate(longest.end);
        self.records.drain(..longest.start);
    }

    /// Returns the place of the first record of a SCHED_DEADLINE task.
    pub(super) fn first_deadline(&self) -> Option<usize> {
        let first = self.records.iter().filter(|record| record.names_deadline());
        first.map(|record| record.place).min()
    }

    /// Returns whether a record is a switch, and whether one is a wake-up.
    pub(super) fn has(&self) -> (bool, bool) {
        let has = |is: fn(&What<'_>) -> bool| self.records.iter().any(|record| is(&record.what));
        let is_wakeup = |what: &What<'_>| matches!(what, What::Waking(_) | What::Wakeup(_));
        (has(|what| matches!(what, What::Switch { .. })), has(is_wakeup))
    }
}

/// Returns whether a line is of a call chain: perf's has an address behind a tab, ftrace's an arrow.
fn is_chain(line: &str) -> bool {
    line.starts_with('\t') || line.starts_with(" => ")
}

/// Reads ` os release : 6.18.44`.
fn release(said: &str) -> Option<&str> {
    let (key, value) = said.split_once(':')?;
    (key.trim() == "os release").then(|| value.trim())
}

/// Reads ` nrcpus online : 4` of perf, and ` entries-in-buffer/entries-written: 44/44   #P:4` of ftrace.
fn cpus(said: &str) -> Option<u32> {
    let number = match said.rsplit_once("#P:") {
        Some((_, number)) => number,
        None => said.trim().strip_prefix("nrcpus online :")?,
    };
    number.trim().parse().ok()
}

/// Returns the number of lost events in `CPU:1 [LOST 12 EVENTS]` or `CPU:1 [12 EVENTS DROPPED]`, or of perf's
/// `PERF_RECORD_LOST lost 12`.
fn lost(line: &str) -> Option<u64> {
    if let Some((_, events)) = line.split_once(": PERF_RECORD_LOST lost ") {
        return events.split_whitespace().next()?.parse().ok();
    }
    let note = line.strip_prefix("CPU:")?.split_once('[')?.1.strip_suffix(']')?;
    let events = note.strip_prefix("LOST ").map_or_else(|| note.strip_suffix(" DROPPED"), Some)?;
    events.strip_suffix(" EVENTS")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::record::{IDLE, Left, Named};

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
                place: 0,
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
            let line =
                format!("a 1 [000] 1.0: sched:sched_switch: a:1 [120] {state} ==> b:2 [120]");
            assert!(
                matches!(only(&line).what, What::Switch { left, .. } if left == expected),
                "{state}"
            );
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
        let text = "a 1 [000] 2.0: e: x\na 1 [000] 1.0: f: x\n";
        let times: Vec<_> = records(text).iter().map(|record| record.at).collect();
        assert_eq!(times, [1_000_000_000, 2_000_000_000]);
    }

    /// A line that synchronises clocks has a time of 0.
    #[test]
    fn the_longest_part_without_a_jump_of_the_clock_is_kept() {
        let text = "a 1 [000] 0.0: sync: x\na 1 [000] 500.0: e: x\na 1 [000] 501.0: f: x\nb 2 [000] 9000.0: g: x\n";
        let recording = recording(text);
        assert_eq!(recording.records.len(), 2);
        let notes: Vec<_> = recording.notes.iter().map(|note| note.what.as_str()).collect();
        let [before, after] = notes[..] else { panic!("{notes:?}") };
        assert_eq!(before, "the clock jumps: 1 events, 500 s from the others, are left out");
        assert_eq!(after, "the clock jumps: 1 events, 8499 s from the others, are left out");
    }

    #[test]
    fn trace_cmds_columns_head_and_options_are_read() {
        let text = "cpus=4\nversion = 6\nCPU 3 is empty\n    CPU:0 [229 EVENTS DROPPED]\n\
            ry:         <idle>-0     [001]  1.000001: sched_waking:         comm=b pid=2 prio=120 target_cpu=001\n\
            ry:              a-1     [001]  1.000002: sched_wakeup_new:     b:2 [120] CPU:001\n\
            ry:              a-1     [001]  1.000003: sched_switch:         a:1 [120] X ==> b:2 [120] Latency: 4.769 usecs\n\
            \n\
            Average wakeup latency: 197.820 usecs\n\
            Maximum Latency: 1049.219 usecs at timestamp: 56415.235725\n";
        let recording = recording(text);
        assert_eq!((recording.faults, recording.lost, recording.cpus), (vec![], 229, 4));
        let (a, b) = (named("a", 1, 120), named("b", 2, 120));
        let whats: Vec<_> = recording.records.iter().map(|record| record.what).collect();
        let switch = What::Switch { prev: a, left: Left::Exited, next: b };
        assert_eq!(whats, [What::Waking(b), What::New(b), switch]);
        assert_eq!(recording.records[2].who, Some((1, "a")));
    }

    #[test]
    fn trace_cmds_raw_format_has_no_arrow() {
        for (state, left) in [
            (0, Left::Ready),
            (1, Left::Asleep),
            (2, Left::Blocked),
            (32, Left::Exited),
            (256, Left::Ready),
        ] {
            let line = format!(
                "  a-1 [001] 1.0: sched_switch:          prev_comm=a prev_pid=1 prev_prio=120 prev_state={state} \
                 next_comm=b next_pid=2 next_prio=120"
            );
            let (prev, next) = (named("a", 1, 120), named("b", 2, 120));
            assert_eq!(only(&line).what, What::Switch { prev, left, next }, "{line}");
        }
    }

    #[test]
    fn trace_cmds_latency_format_has_no_bracket() {
        let line = "   a b-12   3dNh5. 17.250000: sched_waking:         comm=d pid=2 prio=120 target_cpu=000";
        let record = only(line);
        assert_eq!((record.at, record.cpu, record.who), (17_250_000_000, 3, Some((12, "a b"))));
        assert!(record.interrupt && record.resched);
    }

    #[test]
    fn perf_may_leave_out_the_name_or_the_number() {
        let tail = "[003] 17.5:     75258 sched:sched_waking: comm=d pid=2 prio=120 target_cpu=000";
        for (head, who) in [
            ("12 ", Some((12, ""))),
            ("a 12 ", Some((12, "a"))),
            ("a 7/12 ", Some((12, "a"))),
            ("  a ", None),
            ("", None),
        ] {
            let line = format!("{head}{tail}");
            let record = only(&line);
            assert_eq!((record.who, record.cpu), (who, 3), "{line}");
            assert_eq!(record.what, What::Waking(named("d", 2, 120)), "{line}");
        }
    }

    /// The chain also tells whether a wake-up comes from an interrupt.
    #[test]
    fn call_chains_are_no_nonsense() {
        let woken = "a 1 [000] 1.0: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
            \tffffffff813a89c4 try_to_wake_up+0x3a4 ([kernel.kallsyms])\n";
        let interrupt =
            "\tffffffff813a89c4 asm_sysvec_apic_timer_interrupt+0x1a ([kernel.kallsyms])\n";
        let text = format!("{woken}\n{woken}{interrupt}\n");
        let recording = recording(&text);
        assert_eq!((recording.faults, recording.records.len()), (vec![], 2));
        let interrupts: Vec<_> = recording.records.iter().map(|record| record.interrupt).collect();
        assert_eq!(interrupts, [false, true]);
    }
}
