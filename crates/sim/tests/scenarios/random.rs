//! Random scenarios on random machines, each checked against all invariants and the ledger.
//!
//! The tests draw the numbers that [`draw`] makes a scenario of, so that a failure shrinks. It is printed as a text that
//! any user can run.

use crate::dice::Dice;
use crate::draw::{self, SHAPES, Wishes};
use crate::rig::{World, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::features::Feature;
use runyard_engine::time::Nanos;
use runyard_workload::scenario::Preemption;
use std::fmt::{self, Debug};

#[derive(Clone)]
struct Case {
    /// The numbers of which the scenario is made.
    numbers: Vec<u64>,
    hint_delay: u32,
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
    let hints = prop_oneof![Just(0), 0..50_000_u32];
    let scale = prop_oneof![19 => Just(1), 1 => Just(LONG)];
    let numbers = vec(any::<u64>(), 0..DRAWS);
    let preemption = (prop::sample::select(&Preemption::ALL[..]), any::<bool>());
    (numbers, hints, 2..100_u64, 0..1000_u64, scale, preemption).prop_map(
        |(numbers, hint_delay, millis, seed, scale, preemption)| Case {
            numbers,
            hint_delay,
            millis,
            seed,
            scale,
            preemption,
        },
    )
}

impl Case {
    fn drawn(&self) -> String {
        let off = Feature::ALL.iter().map(|feature| format!("NO_{}", feature.name()));
        // Of the features that are off by default, those that every invariant allows.
        let on = ["EEVDF"].repeat(Feature::ALL.len());
        let on = on.into_iter().chain(["RT_BALANCE"].repeat(8)).chain(["RT_WAKE_ELSEWHERE"; 4]);
        let features: Vec<_> = off.chain(on.map(str::to_owned)).collect();
        let scale = self.scale.into();
        let shapes = &SHAPES[..SMALL];
        let changes_within = Some(self.millis * 1_000 * scale);
        let (features, kernels) = (&features[..], &KERNELS[..]);
        let wishes = Wishes { shapes, features, kernels, wild: true, scale, changes_within };
        let (text, _) = draw::scenario(&mut Dice::of(self.numbers.clone().into_iter()), &wishes);
        let (_, in_kernel) = self.preemption;
        if in_kernel {
            text.replace("\"run", "\"kernel").replace("\"kerneltime", "\"runtime")
        } else {
            text
        }
    }

    fn world(&self) -> World {
        let millis = self.millis * u64::from(self.scale);
        let world = world().costs_of_the_text().millis(millis).seed(self.seed);
        let world = world.hint_delay(Nanos(self.hint_delay.into()));
        let (model, _) = self.preemption;
        world.set(&format!("machine.preemption=\"{model}\""))
    }
}

impl Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { seed, hint_delay, .. } = self;
        let millis = self.millis * u64::from(self.scale);
        writeln!(f, "{millis} ms, seed {seed}, hint_delay {hint_delay} ns")?;
        writeln!(f, "preemption and kernel events: {:?}", self.preemption)?;
        f.write_str(&self.drawn())
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
        case.world().run_text(&case.drawn());
    }
}
