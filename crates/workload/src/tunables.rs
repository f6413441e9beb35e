//! The table of the machine's and the scheduler's numbers and switches, each with its range, its default, its meaning
//! and its source. The reader of scenarios takes keys and ranges from it, settings (`--set`) take paths, and `runyard
//! tunables` lists it.
//!
//! Invariant: a key of `scheduler`, of `machine`, and of the objects in `machine` is known if and only if the table has
//! it.

use crate::scenario::{Costs, Scenario};
use runyard_engine::config::Config;
use runyard_engine::cpu::MAX_CPUS;
use runyard_engine::features::Feature;
use runyard_engine::kernel::{Kernel, Model};
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_engine::tuned::Set;

/// A number or a switch that a scenario may set.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// The path in a scenario: `scheduler.base_slice_us`.
    pub path: &'static str,
    /// The values that it takes.
    pub takes: Takes,
    /// The meaning, in a sentence.
    pub what: &'static str,
    /// The kernel's file with that value, or another source of the default.
    pub source: &'static str,
    pub(crate) place: Place,
}

/// The values of a tunable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// An integer of a range, both ends included.
    Integer {
        /// The unit: "microseconds".
        unit: &'static str,
        /// The lowest value.
        low: i64,
        /// The highest value.
        high: i64,
    },
    /// A switch, `true` or `false`.
    Switch,
    /// A number above 0 and at most 1, with at most six decimals.
    Part,
    /// A list of CPUs, `"2-3"` or `[2, 3]`.
    Cpus,
    /// The shape of a machine, `"2x4"`.
    Shape,
    /// The name of a kernel.
    Kernel,
    /// The name of a preemption model.
    Preemption,
}

/// The place where the value of a tunable is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A number of the scheduler.
    Scheduler { get: fn(&Config) -> i64, set: Set, of: Of, at_most: Option<&'static str> },
    /// A cost.
    Cost(fn(&mut Costs) -> &mut Nanos),
    /// Any other place: a function that returns the JSON text of the value, if there is one.
    Machine(fn(&Scenario) -> Option<String>),
}

/// The schedulers that have a tunable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Every,
    Cfs,
    Eevdf,
    Throttling,
    FairServer,
    Bandwidth,
}

impl Of {
    /// Returns whether the scheduler has these numbers, before any tuning.
    pub(crate) fn has(self, config: &Config) -> bool {
        match self {
            Of::Every => true,
            Of::Cfs => !config.features.has(Feature::Eevdf),
            Of::Eevdf => config.features.has(Feature::Eevdf),
            Of::Throttling => config.rt_runtime.is_some(),
            Of::FairServer => config.features.has(Feature::FairServer),
            Of::Bandwidth => config.features.has(Feature::CfsBandwidth),
        }
    }

    /// Returns the part that a scheduler without this tunable lacks.
    fn lacked(self) -> &'static str {
        match self {
            Of::Every => "nothing",
            Of::Cfs => "it is a number of CFS, and EEVDF is on",
            Of::Eevdf => "it is a number of EEVDF, and that is off",
            Of::Throttling => {
                "real-time tasks are not throttled (without `machine.rt_group_sched`)"
            }
            Of::FairServer => "it is a number of FAIR_SERVER, and that is off",
            Of::Bandwidth => "it is a number of CFS_BANDWIDTH, and that is off",
        }
    }
}

const fn integer(unit: &'static str, low: i64, high: i64) -> Takes {
    Takes::Integer { unit, low, high }
}

/// The largest span of the fair class in microseconds (`max_sched_granularity_ns`, `fair.c` through 5.12).
const SECOND_US: i64 = 1_000_000;

/// The longest period of the fair server (`fair_server_period_max`, `debug.c`).
const LONGEST_SERVER_PERIOD_US: i64 = 1 << 22;

/// The longest period of real-time tasks: that of a C `int`, in microseconds.
const MAX_INT: i64 = i32::MAX as i64;

/// The shortest period of the fair server. The kernel allows 100 us (`fair_server_period_min`). With such a short
/// period, a simulated CPU was observed to be late for the server's interrupt.
const SHORTEST_SERVER_PERIOD_US: i64 = 1_000;

/// The shortest period of real-time tasks. The kernel allows less, and its CPUs would then only begin periods.
const SHORTEST_RT_PERIOD_US: i64 = 1_000;

/// The largest cost. More than a second is a mistake in the unit.
const MAX_COST_NS: i64 = 1_000_000_000;

/// The largest number of ticks a second. More would leave no time between two ticks for the work of one.
const MAX_TICK_HZ: i64 = 100_000;

fn us(span: Nanos) -> i64 {
    (span.0 / 1_000).cast_signed()
}

fn from_us(value: i64) -> Nanos {
    Nanos::from_micros(value.unsigned_abs())
}

const fn cost(
    path: &'static str,
    what: &'static str,
    source: &'static str,
    of: fn(&mut Costs) -> &mut Nanos,
) -> Tunable {
    let takes = integer("nanoseconds", 0, MAX_COST_NS);
    Tunable { path, takes, what, source, place: Place::Cost(of) }
}

/// A span of the scheduler, in microseconds.
macro_rules! span {
    ($name:literal, $low:expr, $high:expr, $of:expr, $field:ident, $at_most:expr, $what:literal, $source:literal $(,)?) => {
        Tunable {
            path: concat!("scheduler.", $name),
            takes: integer("microseconds", $low, $high),
            what: $what,
            source: $source,
            place: Place::Scheduler {
                get: |config| us(config.$field),
                set: |config, value| config.$field = from_us(value),
                of: $of,
                at_most: $at_most,
            },
        }
    };
}

/// All tunables, in the order of the listing.
pub const ALL: &[Tunable] = &[
    span!(
        "base_slice_us",
        100,
        100_000,
        Of::Eevdf,
        base_slice,
        None,
        "The slice of a fair task that asks for none.",
        "/sys/kernel/debug/sched/base_slice_ns",
    ),
    span!(
        "latency_us",
        100,
        SECOND_US,
        Of::Cfs,
        latency,
        None,
        "The span in which each of up to eight fair tasks runs once. A sleeper is credited half of it.",
        "/sys/kernel/debug/sched/latency_ns",
    ),
    span!(
        "min_granularity_us",
        100,
        SECOND_US,
        Of::Cfs,
        min_granularity,
        None,
        "The time that a fair task runs before a tick may preempt it.",
        "/sys/kernel/debug/sched/min_granularity_ns",
    ),
    span!(
        "wakeup_granularity_us",
        0,
        SECOND_US,
        Of::Cfs,
        wakeup_granularity,
        None,
        "The lead beyond which a woken fair task of nice 0 preempts the running one.",
        "/sys/kernel/debug/sched/wakeup_granularity_ns",
    ),
    span!(
        "migration_cost_us",
        0,
        SECOND_US,
        Of::Every,
        migration_cost,
        None,
        "The time for which the caches of a CPU keep the data of a task, which then stays there if possible.",
        "/sys/kernel/debug/sched/migration_cost_ns",
    ),
    span!(
        "rt_period_us",
        SHORTEST_RT_PERIOD_US,
        MAX_INT,
        Of::Throttling,
        rt_period,
        None,
        "The period of `rt_runtime_us`.",
        "/proc/sys/kernel/sched_rt_period_us",
    ),
    Tunable {
        path: "scheduler.rt_runtime_us",
        takes: integer("microseconds, or -1 for no limit", -1, MAX_INT),
        what: "The part of each `rt_period_us` that real-time tasks may have on a CPU; -1 for all of it.",
        source: "/proc/sys/kernel/sched_rt_runtime_us",
        place: Place::Scheduler {
            get: |config| config.rt_runtime.map_or(-1, us),
            set: |config, value| config.rt_runtime = (value >= 0).then(|| from_us(value)),
            of: Of::Throttling,
            at_most: Some("scheduler.rt_period_us"),
        },
    },
    Tunable {
        path: "scheduler.rr_timeslice_ms",
        takes: integer("milliseconds", 1, MAX_INT),
        what: "The turn of a SCHED_RR task among those of its priority.",
        source: "/proc/sys/kernel/sched_rr_timeslice_ms",
        place: Place::Scheduler {
            get: |config| us(config.rr_slice) / 1_000,
            set: |config, value| config.rr_slice = Nanos::from_millis(value.unsigned_abs()),
            of: Of::Every,
            at_most: None,
        },
    },
    span!(
        "fair_server_runtime_us",
        1,
        LONGEST_SERVER_PERIOD_US,
        Of::FairServer,
        server_runtime,
        Some("scheduler.fair_server_period_us"),
        "The part of each `fair_server_period_us` that a CPU guarantees to fair tasks beside real-time tasks.",
        "/sys/kernel/debug/sched/fair_server/cpuN/runtime",
    ),
    span!(
        "fair_server_period_us",
        SHORTEST_SERVER_PERIOD_US,
        LONGEST_SERVER_PERIOD_US,
        Of::FairServer,
        server_period,
        None,
        "The period of `fair_server_runtime_us`.",
        "/sys/kernel/debug/sched/fair_server/cpuN/period",
    ),
    span!(
        "cfs_bandwidth_slice_us",
        1,
        SECOND_US,
        Of::Bandwidth,
        bandwidth_slice,
        None,
        "The CPU time that a CPU draws at a time from the quota of a task group (`cpu.max`).",
        "/proc/sys/kernel/sched_cfs_bandwidth_slice_us",
    ),
    span!(
        "deep_sleep_us",
        0,
        SECOND_US,
        Of::Every,
        deep_sleep,
        None,
        "The idle time after which a CPU sleeps deeply. POWER_SAVINGS does not wake it for SCHED_IDLE work.",
        "/sys/devices/system/cpu/cpuN/cpuidle/stateN/residency",
    ),
    Tunable {
        path: "machine.cpus",
        takes: integer("a number of CPUs", 1, MAX_CPUS as i64),
        what: "The number of CPUs of the machine.",
        source: "/sys/devices/system/cpu/possible",
        place: Place::Machine(|scenario| Some(scenario.machine.topology.cpus().to_string())),
    },
    Tunable {
        path: "machine.topology",
        takes: Takes::Shape,
        what: "The shape of the machine: NODESxCORES or NODESxCORESxTHREADS.",
        source: "/sys/devices/system/cpu/cpuN/topology",
        place: Place::Machine(|scenario| Some(format!("\"{}\"", scenario.machine.topology))),
    },
    Tunable {
        path: "machine.kernel",
        takes: Takes::Kernel,
        what: "The kernel that gives the machine its features, rules and numbers.",
        source: "docs/design/kernels.md",
        place: Place::Machine(|scenario| Some(format!("\"{}\"", scenario.model))),
    },
    Tunable {
        path: "machine.tick_hz",
        takes: integer("ticks a second", 1, MAX_TICK_HZ),
        what: "The number of ticks a second on a busy CPU.",
        source: "CONFIG_HZ",
        place: Place::Machine(|scenario| Some(scenario.machine.tick_hz.to_string())),
    },
    Tunable {
        path: "machine.skew_tick",
        takes: Takes::Switch,
        what: "Whether the CPUs tick at different times, spread over half a tick.",
        source: "kernel parameter skew_tick",
        place: Place::Machine(|scenario| Some(scenario.machine.skew_tick.to_string())),
    },
    Tunable {
        path: "machine.rt_group_sched",
        takes: Takes::Switch,
        what: "Whether the kernel schedules groups of real-time tasks, and so throttles them in any release.",
        source: "CONFIG_RT_GROUP_SCHED",
        place: Place::Machine(|scenario| Some(scenario.machine.rt_group_sched.to_string())),
    },
    Tunable {
        path: "machine.packs_below",
        takes: integer("per cent of a CPU", 1, 100),
        what: "The use by fair tasks below which a waking task stays on a busy CPU, on kernels with PELT.",
        source: "kernel parameter sched_vcpu_pack of some guests",
        place: Place::Machine(|scenario| scenario.machine.packs_below.map(|most| most.to_string())),
    },
    Tunable {
        path: "machine.isolated",
        takes: Takes::Cpus,
        what: "The CPUs without load balance: tasks are there only by their `cpus` or the cpuset of their group.",
        source: "kernel parameter isolcpus",
        place: Place::Machine(|scenario| {
            let isolated = &scenario.machine.isolated;
            (!isolated.is_empty()).then(|| format!("\"{isolated}\""))
        }),
    },
    Tunable {
        path: "machine.preemption",
        takes: Takes::Preemption,
        what: "Where a task in the kernel gives way: at once, at its return to user mode, or between.",
        source: "/sys/kernel/debug/sched/preempt",
        place: Place::Machine(|scenario| Some(format!("\"{}\"", scenario.machine.preemption))),
    },
    Tunable {
        path: "machine.smt.busy_speed",
        takes: Takes::Part,
        what: "The speed of a hardware thread with one busy sibling. It is 0.6 with an empty `smt`, and 1 without `smt`.",
        source: "docs/reference/machine.md",
        place: Place::Machine(|scenario| scenario.machine.smt.map(part)),
    },
    cost(
        "machine.costs.context_switch_ns",
        "The time from the decision to switch to the first instruction of the next task.",
        CALIBRATE,
        |costs| &mut costs.context_switch,
    ),
    cost(
        "machine.costs.migration_ns",
        "The time of a task's migration from one run queue to another.",
        "docs/design/simulator.md",
        |costs| &mut costs.migration,
    ),
    cost(
        "machine.costs.ipi_ns",
        "The time from a request to another CPU to reschedule to its arrival.",
        CALIBRATE,
        |costs| &mut costs.ipi,
    ),
    cost(
        "machine.costs.wakeup_ns",
        "The time that a wake-up takes on the waker's CPU.",
        CALIBRATE,
        |costs| &mut costs.wakeup,
    ),
    cost(
        "machine.costs.wakeup_fair_ns",
        "The additional time of the wake-up of a fair task.",
        CALIBRATE,
        |costs| &mut costs.wakeup_fair,
    ),
    cost(
        "machine.costs.wakeup_level_ns",
        "The additional time of that for each group that the task is in.",
        CALIBRATE,
        |costs| &mut costs.wakeup_level,
    ),
    cost(
        "machine.costs.timer_interrupt_ns",
        "The time that a timer interrupt takes; less than a tick.",
        CALIBRATE,
        |costs| &mut costs.timer_interrupt,
    ),
    cost(
        "machine.costs.timer_latency_ns",
        "The delay of a timer interrupt; 0 is none, with or without jitter.",
        CALIBRATE,
        |costs| &mut costs.timer_latency,
    ),
    cost(
        "machine.costs.idle_exit_ns",
        "The additional time of an interrupt on an idle CPU; 0 is none, with or without jitter.",
        CALIBRATE,
        |costs| &mut costs.idle_exit,
    ),
    cost(
        "machine.costs.sleep_ns",
        "The CPU time of a task in the kernel for a sleep or a timer.",
        CALIBRATE,
        |costs| &mut costs.system_calls.sleep,
    ),
    cost("machine.costs.send_ns", "The same for putting bytes into a pipe.", CALIBRATE, |costs| {
        &mut costs.system_calls.send
    }),
    cost(
        "machine.costs.receive_ns",
        "The same for taking bytes out of a pipe.",
        CALIBRATE,
        |costs| &mut costs.system_calls.receive,
    ),
    cost(
        "machine.costs.lock_ns",
        "The same for a wait that is no sleep: for a mutex, a condition, a barrier, a semaphore, a pipe.",
        CALIBRATE,
        |costs| &mut costs.system_calls.lock,
    ),
    cost(
        "machine.costs.wake_call_ns",
        "The same for a call that wakes a task, before the wake-up.",
        "docs/design/simulator.md#costs",
        |costs| &mut costs.system_calls.wake,
    ),
    cost(
        "machine.costs.fork_ns",
        "The same for the fork of a task.",
        "docs/design/simulator.md#costs",
        |costs| &mut costs.system_calls.fork,
    ),
    cost(
        "machine.costs.jitter_ns",
        "The width of the range from which each cost is drawn.",
        CALIBRATE,
        |costs| &mut costs.jitter,
    ),
    cost(
        "machine.costs.timer_spread_ns",
        "The mean of the random time that a timer interrupt takes beyond its cost; 0 if `jitter_ns` is 0.",
        "docs/design/simulator.md#costs",
        |costs| &mut costs.timer_spread,
    ),
    cost("machine.costs.ipi_spread_ns", "The same of `ipi_ns`.", CALIBRATE, |costs| {
        &mut costs.ipi_spread
    }),
    cost("machine.costs.idle_exit_spread_ns", "The same of `idle_exit_ns`.", CALIBRATE, |costs| {
        &mut costs.idle_exit_spread
    }),
];

/// The source of costs, which the command measures itself.
const CALIBRATE: &str = "runyard calibrate";

/// Returns a part in millionths as JSON.
fn part(millionths: u32) -> String {
    match millionths {
        1_000_000 => "1".to_owned(),
        less => format!("0.{less:06}").trim_end_matches('0').to_owned(),
    }
}

impl Tunable {
    /// Returns the tunable at `path`.
    #[must_use]
    pub fn at(path: &str) -> Option<&'static Tunable> {
        ALL.iter().find(|tunable| tunable.path == path)
    }

    /// Returns the value in `scenario` as JSON; `None` if the scheduler lacks the tunable, or if the value is absent.
    #[must_use]
    pub fn value(&self, scenario: &Scenario) -> Option<String> {
        match self.place {
            Place::Scheduler { get, of, .. } => {
                let value = get(&scenario.config());
                of.has(&scenario.untuned()).then(|| match self.takes {
                    Takes::Switch => (value != 0).to_string(),
                    _ => value.to_string(),
                })
            }
            Place::Cost(of) => {
                let mut costs = scenario.machine.costs;
                Some(of(&mut costs).0.to_string())
            }
            Place::Machine(value) => value(scenario),
        }
    }

    /// Returns the kernels that have the tunable by default.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> + use<> {
        let of = match self.place {
            Place::Scheduler { of, .. } => of,
            _ => Of::Every,
        };
        let released = Kernel::released();
        released.filter(move |&kernel| of.has(&plain(kernel)))
    }

    /// Returns the reason why a scheduler with these numbers does not have the tunable.
    pub(crate) fn lacked(&self, of: Of, model: Model) -> String {
        let (name, kernels) = (self.name(), self.kernels().map(Kernel::name).collect::<Vec<_>>());
        format!(
            "`{name}` has no effect on {model}: {} (kernels that have it: {})",
            of.lacked(),
            kernels.join(", ")
        )
    }

    /// Returns the last part of the path.
    pub(crate) fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// Returns the numbers of a kernel, on a machine of one CPU.
fn plain(kernel: Kernel) -> Config {
    Model::named(kernel).config(Topology::flat(1).expect("a machine of one CPU"))
}

/// Returns the keys of the object at `prefix`, a part of a path: `machine`, `machine.costs`.
pub(crate) fn keys(prefix: &str) -> impl Iterator<Item = &'static str> + '_ {
    let below = move |tunable: &Tunable| {
        let rest = tunable.path.strip_prefix(prefix)?.strip_prefix('.')?;
        rest.split('.').next()
    };
    let mut last = "";
    ALL.iter().filter_map(below).filter(move |&key| key != std::mem::replace(&mut last, key))
}
