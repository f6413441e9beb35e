//! Scenarios in virtual time: where they come from, and how they run.

use runyard_outcome::Failure;
use runyard_sim::{Observer, Options, Outcome, Sim};
use runyard_workload::{Overrides, Scenario, parse};

/// A scenario that comes with the program.
pub(crate) fn shipped(name: &str, text: &str) -> Scenario {
    scenario(name, text).expect("the scenario that comes with the program is right")
}

/// The scenario of this text.
pub(crate) fn scenario(name: &str, text: &str) -> Result<Scenario, Failure> {
    Ok(parse(name, text, &Overrides::default()).map_err(Failure::input)?.scenario)
}

/// Runs a scenario, and tells `observer` its events.
pub(crate) fn simulate(
    scenario: &Scenario,
    seed: u64,
    observer: impl Observer,
) -> Result<Outcome, Failure> {
    let options = Options { seed, ..Options::default() };
    Ok(Sim::new(scenario, options, observer).map_err(Failure::input)?.run())
}
