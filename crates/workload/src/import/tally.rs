//! Figures of a recording that leave out what is not the workload's own.

use super::record::{IDLE, Left, Named, What};
use super::records;
use runyard_engine::time::Nanos;
use std::collections::BTreeMap;

/// What the tasks of a workload did in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The tasks that ran, by name. Threads of one name are one entry.
    pub tasks: BTreeMap<String, Ran>,
    /// The switches of all CPUs from one own task to another, or to and from the idle task. A foreign task in between
    /// is left out: a task that gets its CPU back after one has not been switched.
    pub switches: u64,
    /// The switches from an own task that was still runnable.
    pub preemptions: u64,
    /// The time for which other tasks than the own ones and the idle one had a CPU, between the first switch to an own
    /// task and the last one.
    pub foreign: Nanos,
}

/// The figures of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// How long the task had a CPU, interrupts included.
    pub runtime: Nanos,
    /// From each wake-up to the switch to the task, in ascending order.
    pub latencies: Vec<Nanos>,
    /// How long the task was runnable without a CPU: from each wake-up, and from each switch from it while it was runnable, to
    /// the next switch to it, or to the end.
    pub waits: Nanos,
    /// How often it left its CPU while it was runnable, and another own task or the idle one followed.
    pub preemptions: u64,
}

impl Ran {
    /// The latency that `percent` of the wake-ups did not exceed: the least value of that rank. `None` without wake-ups.
    ///
    /// ```
    /// use runyard_engine::time::Nanos;
    /// use runyard_workload::import::Ran;
    ///
    /// let ran = Ran { latencies: (1..=200).map(Nanos).collect(), ..Ran::default() };
    /// assert_eq!(ran.percentile(50), Some(Nanos(100)));
    /// assert_eq!(ran.percentile(99), Some(Nanos(198)));
    /// ```
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<Nanos> {
        let rank = (self.latencies.len() * percent).div_ceil(100).max(1);
        self.latencies.get(rank - 1).copied()
    }
}

/// What a CPU has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Has {
    #[default]
    Unknown,
    Idle,
    Own(u32, String),
}

/// A CPU of the recording.
#[derive(Default)]
struct Cpu {
    /// The last own or idle task.
    last: Has,
    /// Whether `last` was runnable when it left.
    runnable: bool,
    /// The running thread since when.
    since: Option<(u32, u64)>,
}

/// Reads the switches and wake-ups of a recording, in the formats that [`import`](fn@super::import) reads. `is_own` tells
/// from a name whether a task is the workload's. The run begins at the [note](super::BEGINS) of `runyard linux`, or without
/// one with the first switch to such a task. What is earlier, or later than `span` after it, is left out. A task that runs
/// when the recording ends has its CPU until `span` is over. Invalid lines are skipped.
///
/// ```
/// use runyard_engine::time::Nanos;
/// use runyard_workload::import::tally;
///
/// let text = "\
/// <idle>-0 [000] d.h2. 1.000000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
/// <idle>-0 [000] d..2. 1.000002000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
/// a-7 [000] d..2. 1.000005000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
/// ";
/// let tally = tally(text, Nanos::from_secs(1), |name| name == "a");
/// assert_eq!(tally.tasks["a"].runtime, Nanos(3_000));
/// assert_eq!(tally.tasks["a"].latencies, [Nanos(2_000)]);
/// assert_eq!(tally.tasks["a"].waits, Nanos(2_000));
/// assert_eq!((tally.switches, tally.preemptions), (1, 0));
/// ```
#[must_use]
pub fn tally(text: &str, span: Nanos, is_own: impl Fn(&str) -> bool) -> Tally {
    let records = records(text);
    let noted = records.iter().find_map(|record| match record.what {
        What::Begins(at) => Some(at),
        _ => None,
    });
    let mut count = Count {
        tally: Tally::default(),
        woken: BTreeMap::new(),
        left: BTreeMap::new(),
        foreign_since: Nanos::ZERO,
        begun: noted,
        is_own,
    };
    let mut cpus: BTreeMap<u32, Cpu> = BTreeMap::new();
    for record in records.iter() {
        if count.begun.is_some_and(|begun| record.at > begun + span.0) {
            break;
        }
        let early = noted.is_some_and(|begun| record.at < begun);
        match record.what {
            What::Switch { next, .. } if early => {
                let cpu = cpus.entry(record.cpu).or_default();
                cpu.since = noted.map(|begun| (next.tid, begun));
                cpu.last = count.who(next).unwrap_or_else(|| cpu.last.clone());
            }
            _ if early => {}
            What::Waking(task) if (count.is_own)(task.comm) => {
                let runs = cpus.values().any(|cpu| cpu.since.is_some_and(|it| it.0 == task.tid));
                if !runs {
                    count.wake(task, record.at);
                }
            }
            What::Switch { prev, left, next } => {
                let cpu = cpus.entry(record.cpu).or_default();
                count.leave(cpu, record.at, prev, left);
                count.enter(cpu, record.at, next);
            }
            _ => {}
        }
    }
    if let Some(begun) = count.begun {
        cpus.values_mut().for_each(|cpu| count.stop(cpu, begun + span.0));
        count.end_waits(begun + span.0);
    }
    count.tally.tasks.values_mut().for_each(|ran| ran.latencies.sort_unstable());
    count.tally
}

/// The count so far.
struct Count<F> {
    tally: Tally,
    /// The own tasks that were woken and have no CPU yet, with the time.
    woken: BTreeMap<u32, (u64, String)>,
    /// The own tasks that left their CPUs runnable and have none yet, with the time.
    left: BTreeMap<u32, (u64, String)>,
    /// The time of foreign tasks since the last switch to an own one.
    foreign_since: Nanos,
    /// The first switch to an own task.
    begun: Option<u64>,
    is_own: F,
}

impl<F: Fn(&str) -> bool> Count<F> {
    /// A task without a CPU becomes runnable. A task that left its CPU runnable waits already.
    fn wake(&mut self, task: Named<'_>, at: u64) {
        let first = || (at, task.comm.to_owned());
        self.woken.entry(task.tid).or_insert_with(first);
    }

    /// Ends a wait of a task with the switch to it.
    fn end_wait(&mut self, name: &str, tid: u32, at: u64) {
        let woken = self.woken.remove(&tid).map(|it| it.0);
        let since = self.left.remove(&tid).map(|it| it.0).or(woken);
        let ran = self.task(name);
        ran.latencies.extend(woken.map(|since| Nanos(at - since)));
        ran.waits += since.map_or(Nanos::ZERO, |since| Nanos(at - since));
    }

    /// Counts the waits that the end cuts off.
    fn end_waits(&mut self, end: u64) {
        let woken = std::mem::take(&mut self.woken).into_iter();
        let woken: Vec<_> = woken.filter(|(tid, _)| !self.left.contains_key(tid)).collect();
        for (_, (since, name)) in woken.into_iter().chain(std::mem::take(&mut self.left)) {
            self.task(&name).waits += Nanos(end.saturating_sub(since));
        }
    }

    fn leave(&mut self, cpu: &mut Cpu, at: u64, prev: Named<'_>, left: Left) {
        let since = cpu.since.take().filter(|since| since.0 == prev.tid);
        let ran = since.map(|since| Nanos(at - since.1)).unwrap_or_default();
        if (self.is_own)(prev.comm) {
            self.task(prev.comm).runtime += ran;
            cpu.last = Has::Own(prev.tid, prev.comm.to_owned());
            cpu.runnable = left == Left::Ready;
            if cpu.runnable {
                self.left.insert(prev.tid, (at, prev.comm.to_owned()));
            }
        } else if prev.tid != IDLE && !self.tally.tasks.is_empty() {
            self.foreign_since += ran;
        }
    }

    fn enter(&mut self, cpu: &mut Cpu, at: u64, next: Named<'_>) {
        cpu.since = Some((next.tid, at));
        let Some(now) = self.who(next) else { return };
        if let Has::Own(tid, name) = &now {
            self.begun.get_or_insert(at);
            self.tally.foreign += std::mem::take(&mut self.foreign_since);
            self.end_wait(name, *tid, at);
        }
        // Until an own task or the idle one was seen, it is unknown what this follows.
        if now != cpu.last && cpu.last != Has::Unknown {
            self.tally.switches += 1;
            if let (Has::Own(_, name), true) = (&cpu.last, cpu.runnable) {
                self.tally.preemptions += 1;
                self.task(name).preemptions += 1;
            }
        }
        (cpu.last, cpu.runnable) = (now, false);
    }

    /// What a CPU has that runs this task; `None` for a foreign one.
    fn who(&self, task: Named<'_>) -> Option<Has> {
        match task.tid {
            IDLE => Some(Has::Idle),
            tid => (self.is_own)(task.comm).then(|| Has::Own(tid, task.comm.to_owned())),
        }
    }

    /// Counts what a running task has done until the end.
    fn stop(&mut self, cpu: &mut Cpu, end: u64) {
        if let (Has::Own(tid, name), Some((running, since))) = (&cpu.last, cpu.since)
            && *tid == running
        {
            self.task(name).runtime += Nanos(end - since);
        }
    }

    fn task(&mut self, name: &str) -> &mut Ran {
        let tasks = &mut self.tally.tasks;
        if !tasks.contains_key(name) {
            tasks.insert(name.to_owned(), Ran::default());
        }
        tasks.get_mut(name).expect("it was inserted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch on CPU 0 at so many microseconds: the tasks as `name-pid`, and the state that the first one leaves in.
    fn switch(us: u64, prev: &str, state: &str, next: &str) -> String {
        let named = |task: &str| {
            let (comm, pid) = task.rsplit_once('-').unwrap();
            (comm.to_owned(), pid.to_owned())
        };
        let ((a, m), (b, n)) = (named(prev), named(next));
        format!(
            "{a}-{m} [000] d..2. 1.{us:06}: sched_switch: prev_comm={a} prev_pid={m} prev_prio=120 prev_state={state} \
             ==> next_comm={b} next_pid={n} next_prio=120\n"
        )
    }

    const SPAN: Nanos = Nanos::from_millis(1);

    #[test]
    fn what_is_later_than_the_span_is_left_out() {
        let text = switch(5, "swapper/0-0", "R", "own-1")
            + &switch(15, "own-1", "R", "own-b-2")
            + &switch(45, "own-b-2", "R", "own-1");
        let tally = tally(&text, Nanos::from_micros(30), own);
        assert_eq!((tally.switches, tally.preemptions), (1, 1));
        assert_eq!(tally.tasks["own"].runtime, Nanos(10_000));
        assert_eq!(tally.tasks["own-b"].runtime, Nanos(20_000));
        assert_eq!(tally.tasks["own"].waits, Nanos(20_000), "it still waits at the end");
    }

    /// Seen failing: the switches and wake-ups of the preparation counted.
    #[test]
    fn what_is_earlier_than_the_noted_begin_is_left_out() {
        let text = switch(5, "swapper/0-0", "R", "own-1")
            + &switch(15, "own-1", "R", "own-b-2")
            + "init-3 [000] d..2. 1.000016: tracing_mark_write: runyard: the run begins at 1000020000\n"
            + &switch(25, "own-b-2", "R", "own-1");
        let tally = tally(&text, Nanos::from_micros(30), own);
        assert_eq!((tally.switches, tally.preemptions), (1, 1));
        assert_eq!(tally.tasks["own-b"].runtime, Nanos(5_000));
        assert_eq!(tally.tasks["own"].runtime, Nanos(25_000));
    }

    /// Seen failing: a hog that nobody stops had nothing.
    #[test]
    fn what_runs_when_the_recording_ends_goes_on_until_the_span_is_over() {
        let text = switch(5, "swapper/0-0", "R", "own-1") + &switch(15, "own-1", "R", "own-b-2");
        let tally = tally(&text, SPAN, own);
        assert_eq!(tally.tasks["own"].runtime, Nanos(10_000));
        assert_eq!(tally.tasks["own-b"].runtime, Nanos(990_000));
    }

    fn own(name: &str) -> bool {
        name.starts_with("own")
    }

    #[test]
    fn a_foreign_task_in_between_is_no_switch_and_no_preemption() {
        let text = switch(0, "swapper/0-0", "R", "init-3")
            + &switch(1, "init-3", "S", "own-1")
            + &switch(10, "own-1", "R", "kworker-9")
            + &switch(12, "kworker-9", "I", "own-1")
            + &switch(20, "own-1", "R+", "kworker-9")
            + &switch(21, "kworker-9", "I", "own-b-2")
            + &switch(30, "own-b-2", "S", "own-1")
            + &switch(40, "own-1", "S", "init-3")
            + &switch(50, "init-3", "S", "swapper/0-0");
        let tally = tally(&text, SPAN, own);
        assert_eq!((tally.switches, tally.preemptions), (3, 1));
        assert_eq!(tally.tasks["own"].preemptions, 1);
        assert_eq!(tally.tasks["own"].runtime, Nanos(27_000));
        assert_eq!(tally.tasks["own"].waits, Nanos(12_000));
        assert_eq!(tally.foreign, Nanos(3_000));
    }

    #[test]
    fn a_second_wake_up_before_the_switch_does_not_count() {
        let waking = |us: u64| {
            format!(
                "x-5 [000] d.h2. 1.{us:06}: sched_waking: comm=own pid=1 prio=120 target_cpu=000\n"
            )
        };
        let text = switch(0, "swapper/0-0", "R", "own-2")
            + &waking(5)
            + &waking(6)
            + &switch(8, "own-2", "S", "own-1")
            + &waking(9)
            + &switch(10, "own-1", "S", "swapper/0-0");
        let tally = tally(&text, SPAN, own);
        assert_eq!(tally.tasks["own"].latencies, [Nanos(3_000)]);
        assert_eq!(tally.tasks["own"].waits, Nanos(3_000));
    }
}
