//! Random scenarios on random machines, each checked against all invariants and the ledger.
//!
//! The tests draw the numbers that [`draw`] makes a scenario of, so that a failure shrinks. It is printed as a text that
//! any user can run.

use crate::dice::Dice;
use crate::draw::{self, GROUPS, SHAPES, Wishes};
use crate::rig::{World, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::features::Feature;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::scenario::Preemption;
use std::fmt::{self, Debug};

#[derive(Clone)]
struct Case {
    /// The numbers of which the scenario is made.
    numbers: Vec<u64>,
    hint_delay: u32,
    hotplug: Vec<(u32, u16, bool)>,
    /// The time, one of the first two groups, and the milliseconds of 5.
    relimits: Vec<(u32, u8, Option<u8>)>,
    millis: u64,
    seed: u64,
    /// The factor of all runs. Real-time budgets need seconds.
    scale: u32,
    /// The preemption model, and whether the runs take place in the kernel.
    preemption: (Preemption, bool),
}

/// The kernels of machines; most machines name none.
const KERNELS: [&str; 9] = ["", "", "", "", "6.1", "6.6", "6.12", "6.18.15", "6.18"];

/// The number of topologies with at most 6 CPUs. On larger ones, with hints 50 us late and ticks of 10 ms, a crowd that
/// starts on one CPU takes up to 40.5 ms to spread, and `no-wasted-cpu` allows four ticks: 40 ms.
const SMALL: usize = 10;

/// The scale at which budgets matter.
const LONG: u32 = 50;

/// The largest number of draws of a scenario; those that are left are zero.
const DRAWS: usize = 700;

fn case() -> impl Strategy<Value = Case> {
    let hotplug = prop_oneof![
        2 => Just(Vec::new()),
        1 => vec((0..20_000_u32, 1..6_u16, any::<bool>()), 1..6),
    ];
    let relimit = (0..20_000_u32, 0..2_u8, prop::option::of(1..=5_u8));
    let relimits = prop_oneof![2 => Just(Vec::new()), 1 => vec(relimit, 1..5)];
    let hints = prop_oneof![Just(0), 0..50_000_u32];
    let scale = prop_oneof![19 => Just(1), 1 => Just(LONG)];
    let numbers = vec(any::<u64>(), 0..DRAWS);
    let preemption = (prop::sample::select(&Preemption::ALL[..]), any::<bool>());
    (numbers, hints, hotplug, relimits, 2..100_u64, 0..1000_u64, scale, preemption).prop_map(
        |(numbers, hint_delay, hotplug, relimits, millis, seed, scale, preemption)| Case {
            numbers,
            hint_delay,
            hotplug,
            relimits,
            millis,
            seed,
            scale,
            preemption,
        },
    )
}

impl Case {
    fn drawn(&self) -> (String, usize) {
        let off = Feature::ALL.iter().map(|feature| format!("NO_{}", feature.name()));
        // Of the features that are off by default, those that every invariant allows.
        let on = ["EEVDF"].repeat(Feature::ALL.len());
        let on = on.into_iter().chain(["RT_BALANCE"].repeat(8)).chain(["RT_WAKE_ELSEWHERE"; 4]);
        let features: Vec<_> = off.chain(on.map(str::to_owned)).collect();
        let scale = self.scale.into();
        let shapes = &SHAPES[..SMALL];
        let wishes = Wishes { shapes, features: &features, kernels: &KERNELS, wild: true, scale };
        let (text, groups) =
            draw::scenario(&mut Dice::of(self.numbers.clone().into_iter()), &wishes);
        let (_, in_kernel) = self.preemption;
        (
            if in_kernel {
                text.replace("\"run", "\"kernel").replace("\"kerneltime", "\"runtime")
            } else {
                text
            },
            groups,
        )
    }

    fn world(&self, groups: usize) -> World {
        let millis = self.millis * u64::from(self.scale);
        let world = world().costs_of_the_text().millis(millis).seed(self.seed);
        let world = world.hint_delay(Nanos(self.hint_delay.into()));
        let (model, _) = self.preemption;
        let world = world.set(&format!("machine.preemption=\"{model}\""));
        let at = |micros: u32| Time::ZERO + Nanos::from_micros(micros.into());
        let exist = self.relimits.iter().filter(|(_, group, _)| usize::from(*group) < groups);
        let world = exist.fold(world, |world, &(micros, group, runtime)| {
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
        writeln!(f, "preemption and kernel events: {:?}", self.preemption)?;
        writeln!(f, "limits of {:?} change: {relimits:?}", &GROUPS[..2])?;
        f.write_str(&self.drawn().0)
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
        let (text, groups) = case.drawn();
        case.world(groups).run_text(&text);
    }
}
