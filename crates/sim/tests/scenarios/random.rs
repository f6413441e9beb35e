//! Random scenarios on random machines, each checked against all invariants and the ledger.
//!
//! The tests draw a model of a scenario, so that a failure shrinks. It is printed as a text that any user can run.

use crate::rig::{World, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::features::Feature;
use runyard_engine::time::{Nanos, Time};
use std::fmt::{self, Debug, Write as _};

const SHAPES: [(&str, u16); 10] = [
    ("1x1", 1),
    ("1x2", 2),
    ("1x3", 3),
    ("2x2", 4),
    ("2x1x2", 4),
    ("1x5", 5),
    ("5x1", 5),
    ("1x1x2", 2),
    ("1x3x2", 6),
    ("1x1x4", 4),
];
/// The cookies of tasks, one of which is none.
const COOKIES: [&str; 4] = ["", "a", "b", "c"];
const POLICIES: [&str; 5] = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_FIFO", "SCHED_RR"];
const GROUPS: [&str; 6] = ["/", "/a", "/a/b", "/c", "/a/i", "/a/i/d"];

/// A step; numbers name the few objects of each kind.
#[derive(Clone, Debug)]
enum Step {
    Run(u32),
    Uniform(u32),
    Runtime(u32),
    Sleep(u32),
    Timer {
        name: u8,
        period: u32,
        absolute: bool,
    },
    /// Steps with a mutex held.
    Section(u8, Vec<Step>),
    Lock(u8),
    Unlock(u8),
    /// A wait, with the mutex taken before and released after it.
    Wait {
        cond: u8,
        mutex: u8,
        bare: bool,
    },
    Sync {
        cond: u8,
        mutex: u8,
    },
    Signal(u8),
    Broadcast(u8),
    Barrier(u8),
    Post(u8),
    Take(u8),
    Suspend,
    Resume(u8),
    Yield,
    Fork,
    Send {
        pipe: u8,
        bytes: u16,
    },
    Receive {
        pipe: u8,
        bytes: u16,
    },
    Exit,
}

/// The properties of a thread or phase; an absent one is not written.
#[derive(Clone, Debug)]
struct Asked {
    policy: Option<(usize, u8)>,
    /// One bit for each CPU.
    cpus: Option<u8>,
    group: Option<usize>,
    slack: Option<u32>,
    latency_nice: Option<i8>,
    slice: Option<u32>,
    cookie: Option<usize>,
}

#[derive(Clone, Debug)]
struct Phase {
    asked: Asked,
    loops: i8,
    /// The shortest run, so that time advances.
    run: u32,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Thread {
    asked: Asked,
    instances: u8,
    delay: u32,
    loops: i8,
    phases: Vec<Phase>,
}

#[derive(Clone)]
struct Case {
    shape: usize,
    tick_hz: u32,
    costs: [u32; 8],
    mutexes: [u8; 3],
    off: Vec<usize>,
    eevdf: bool,
    /// The kernel named in the file, or empty.
    kernel: &'static str,
    threads: Vec<Thread>,
    forked: Thread,
    hint_delay: u32,
    hotplug: Vec<(u32, u16, bool)>,
    /// The limits of the groups /a, /a/b and /c: the runtime in tenths of the period, the period in milliseconds,
    /// whether a quarter is burst, and whether the limit is that of each CPU.
    limits: [Option<(u8, u8, bool, bool)>; 3],
    /// The time, one of the first two groups, and the milliseconds of 5.
    relimits: Vec<(u32, u8, Option<u8>)>,
    millis: u64,
    seed: u64,
    /// The factor of all times. Real-time budgets need seconds.
    scale: u32,
}

/// The kernels of machines; most machines name none.
const KERNELS: [&str; 8] = ["", "", "", "", "6.1", "6.6", "6.12", "6.18"];

/// The scale at which budgets matter.
const LONG: u32 = 50;

fn step() -> impl Strategy<Value = Step> {
    let (few, name) = (0..3_u8, 0..2_u8);
    let leaf = prop_oneof![
        6 => (1..1500_u32).prop_map(Step::Run),
        1 => (1..1500_u32).prop_map(Step::Uniform),
        2 => (0..1500_u32).prop_map(Step::Runtime),
        4 => (0..1500_u32).prop_map(Step::Sleep),
        2 => (0..4_u8, 0..2000_u32, any::<bool>())
            .prop_map(|(name, period, absolute)| Step::Timer { name, period, absolute }),
        1 => few.clone().prop_map(Step::Lock),
        1 => few.clone().prop_map(Step::Unlock),
        2 => (name.clone(), few.clone(), any::<bool>())
            .prop_map(|(cond, mutex, bare)| Step::Wait { cond, mutex, bare }),
        1 => (name.clone(), few.clone()).prop_map(|(cond, mutex)| Step::Sync { cond, mutex }),
        3 => name.clone().prop_map(Step::Signal),
        1 => name.clone().prop_map(Step::Broadcast),
        1 => name.clone().prop_map(Step::Barrier),
        3 => name.clone().prop_map(Step::Post),
        2 => name.clone().prop_map(Step::Take),
        1 => Just(Step::Suspend),
        2 => (0..12_u8).prop_map(Step::Resume),
        2 => Just(Step::Yield),
        1 => Just(Step::Fork),
        2 => (name.clone(), 1..300_u16).prop_map(|(pipe, bytes)| Step::Send { pipe, bytes }),
        2 => (name, 1..300_u16).prop_map(|(pipe, bytes)| Step::Receive { pipe, bytes }),
        1 => Just(Step::Exit),
    ];
    leaf.prop_recursive(2, 8, 3, move |inner| {
        (few.clone(), vec(inner, 0..4)).prop_map(|(mutex, steps)| Step::Section(mutex, steps))
    })
}

fn asked(likely: f64) -> impl Strategy<Value = Asked> {
    let maybe = prop::option::weighted::<BoxedStrategy<u8>>;
    let policy = prop::option::weighted(likely, (0..POLICIES.len(), any::<u8>()));
    let group = prop::option::weighted(likely / 2.0, 0..GROUPS.len());
    let slack = prop::option::weighted(likely / 2.0, 0..400_u32);
    let latency_nice = prop::option::weighted(likely / 2.0, -20..=19_i8);
    let slice = prop::option::weighted(likely / 4.0, 100..=100_000_u32);
    let cpus = maybe(likely / 2.0, any::<u8>().boxed());
    let cookie = prop::option::weighted(likely, 0..COOKIES.len());
    (policy, cpus, group, slack, latency_nice, slice, cookie).prop_map(
        |(policy, cpus, group, slack, latency_nice, slice, cookie)| Asked {
            policy,
            cpus,
            group,
            slack,
            latency_nice,
            slice,
            cookie,
        },
    )
}

fn phase() -> impl Strategy<Value = Phase> {
    (asked(0.3), -1..4_i8, 1..800_u32, vec(step(), 0..6))
        .prop_map(|(asked, loops, run, steps)| Phase { asked, loops, run, steps })
}

fn thread() -> impl Strategy<Value = Thread> {
    let delay = prop_oneof![Just(0), 0..3000_u32];
    (asked(0.8), 1..4_u8, delay, -1..6_i8, vec(phase(), 1..4)).prop_map(
        |(asked, instances, delay, loops, phases)| Thread {
            asked,
            instances,
            delay,
            loops,
            phases,
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let costs = prop_oneof![
        Just([0; 8]),
        Just([1500, 1000, 2500, 1000, 1000, 0, 0, 0]),
        prop::array::uniform8(0..6000_u32),
        (0..2000_u32).prop_map(|jitter| [0, 0, 0, 0, 0, jitter, 0, 0]),
    ];
    let machine = (0..SHAPES.len(), prop_oneof![Just(1000), Just(100), Just(250)], costs);
    let hotplug = prop_oneof![
        2 => Just(Vec::new()),
        1 => vec((0..20_000_u32, 1..6_u16, any::<bool>()), 1..6),
    ];
    let off = vec(0..Feature::ALL.len(), 0..3);
    let limit = (1..=30_u8, 1..=10_u8, any::<bool>(), any::<bool>());
    let limits = prop_oneof![
        2 => Just([None; 3]),
        3 => prop::array::uniform3(prop::option::weighted(0.6, limit)),
    ];
    let relimit = (0..20_000_u32, 0..2_u8, prop::option::of(1..=5_u8));
    let relimits = prop_oneof![2 => Just(Vec::new()), 1 => vec(relimit, 1..5)];
    let hints = prop_oneof![Just(0), 0..50_000_u32];
    let mutexes = prop::array::uniform3(0..3_u8);
    let order = ((mutexes, any::<bool>()), prop::sample::select(&KERNELS[..]));
    let how = (order, off, hints, hotplug, 2..100_u64, (limits, relimits));
    let scale = prop_oneof![19 => Just(1), 1 => Just(LONG)];
    (machine, how, vec(thread(), 1..8), thread(), 0..1000_u64, scale).prop_map(
        |(machine, how, threads, forked, seed, scale)| {
            let (shape, tick_hz, costs) = machine;
            let (((mutexes, eevdf), kernel), off, hint_delay, hotplug, millis, (limits, relimits)) =
                how;
            Case {
                shape,
                tick_hz,
                costs,
                mutexes,
                off,
                eevdf,
                kernel,
                threads,
                forked,
                hint_delay,
                hotplug,
                limits,
                relimits,
                millis,
                seed,
                scale,
            }
        },
    )
}

impl Step {
    /// Writes the step as members. Forked tasks must not use a barrier, and do not fork.
    fn write(&self, text: &mut String, (forked, scale): (bool, u32)) {
        let _ = match self {
            Step::Run(span) => write!(text, "'run': {}, ", span * scale),
            Step::Uniform(span) => write!(text, "'run': {{'uniform': [0, {}]}}, ", span * scale),
            Step::Runtime(span) => write!(text, "'runtime': {}, ", span * scale),
            Step::Sleep(span) => write!(text, "'sleep': {span}, "),
            Step::Timer { name, period, absolute } => {
                let name = ["t", "u", "unique", "unique2"][usize::from(*name)];
                let mode = if *absolute { "absolute" } else { "relative" };
                write!(text, "'timer': {{'ref': '{name}', 'period': {period}, 'mode': '{mode}'}}, ")
            }
            Step::Section(mutex, steps) => {
                Step::Lock(*mutex).write(text, (forked, scale));
                steps.iter().for_each(|step| step.write(text, (forked, scale)));
                write!(text, "'unlock': 'm{mutex}', ")
            }
            Step::Lock(mutex) => write!(text, "'lock': 'm{mutex}', "),
            Step::Unlock(mutex) => write!(text, "'unlock': 'm{mutex}', "),
            Step::Wait { cond, mutex, bare } => {
                let wait = format!("'wait': {{'ref': 'c{cond}', 'mutex': 'm{mutex}'}}, ");
                match bare {
                    true => write!(text, "{wait}"),
                    false => write!(text, "'lock': 'm{mutex}', {wait}'unlock': 'm{mutex}', "),
                }
            }
            Step::Sync { cond, mutex } => {
                write!(text, "'sync': {{'ref': 'c{cond}', 'mutex': 'm{mutex}'}}, ")
            }
            Step::Signal(cond) => write!(text, "'signal': 'c{cond}', "),
            Step::Broadcast(cond) => write!(text, "'broad': 'c{cond}', "),
            Step::Barrier(_) if forked => Ok(()),
            Step::Barrier(name) => write!(text, "'barrier': 'b{name}', "),
            Step::Post(name) => write!(text, "'sem_post': 's{name}', "),
            Step::Take(name) => write!(text, "'sem_wait': 's{name}', "),
            Step::Suspend => write!(text, "'suspend': '', "),
            Step::Resume(thread) => write!(text, "'resume': 't{thread}', "),
            Step::Yield => write!(text, "'yield': '', "),
            Step::Fork if forked => Ok(()),
            Step::Fork => write!(text, "'fork': 'forked', "),
            Step::Send { pipe, bytes } => {
                write!(text, "'send': {{'ref': 'p{pipe}', 'bytes': {bytes}, 'capacity': 100}}, ")
            }
            Step::Receive { pipe, bytes } => {
                write!(text, "'recv': {{'ref': 'p{pipe}', 'bytes': {bytes}}}, ")
            }
            Step::Exit => write!(text, "'exit': '', "),
        };
    }
}

impl Asked {
    fn write(&self, text: &mut String, (cpus, cookies): (u16, bool)) {
        if let Some((policy, priority)) = self.policy {
            let real_time = POLICIES[policy] == "SCHED_FIFO" || POLICIES[policy] == "SCHED_RR";
            let priority = match real_time {
                // A few values, so that many tasks have equal priorities.
                true => i32::from(priority % 5) + 1,
                false => i32::from(priority % 40) - 20,
            };
            let _ = write!(text, "'policy': '{}', 'priority': {priority}, ", POLICIES[policy]);
        }
        if let Some(mask) = self.cpus {
            let chosen: Vec<_> = (0..cpus).filter(|cpu| mask >> cpu & 1 == 1).collect();
            let chosen = if chosen.is_empty() { vec![cpus - 1] } else { chosen };
            let _ = write!(text, "'cpus': {chosen:?}, ");
        }
        if let Some(group) = self.group {
            let _ = write!(text, "'group': '{}', ", GROUPS[group]);
        }
        if let Some(slack) = self.slack {
            let _ = write!(text, "'timer_slack': {slack}, ");
        }
        if let Some(nice) = self.latency_nice {
            let _ = write!(text, "'latency_nice': {nice}, ");
        }
        if let Some(slice) = self.slice {
            let _ = write!(text, "'slice': {slice}, ");
        }
        if let Some(cookie) = self.cookie.filter(|_| cookies) {
            let _ = write!(text, "'cookie': '{}', ", COOKIES[cookie]);
        }
    }
}

impl Thread {
    fn write(&self, text: &mut String, cpus: (u16, bool), (forked, scale): (bool, u32)) {
        let Thread { delay, loops, .. } = self;
        let (instances, loops) = if forked { (0, 1) } else { (self.instances, *loops) };
        let _ = write!(text, "'instance': {instances}, 'delay': {delay}, 'loop': {loops}, ");
        self.asked.write(text, cpus);
        text.push_str("'phases': {\n");
        for (at, phase) in self.phases.iter().enumerate() {
            let loops = if forked { 1 } else { phase.loops };
            let _ = write!(text, "      'phase{at}': {{'loop': {loops}, ");
            phase.asked.write(text, cpus);
            let _ = write!(text, "'run': {}, ", phase.run * scale);
            phase.steps.iter().for_each(|step| step.write(text, (forked, scale)));
            text.push_str("},\n");
        }
        text.push_str("    }");
    }
}

/// Returns the limit of a group as members. It has a millisecond at least.
fn limit(limit: Option<(u8, u8, bool, bool)>) -> String {
    let Some((tenths, period, bursts, per_cpu)) = limit else { return String::new() };
    let period = u32::from(period) * 1_000;
    let runtime = (period * u32::from(tenths) / 10).max(1_000);
    let burst = if bursts { runtime / 4 } else { 0 };
    format!("'runtime': {runtime}, 'period': {period}, 'burst': {burst}, 'per_cpu': {per_cpu}")
}

impl Case {
    fn text(&self) -> String {
        let (shape, cpus) = SHAPES[self.shape];
        // In half of the cases in which cores have several threads.
        let threads = shape.matches('x').count() > 1;
        let cpus = (cpus, threads && self.seed / 2 % 2 == 1);
        let [switch, migration, ipi, wakeup, interrupt, jitter, latency, exit] = self.costs;
        let tick_hz = self.tick_hz;
        let kind = |kind: u8| ["barge", "hand_over", "inherit"][usize::from(kind)];
        let [first, second, third] = self.mutexes.map(kind);
        let rt_groups = self.seed % 2 == 1;
        let kernel = match self.kernel {
            "" => String::new(),
            named => format!("'kernel': '{named}', 'rt_group_sched': {rt_groups}, "),
        };
        let off: Vec<_> =
            self.off.iter().map(|&at| format!("'NO_{}'", Feature::ALL[at].name())).collect();
        let cookies = cpus.1;
        let shared = if cookies { "'cookie': 'a', " } else { "" };
        let off = [off, self.eevdf.then(|| "'EEVDF'".to_owned()).into_iter().collect()].concat();
        let [a, b, c] = self.limits.map(limit);
        let mut text = format!(
            "{{\n  'machine': {{{kernel}'topology': '{shape}', 'tick_hz': {tick_hz}, 'costs': {{\n    \
             'context_switch_ns': {switch}, 'migration_ns': {migration}, 'ipi_ns': {ipi},\n    \
             'wakeup_ns': {wakeup}, 'timer_interrupt_ns': {interrupt}, 'jitter_ns': {jitter},\n    \
             'timer_latency_ns': {latency}, 'idle_exit_ns': {exit}}}}},\n  \
             'features': [{}],\n  'groups': {{'/a': {{'weight': 500, 'latency_nice': -20, {a}}}, \
             '/a/b': {{'latency_nice': 19, {b}}}, '/c': {{{shared}'weight': 2000, {c}}}, \
             '/a/i': {{'idle': true, 'latency_nice': -7}}, '/a/i/d': {{}}}},\n  \
             'mutexes': {{'m0': '{first}', 'm1': '{second}', 'm2': '{third}'}},\n  'tasks': {{\n",
            off.join(", ")
        );
        for (at, thread) in self.threads.iter().enumerate() {
            let _ = write!(text, "    't{at}': {{");
            thread.write(&mut text, cpus, (false, self.scale));
            text.push_str("},\n");
        }
        text.push_str("    'forked': {");
        self.forked.write(&mut text, cpus, (true, self.scale));
        text.push_str("},\n  }\n}");
        text
    }

    fn world(&self) -> World {
        let millis = self.millis * u64::from(self.scale);
        let world = world().costs_of_the_text().millis(millis).seed(self.seed);
        let world = world.hint_delay(Nanos(self.hint_delay.into()));
        let at = |micros: u32| Time::ZERO + Nanos::from_micros(micros.into());
        let world = self.relimits.iter().fold(world, |world, &(micros, group, runtime)| {
            let limit = runtime.map(|runtime| (runtime.into(), 5));
            world.relimit(at(micros), u32::from(group) + 1, limit)
        });
        self.hotplug
            .iter()
            .fold(world, |world, &(micros, cpu, online)| world.hotplug(at(micros), cpu, online))
    }
}

impl Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { seed, hint_delay, hotplug, relimits, .. } = self;
        let millis = self.millis * u64::from(self.scale);
        writeln!(f, "{millis} ms, seed {seed}, hint_delay {hint_delay} ns, hotplug {hotplug:?}")?;
        writeln!(f, "limits change: {relimits:?}")?;
        f.write_str(&self.text())
    }
}

/// The smallest number of cases; `PROPTEST_CASES` may ask for more.
const CASES: u32 = 1000;

/// Returns a configuration that prints a failure in full and keeps no file of it.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig { cases: asked.cases.max(CASES), failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_run_keeps_the_invariants(case in case()) {
        case.world().run_text(&case.text());
    }
}
