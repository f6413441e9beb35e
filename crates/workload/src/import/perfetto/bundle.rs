//! From the events of one CPU to records.

use super::super::reading::Reading;
use super::super::record::{Context, IDLE, Left, Named, Record, What};
use super::schema::{Bundle, CompactSched, Event, SchedSwitch};
use runyard_engine::cpu::MAX_CPUS;
use std::collections::BTreeMap;

/// The first Linux in which a state of 0x40 means that a task is parked.
const PARKED_SINCE: [u32; 2] = [4, 14];

/// The kernel's flags of an event.
mod flag {
    use super::Context;

    /// In a hardware interrupt or an NMI.
    const INTERRUPT: u32 = 0x08 | 0x40;
    const SOFTIRQ: u32 = 0x10;
    /// The CPU is asked to reschedule, at once or lazily.
    pub(super) const RESCHED: u32 = 0x04 | 0x02;

    pub(super) fn context(flags: u32) -> Context {
        match () {
            () if flags & INTERRUPT != 0 => Context::Interrupt,
            () if flags & SOFTIRQ != 0 => Context::Softirq,
            () => Context::Task,
        }
    }
}

/// A task with its name.
#[derive(Clone, Debug)]
struct Task {
    comm: String,
    tid: u32,
    prio: i32,
}

impl Task {
    /// The idle task. It also stands for a task of which nothing is known but that it left its CPU.
    const IDLE: Task = Task { comm: String::new(), tid: IDLE, prio: 120 };

    fn new(comm: Option<&[u8]>, tid: Option<i32>, prio: Option<i32>) -> Option<Task> {
        Some(Task { comm: text(comm?), tid: u32::try_from(tid?).ok()?, prio: prio? })
    }

    fn named(&self) -> Named<'_> {
        Named { comm: &self.comm, tid: self.tid, prio: self.prio }
    }
}

/// What is known of all CPUs between two packets.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    /// The task that runs on each CPU, by the last switch in columns. Such a switch does not say which task leaves.
    running: BTreeMap<u32, Task>,
}

/// What the events of a packet go into, with the place of the packet and its CPU.
struct Sink<'r> {
    place: u32,
    cpu: u32,
    reading: &'r mut Reading,
}

impl Sink<'_> {
    fn take(&mut self, at: u64, who: Option<u32>, flags: Option<u32>, what: What<'_>) {
        self.reading.take(&Record {
            place: self.place,
            at,
            cpu: self.cpu,
            // The name comes from the events that name the task, or from the tree of processes.
            who: who.map(|tid| (tid, "")),
            context: flags.map_or(Context::Unknown, flag::context),
            resched: flags.is_some_and(|flags| flags & flag::RESCHED != 0),
            what,
        });
    }

    /// Counts an event of the scheduler that lacks something.
    fn skip(&mut self, what: &str) {
        self.reading.unread += 1;
        self.reading.skip(self.place, 1, what);
    }
}

impl Cpus {
    /// Takes the events of a packet.
    pub(super) fn take(
        &mut self,
        bundle: &Bundle,
        place: u32,
        names: &mut BTreeMap<u32, String>,
        reading: &mut Reading,
    ) {
        let cpu = bundle.cpu.unwrap_or(0);
        if cpu as usize >= MAX_CPUS {
            reading.skip(place, 1, "the packet is of a CPU that no machine has");
            return;
        }
        if bundle.lost_events == Some(true) {
            self.running.remove(&cpu);
            let what = format!("events of CPU {cpu} were lost before this packet");
            reading.lose(place, 1, what);
        }
        let mut sink = Sink { place, cpu, reading };
        if let Some(columns) = &bundle.compact_sched {
            self.columns(columns, &mut sink);
        }
        for event in &bundle.event {
            if let Some(task) = &event.task_newtask {
                learn(names, task.pid, task.comm.as_deref());
            }
            if let Some(task) = &event.task_rename {
                learn(names, task.pid, task.newcomm.as_deref());
            }
            self.event(event, &mut sink);
        }
    }

    fn event(&mut self, event: &Event, sink: &mut Sink<'_>) {
        let Some(at) = event.timestamp else {
            return sink.reading.skip(sink.place, 1, "an event has no time");
        };
        if let Some(switch) = &event.sched_switch {
            sink.reading.scheduler += 1;
            let Some((prev, left, next)) = switched(switch, sink.reading.release.as_deref()) else {
                return sink.skip("a sched_switch lacks a task or a state");
            };
            let what = What::Switch { prev: prev.named(), left, next: next.named() };
            sink.take(at, event.pid, None, what);
            self.running.insert(sink.cpu, next);
            return;
        }
        let [waking, wakeup, new] =
            [&event.sched_waking, &event.sched_wakeup, &event.sched_wakeup_new];
        let Some(woken) = waking.as_ref().or(wakeup.as_ref()).or(new.as_ref()) else {
            return sink.take(at, event.pid, None, What::Other);
        };
        sink.reading.scheduler += 1;
        let Some(task) = Task::new(woken.comm.as_deref(), woken.pid, woken.prio) else {
            return sink.skip("a wake-up lacks a name, a number or a priority");
        };
        let what = match () {
            // The task did not sleep.
            () if woken.success == Some(0) => What::Other,
            () if waking.is_some() => What::Waking(task.named()),
            () if wakeup.is_some() => What::Wakeup(task.named()),
            () => What::New(task.named()),
        };
        sink.take(at, event.pid, None, what);
    }

    /// Takes switches and wake-ups that are told in columns, in the order of time.
    fn columns(&mut self, columns: &CompactSched, sink: &mut Sink<'_>) {
        let (switches, wakings) = (columns.switch_timestamp.len(), columns.waking_timestamp.len());
        sink.reading.scheduler += (switches + wakings) as u64;
        if !are_whole(columns) {
            sink.reading.unread += (switches + wakings) as u64;
            let what =
                "the columns of `compact_sched` have different lengths, or names are missing";
            return sink.reading.skip(sink.place, 1, what);
        }
        let switched_at = times(&columns.switch_timestamp);
        let waking_at = times(&columns.waking_timestamp);
        let mut waking = 0;
        for (nth, &at) in switched_at.iter().enumerate() {
            while waking < wakings && waking_at[waking] <= at {
                self.waking(columns, (waking, waking_at[waking]), sink);
                waking += 1;
            }
            self.switch(columns, (nth, at), sink);
        }
        for (waking, &at) in waking_at.iter().enumerate().skip(waking) {
            self.waking(columns, (waking, at), sink);
        }
    }

    fn switch(&mut self, columns: &CompactSched, (nth, at): (usize, u64), sink: &mut Sink<'_>) {
        let comm = &columns.intern_table[columns.switch_next_comm_index[nth] as usize];
        let (tid, prio) = (columns.switch_next_pid[nth], columns.switch_next_prio[nth]);
        let Some(next) = Task::new(Some(comm), Some(tid), Some(prio)) else {
            return sink.skip("a switch in columns has a task of a negative number");
        };
        // What ran before the first switch of a CPU, or before a gap, is unknown.
        let prev = self.running.remove(&sink.cpu).unwrap_or(Task::IDLE);
        let left = left(columns.switch_prev_state[nth], sink.reading.release.as_deref());
        let what = What::Switch { prev: prev.named(), left, next: next.named() };
        sink.take(at, Some(prev.tid), None, what);
        self.running.insert(sink.cpu, next);
    }

    fn waking(&mut self, columns: &CompactSched, (nth, at): (usize, u64), sink: &mut Sink<'_>) {
        let comm = &columns.intern_table[columns.waking_comm_index[nth] as usize];
        let (tid, prio) = (columns.waking_pid[nth], columns.waking_prio[nth]);
        let Some(woken) = Task::new(Some(comm), Some(tid), Some(prio)) else {
            return sink.skip("a wake-up in columns has a task of a negative number");
        };
        let flags = columns.waking_common_flags.get(nth).copied();
        let who = self.running.get(&sink.cpu).map(|task| task.tid);
        sink.take(at, who, flags, What::Waking(woken.named()));
    }
}

/// Adds the name of a thread.
fn learn(names: &mut BTreeMap<u32, String>, tid: Option<i32>, comm: Option<&[u8]>) {
    if let (Some(Ok(tid)), Some(comm)) = (tid.map(u32::try_from), comm) {
        names.insert(tid, text(comm));
    }
}

fn switched(switch: &SchedSwitch, release: Option<&str>) -> Option<(Task, Left, Task)> {
    let prev = Task::new(switch.prev_comm.as_deref(), switch.prev_pid, switch.prev_prio)?;
    let next = Task::new(switch.next_comm.as_deref(), switch.next_pid, switch.next_prio)?;
    Some((prev, left(switch.prev_state?, release), next))
}

fn left(bits: i64, release: Option<&str>) -> Left {
    let parks = release.and_then(version).is_some_and(|version| version >= PARKED_SINCE);
    Left::of_bits(bits as u32, parks)
}

/// Returns the first two numbers of a release, as in `6.18.44`.
fn version(release: &str) -> Option<[u32; 2]> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

/// Returns whether all columns have as many entries, and all names are there.
fn are_whole(columns: &CompactSched) -> bool {
    let (switches, wakings) = (columns.switch_timestamp.len(), columns.waking_timestamp.len());
    let named = |&comm: &u32| (comm as usize) < columns.intern_table.len();
    let flags = columns.waking_common_flags.len();
    columns.switch_prev_state.len() == switches
        && columns.switch_next_pid.len() == switches
        && columns.switch_next_prio.len() == switches
        && columns.switch_next_comm_index.len() == switches
        && columns.waking_pid.len() == wakings
        && columns.waking_prio.len() == wakings
        && columns.waking_comm_index.len() == wakings
        && (flags == 0 || flags == wakings)
        && columns.switch_next_comm_index.iter().all(named)
        && columns.waking_comm_index.iter().all(named)
}

/// Returns times of which each is told as the difference to the one before.
fn times(differences: &[u64]) -> Vec<u64> {
    let mut at = 0_u64;
    let add = |&more: &u64| {
        at = at.saturating_add(more);
        at
    };
    differences.iter().map(add).collect()
}

/// Returns the name of a thread as text.
pub(super) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
