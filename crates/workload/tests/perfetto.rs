//! Traces of Perfetto, and the scenarios made of them.
//!
//! The files are `recordings/ftrace-trace.txt`, which a kernel wrote, as traces: as single events, and in columns that are
//! compressed. Perfetto's own library for Python encoded them, since its recorder could not be had where they were made.

use proptest::prelude::*;
use runyard_engine::time::Nanos;
use runyard_workload::import::{Imported, Recording, Wanted, import};
use runyard_workload::{Diagnostic, Window};

const TEXT: &str = include_str!("recordings/ftrace-trace.txt");
const EVENTS: &[u8] = include_bytes!("recordings/perfetto.pftrace");
const COLUMNS: &[u8] = include_bytes!("recordings/perfetto-compact.pftrace");

fn imported_as(trace: &[u8], wanted: Wanted<'_>) -> Result<Imported, Diagnostic> {
    Recording::read("r", trace, Window::default())?.import(wanted)
}

fn imported(trace: &[u8]) -> Imported {
    imported_as(trace, Wanted::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(trace: &[u8]) -> String {
    imported_as(trace, Wanted::default()).expect_err("it is wrong").to_string()
}

fn number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns a field that is a number.
fn int(field: u64, value: u64) -> Vec<u8> {
    [number(field << 3), number(value)].concat()
}

/// Returns a field that is a message or a text.
fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [number(field << 3 | 2), number(content.len() as u64), content.to_vec()].concat()
}

/// Returns a field that is a list of numbers.
fn list(field: u64, numbers: &[u64]) -> Vec<u8> {
    message(field, &numbers.iter().flat_map(|&it| number(it)).collect::<Vec<_>>())
}

fn packet(content: &[Vec<u8>]) -> Vec<u8> {
    message(1, &content.concat())
}

/// Returns a packet with events of a CPU.
fn bundle(cpu: u64, content: &[Vec<u8>]) -> Vec<u8> {
    packet(&[message(1, &[&int(1, cpu)[..], &content.concat()].concat())])
}

/// A task that ran at microseconds, and what happened: the number of a field, and the fields in it.
fn event(micros: u64, tid: u64, what: u64, content: &[Vec<u8>]) -> Vec<u8> {
    message(2, &[int(1, micros * 1_000), int(2, tid), message(what, &content.concat())].concat())
}

fn switch(micros: u64, prev: u64, state: u64, next: u64) -> Vec<u8> {
    let (prev_comm, next_comm) = (format!("t{prev}"), format!("t{next}"));
    let prev_task = [message(1, prev_comm.as_bytes()), int(2, prev), int(3, 120), int(4, state)];
    let next_task = [message(5, next_comm.as_bytes()), int(6, next), int(7, 120)];
    event(micros, prev, 4, &[prev_task.concat(), next_task.concat()])
}

/// Single events do not tell which of them came from interrupts.
#[test]
fn a_trace_says_what_the_text_says() {
    let text = TEXT.replace("dNs", "dN.").replace("d.s", "d..").replace("d.h", "d..");
    let (trace, text) = (imported(EVENTS), import("r", &text).unwrap());
    assert_eq!((trace.warnings, trace.notes), (vec![], vec![]));
    assert_eq!(trace.tasks, text.tasks);
    assert_eq!(trace.scenario, text.scenario);
    assert_eq!(trace.statistics, text.statistics);
}

/// Columns do not name the task that ran on a CPU before the first switch there.
#[test]
fn columns_say_the_same_of_all_but_the_first_tasks() {
    let (trace, text) = (imported(COLUMNS), import("r", TEXT).unwrap());
    assert_eq!((&trace.warnings[..], &trace.notes[..]), (&[][..], &[][..]));
    assert_eq!(trace.statistics.events, text.statistics.events);
    let others = |imported: &Imported| {
        let mut tasks = imported.tasks.clone();
        tasks.retain(|task| !["sh-17070", "rustc-17251"].contains(&task.name.as_str()));
        tasks.sort_by(|one, other| one.name.cmp(&other.name));
        tasks
    };
    assert_eq!(others(&trace), others(&text));
    assert_eq!(others(&trace).len(), 7);
}

/// Only columns that name it tell the kernel.
#[test]
fn a_trace_tells_the_kernel_and_the_number_of_cpus() {
    assert_eq!(imported(EVENTS).statistics.model, None);
    let model = imported(COLUMNS).statistics.model.map(|model| model.to_string());
    assert_eq!(model.as_deref(), Some("6.18"));
    let info = packet(&[message(45, &int(8, 16))]);
    assert_eq!(imported(&[EVENTS, &info].concat()).statistics.cpus, 16);
    let guest = packet(&[int(98, 1), message(45, &int(8, 64))]);
    assert_eq!(imported(&[EVENTS, &info, &guest].concat()).statistics.cpus, 16, "the host's");
}

/// Wherever a trace breaks off, its place is told; and what is before it is imported if that is wanted.
#[test]
fn a_trace_that_breaks_off_is_refused_unless_asked_for() {
    let last = bundle(0, &[switch(60_000_000_000, 7, 0, 8)]);
    let whole = [EVENTS, &last].concat();
    let cut = &whole[..whole.len() - 1];
    let expected =
        "r: packet 5: the file ends within this packet; --partly imports what is before it";
    assert_eq!(refused(cut), expected);
    let partly = Wanted { partly: true, ..Wanted::default() };
    let imported = imported_as(cut, partly).unwrap();
    assert_eq!(imported.tasks.len(), import("r", TEXT).unwrap().tasks.len());
    let notes: Vec<_> = imported.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes, ["r: packet 5: the file ends within this packet"]);
    let other = [EVENTS, b"\x0f\x0f"].concat();
    assert!(refused(&other).starts_with("r: packet 5: no packet of Perfetto begins here"));
    for end in 1..EVENTS.len() {
        let _ = imported_as(&EVENTS[..end], partly);
    }
}

#[test]
fn a_trace_without_switches_is_refused_with_what_records_them() {
    let print = bundle(0, &[event(5, 7, 3, &[message(2, b"B|7|x")])]);
    let told = refused(&print);
    assert!(told.starts_with("r:1:1: no `sched_switch` is in it"), "{told}");
    assert!(told.contains("`linux.ftrace`") && told.contains("\"sched/sched_switch\""), "{told}");
    let nothing = packet(&[message(45, &int(8, 2))]);
    assert!(refused(&nothing).contains("`linux.ftrace`"));
    assert_eq!(refused(&packet(&[vec![0x0a, 0x7f, 0]])), "r: packet 1: the packet is invalid");
}

#[test]
fn lost_events_are_told_with_their_places() {
    let first = bundle(1, &[switch(0, 0, 0, 7), switch(5, 7, 1, 0)]);
    let second = bundle(1, &[int(3, 1), switch(9, 8, 1, 0)]);
    let imported = imported(&[first.clone(), second.clone()].concat());
    assert_eq!(imported.statistics.lost, 1);
    assert!(imported.notes.iter().any(|note| {
        note.to_string() == "r: packet 2: events of CPU 1 were lost before this packet"
    }));
    // The kernel's counters say how many.
    let stats = |phase, overrun| {
        packet(&[message(34, &[int(1, phase), message(2, &int(3, overrun))].concat())])
    };
    let trace = [stats(1, 100), first, second, stats(2, 140)].concat();
    assert_eq!(self::imported(&trace).statistics.lost, 40);
}

#[test]
fn events_of_other_machines_are_left_out_and_told() {
    let own = bundle(0, &[switch(0, 0, 0, 7), switch(5, 7, 1, 0)]);
    let guest = message(1, &[int(98, 1), message(1, &switch(2, 0, 0, 9))].concat());
    let imported = imported(&[own, guest].concat());
    assert_eq!(imported.tasks.len(), 1);
    assert_eq!(
        imported.notes[0].to_string(),
        "r:1:1: 1 packets have events of other machines, which are left out"
    );
}

/// The tasks are in the order in which a switch leaves them, in the states of the kernel.
#[test]
fn states_are_the_kernels_bits() {
    let slept = |state: u64, release: &str| {
        let info = packet(&[message(45, &message(1, &message(3, release.as_bytes())))]);
        let events = [switch(0, 0, 0, 7), switch(10, 7, state, 0), switch(30, 0, 0, 7)];
        let task =
            imported(&[info, bundle(0, &events), bundle(0, &[switch(40, 7, 1, 0)])].concat());
        let task = &task.tasks[0];
        let micros = |span: Nanos| span.0 / 1_000;
        (micros(task.wait), micros(task.sleep))
    };
    for preempted in [0, 0x100, 0x400, 0x800, 0x1000] {
        assert_eq!(slept(preempted, "6.1.0"), (20, 0), "{preempted:x}");
    }
    for asleep in [1, 2, 4, 0x80, 0x402] {
        assert_eq!(slept(asleep, "6.1.0"), (0, 20), "{asleep:x}");
    }
    // A parked task comes back, and a dead one is another.
    assert_eq!(slept(0x40, "4.14.1"), (0, 20));
    assert_eq!(slept(0x40, "4.9.0"), (0, 0));
    assert_eq!(slept(0x20, "6.1.0"), (0, 0));
}

#[test]
fn what_lacks_something_is_skipped_and_told() {
    let fine = bundle(0, &[switch(0, 0, 0, 7), switch(5, 7, 1, 0)]);
    let no_next = event(6, 7, 4, &[message(1, b"a"), int(2, 7), int(3, 120), int(4, 1)]);
    let columns = message(4, &[list(1, &[7_000]), list(2, &[1])].concat());
    let far = bundle(1 << 20, &[switch(0, 0, 0, 7)]);
    let trace =
        [fine, bundle(0, &[no_next]), bundle(0, &[columns]), far, packet(&[message(50, b"x")])];
    let told: Vec<_> = imported(&trace.concat()).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "r: packet 2: a sched_switch lacks a task or a state",
            "r: packet 3: the columns of `compact_sched` have different lengths, or names are missing",
            "r: packet 4: the packet is of a CPU that no machine has",
            "r: packet 5: the packets in this one cannot be decompressed",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes of a trace are replaced.
    #[test]
    fn no_trace_makes_it_panic(spoilt in prop::collection::vec((0..EVENTS.len(), any::<u8>()), 0..9)) {
        for trace in [EVENTS, COLUMNS] {
            let mut trace = trace.to_vec();
            for &(at, byte) in &spoilt {
                let at = at % trace.len();
                trace[at] = byte;
            }
            let _ = imported_as(&trace, Wanted { partly: true, ..Wanted::default() });
        }
    }
}
