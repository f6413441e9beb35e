//! Publication of a snapshot through the crate `metrics`, to the recorder that the program has installed.
//!
//! Counts are counters. Times are gauges, in seconds, because a counter of that crate is a whole number. A single task
//! has no series of its own, because tasks come and go. The series of tasks are sums over all tasks, including those
//! that are over, so they never fall. The names are in docs/design/watching.md, and do not change.

use super::{Counts, Snapshot, TaskState};
use metrics::{Label, SharedString, Unit};
use std::time::Duration;

/// The description of one series.
struct Known {
    name: &'static str,
    unit: Unit,
    is_counter: bool,
    what: &'static str,
}

const fn gauge(name: &'static str, unit: Unit, what: &'static str) -> Known {
    Known { name, unit, is_counter: false, what }
}

const fn counter(name: &'static str, what: &'static str) -> Known {
    Known { name, unit: Unit::Count, is_counter: true, what }
}

/// The series of tasks, CPUs or groups, in the order of [`record_counts`].
struct Names {
    run: Known,
    wait: Known,
    switches: Known,
    migrations: Known,
    preemptions: Known,
}

macro_rules! names {
    ($kind:literal, $of:literal) => {
        Names {
            run: gauge(
                concat!("runyard_", $kind, "_run_seconds_total"),
                Unit::Seconds,
                concat!("CPU time charged, ", $of),
            ),
            wait: gauge(
                concat!("runyard_", $kind, "_wait_seconds_total"),
                Unit::Seconds,
                concat!("Time of waiting for a CPU in waits that are over, ", $of),
            ),
            switches: counter(
                concat!("runyard_", $kind, "_switches_total"),
                concat!("Number of times that a task got a CPU, ", $of),
            ),
            migrations: counter(
                concat!("runyard_", $kind, "_migrations_total"),
                concat!("Number of times that a task got another CPU than before, ", $of),
            ),
            preemptions: counter(
                concat!("runyard_", $kind, "_preemptions_total"),
                concat!("Number of times that a task lost its CPU involuntarily, ", $of),
            ),
        }
    };
}

static TASKS: Names = names!("task", "over all tasks");
static CPUS: Names = names!("cpu", "on a CPU");
static GROUPS: Names = names!("group", "in a group and below");

static UPTIME: Known =
    gauge("runyard_uptime_seconds", Unit::Seconds, "Time since the start of the runtime");
static LIVE: Known = gauge("runyard_tasks", Unit::Count, "Tasks that are not over, by state");
static WAITING: Known = gauge("runyard_cpu_waiting_tasks", Unit::Count, "Tasks that wait on a CPU");
static IN_GROUP: Known = gauge("runyard_group_tasks", Unit::Count, "Tasks in a group and below");
static THREADS: Known = gauge("runyard_threads", Unit::Count, "Kernel threads that run tasks");
static STOPPED: Known = gauge(
    "runyard_stopped_threads",
    Unit::Count,
    "Kernel threads that were stopped in the middle of a poll",
);
static OLDEST: Known = gauge(
    "runyard_oldest_wait_seconds",
    Unit::Seconds,
    "Time for which the longest waiting task has waited for a CPU",
);

impl Snapshot {
    /// Publishes the numbers through the crate `metrics`, to the recorder of the calling thread or of the process. The
    /// recorder is called on this thread, and the runtime holds no lock meanwhile. A program calls this every few
    /// seconds. It does nothing without a recorder. It needs the feature `metrics`.
    ///
    /// ```
    /// let runtime = runyard::Runtime::builder().workers(1).build();
    /// runyard::Snapshot::describe();
    /// runtime.snapshot().record();
    /// ```
    pub fn record(&self) {
        set(&UPTIME, &[], self.uptime.as_secs_f64());
        set(&THREADS, &[], self.threads as f64);
        set(&STOPPED, &[], self.stopped_threads as f64);
        let oldest = self.oldest_wait.as_ref().map_or(Duration::ZERO, |wait| wait.waits);
        set(&OLDEST, &[], oldest.as_secs_f64());
        for state in TaskState::ALL {
            let there = self.tasks.iter().filter(|task| task.state == state).count();
            set(&LIVE, &[Label::from_static_parts("state", state.as_str())], there as f64);
        }
        let mut all = Counts::default();
        for cpu in &self.cpus {
            let label = Label::new("cpu", cpu.cpu.to_string());
            set(&WAITING, std::slice::from_ref(&label), cpu.waiting as f64);
            record_counts(&CPUS, &[label], &cpu.counts);
            all.add(&cpu.counts);
        }
        record_counts(&TASKS, &[], &all);
        for group in &self.groups {
            let label = Label::new("group", SharedString::from(group.path.clone()));
            set(&IN_GROUP, std::slice::from_ref(&label), group.tasks as f64);
            record_counts(&GROUPS, &[label], &group.counts);
        }
    }

    /// Gives the recorder the meaning and the unit of each name. A program calls this once, before
    /// [`Snapshot::record`]. It needs the feature `metrics`.
    pub fn describe() {
        let plain = [&UPTIME, &LIVE, &WAITING, &IN_GROUP, &THREADS, &STOPPED, &OLDEST];
        let counts = [&TASKS, &CPUS, &GROUPS].into_iter().flat_map(|names| {
            let Names { run, wait, switches, migrations, preemptions } = names;
            [run, wait, switches, migrations, preemptions]
        });
        for Known { name, unit, is_counter, what } in plain.into_iter().chain(counts) {
            match is_counter {
                true => metrics::describe_counter!(*name, *unit, *what),
                false => metrics::describe_gauge!(*name, *unit, *what),
            }
        }
    }
}

impl TaskState {
    /// All states.
    const ALL: [TaskState; 8] = [
        TaskState::Running,
        TaskState::Waiting,
        TaskState::Stopped,
        TaskState::Blocked,
        TaskState::InKernel,
        TaskState::Deaf,
        TaskState::AwaitsThread,
        TaskState::Moving,
    ];
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.run += other.run;
        self.wait += other.wait;
        self.switches += other.switches;
        self.migrations += other.migrations;
        self.preemptions.important += other.preemptions.important;
        self.preemptions.turn += other.preemptions.turn;
        self.preemptions.limit += other.preemptions.limit;
        self.preemptions.moved += other.preemptions.moved;
    }
}

fn record_counts(names: &Names, labels: &[Label], counts: &Counts) {
    set(&names.run, labels, counts.run.as_secs_f64());
    set(&names.wait, labels, counts.wait.as_secs_f64());
    count(&names.switches, labels.to_vec(), counts.switches);
    count(&names.migrations, labels.to_vec(), counts.migrations);
    let by = counts.preemptions;
    let causes =
        [("important", by.important), ("turn", by.turn), ("limit", by.limit), ("moved", by.moved)];
    for (cause, times) in causes {
        let mut labels = labels.to_vec();
        labels.push(Label::from_static_parts("cause", cause));
        count(&names.preemptions, labels, times);
    }
}

fn set(known: &Known, labels: &[Label], value: f64) {
    metrics::gauge!(known.name, labels.to_vec()).set(value);
}

fn count(known: &Known, labels: Vec<Label>, value: u64) {
    metrics::counter!(known.name, labels).absolute(value);
}
