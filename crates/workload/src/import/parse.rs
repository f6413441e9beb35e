//! From the text of a recording to records, and to what is odd about the text.
//!
//! Each line is read alone ([`line`](super::line)). An invalid line is skipped and counted, and the first few are
//! reported with their places. Events that the import does not use are valid lines. So are notes of the recorders, and
//! the call chains of events. Of a page that systrace wrote, only the lines of its data count ([`page`](super::page)).

use super::line::{self, Nonsense};
use super::page::Page;
use super::reading::Reading;
use super::record::Record;
use std::io::{self, BufRead, Read};

/// The longest line, in bytes. The rest of a longer one counts as another line.
const LONGEST_LINE: u64 = 1 << 20;

/// What ends a line in a string of JavaScript, in which old pages of systrace have the text.
const QUOTED: &str = "\\n\\";

/// The events that a line must be if it contains these words.
const SCHEDULER: [&str; 2] = ["sched_switch", "sched_wak"];

/// The functions of the kernel in whose call chains a wake-up comes from an interrupt, by the begin of their names. Those
/// of soft interrupts are not among them: what a task sends to another one of its machine runs in them as well.
const INTERRUPTS: [&str; 6] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "irq_exit",
    "__irq_exit_rcu",
    "el1h_64_irq",
    "el0t_64_irq",
];

/// Reads the lines of a text, of a page if one is given. They need not be in the order of time.
///
/// The kernel takes any bytes as a task's name, so bytes that are no UTF-8 are replaced.
///
/// # Errors
/// If reading fails.
pub(super) fn read(
    from: &mut dyn BufRead,
    mut page: Option<Page>,
    reading: &mut Reading,
) -> io::Result<()> {
    let mut lines = Lines { reading, place: 0, after: After::NoEvent };
    let mut bytes = Vec::new();
    while Read::take(&mut *from, LONGEST_LINE).read_until(b'\n', &mut bytes)? > 0 {
        lines.place = lines.place.saturating_add(1);
        let line = String::from_utf8_lossy(&bytes);
        match &mut page {
            None => lines.take(0, line.trim_end()),
            Some(page) => {
                if let Some((begin, data)) = page.data(line.trim_end()) {
                    lines.take(begin, data);
                }
            }
        }
        bytes.clear();
    }
    Ok(())
}

/// What the last line was, after which a call chain may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    NoEvent,
    /// An event, and whether it is in the wanted part of the recording.
    Event(bool),
}

/// The lines of a text, one after the other.
struct Lines<'r> {
    reading: &'r mut Reading,
    /// The number of the present line.
    place: u32,
    after: After,
}

impl Lines<'_> {
    /// Takes a line, of which the first bytes were cut off.
    fn take(&mut self, cut: usize, line: &str) {
        let line = line.strip_suffix(QUOTED).unwrap_or(line);
        if let After::Event(is_kept) = self.after
            && is_chain(line)
        {
            if is_kept {
                self.reading.records.last_is_called(is_interrupt(line));
            }
            return;
        }
        match self.event(line) {
            Ok(after) => self.after = after,
            Err((column, what)) => {
                // Places are told in characters.
                let column = cut + line[..column].chars().count() + 1;
                self.reading.skip(self.place, column, what);
            }
        }
    }

    fn event(&mut self, line: &str) -> Result<After, Nonsense> {
        if line.trim_start().is_empty() || self.is_note(line) {
            return Ok(After::NoEvent);
        }
        let is_scheduler = SCHEDULER.iter().any(|event| line.contains(event));
        self.reading.scheduler += u64::from(is_scheduler);
        let read = line::record(line);
        self.reading.unread += u64::from(is_scheduler && read.is_err());
        Ok(After::Event(self.reading.take(&Record { place: self.place, ..read? })))
    }

    /// Takes a line that a recorder writes beside the events: its head, losses, statistics.
    fn is_note(&mut self, line: &str) -> bool {
        let text = line.trim_start();
        let reading = &mut *self.reading;
        if let Some(said) = text.strip_prefix('#') {
            if reading.release.is_none() {
                reading.release = release(said).map(str::to_owned);
            }
            reading.cpus = reading.cpus.max(cpus(said).unwrap_or(0));
            return true;
        }
        if let Some(events) = lost(text) {
            reading.lose(self.place, events, format!("{events} events were lost here"));
            return true;
        }
        if let Some(cpus) = text.strip_prefix("cpus=").and_then(|cpus| cpus.parse().ok()) {
            reading.cpus = reading.cpus.max(cpus);
            return true;
        }
        let is_empty = text.starts_with("CPU ") && text.ends_with(" is empty");
        let is_latency = text.ends_with(" usecs") || text.contains(" Latency: ");
        let is_latency = is_latency
            && ["Average ", "Maximum ", "Minimum "].iter().any(|it| text.starts_with(it));
        is_empty || is_latency || text.starts_with("version = ")
    }
}

/// Returns whether a line of a call chain is of an interrupt.
fn is_interrupt(line: &str) -> bool {
    let is_address = |word: &&str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let symbol = line.split_whitespace().find(|word| !is_address(word));
    symbol.is_some_and(|symbol| INTERRUPTS.iter().any(|it| symbol.starts_with(it)))
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
    use crate::diagnostic::Place;
    use crate::import::reading::TOLD;
    use crate::import::record::{Context, IDLE, Left, Named, What};
    use crate::overrides::Window;

    /// Returns the content of a text, which a test may keep for ever.
    fn recording(text: &str) -> &'static Reading {
        let mut reading = Reading::new("-", Window::default());
        read(&mut text.as_bytes(), None, &mut reading).unwrap();
        reading.finish();
        Box::leak(Box::new(reading))
    }

    fn only(line: &str) -> Record<'static> {
        let recording = recording(line);
        assert_eq!(recording.faults, [], "{line}");
        recording.records.get(0)
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
                place: 1,
                at: 2_149_125_567_000,
                cpu: 1,
                who,
                context: Context::Unknown,
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
            let is_interrupt = matches!(record.context, Context::Interrupt | Context::Softirq);
            assert!(is_interrupt, "{line}");
        }
        let idle =
            only("  <idle>-0  [001] 17,25: sched_wakeup: comm=d pid=2 prio=120 target_cpu=000");
        assert_eq!((idle.who, idle.context), (Some((IDLE, "<idle>")), Context::Unknown));
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
            assert_eq!(recording.records.len(), 0, "{line}");
            let place = Place::Text { file: "-".to_owned(), line: 1, column: column + 1 };
            assert_eq!(
                recording.faults.iter().map(|fault| &fault.place).collect::<Vec<_>>(),
                [&place]
            );
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
        let times: Vec<_> = recording(text).records.iter().map(|record| record.at).collect();
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
        assert_eq!((&recording.faults[..], recording.lost, recording.cpus), (&[][..], 229, 4));
        let (a, b) = (named("a", 1, 120), named("b", 2, 120));
        let whats: Vec<_> = recording.records.iter().map(|record| record.what).collect();
        let switch = What::Switch { prev: a, left: Left::Exited, next: b };
        assert_eq!(whats, [What::Waking(b), What::New(b), switch]);
        assert_eq!(recording.records.get(2).who, Some((1, "a")));
    }

    #[test]
    fn trace_cmds_raw_format_has_no_arrow() {
        for (state, left) in [
            (0, Left::Ready),
            (1, Left::Asleep),
            (2, Left::Blocked),
            (32, Left::Exited),
            (256, Left::Ready),
            (1024, Left::Ready),
            (1026, Left::Blocked),
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
        assert_eq!((record.context, record.resched), (Context::Interrupt, true));
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
        assert_eq!((&recording.faults[..], recording.records.len()), (&[][..], 2));
        let contexts: Vec<_> = recording.records.iter().map(|record| record.context).collect();
        assert_eq!(contexts, [Context::Task, Context::Interrupt]);
    }
}
