//! `--chains`: the latencies of chains of tasks on the kernel, twice, and simulated in between.
//!
//! A disturbed run on the kernel is repeated, as those of random scenarios are. All runs of a scenario have the same
//! seed, so every task has the same work.

use std::path::Path;

use serde_json::Value;

use super::Options;
use super::judge::ratio;
use super::rig::Rig;
use crate::workspace::{self, Outcome};

/// The compared quantiles, by their names and their fields in reports.
const QUANTILES: [(&str, &str); 2] = [("p50", "p50_ns"), ("p99", "p99_ns")];

/// The largest ratio that holds.
const GOAL: f64 = 1.5;

/// Runs the scenarios and prints the table.
pub(super) fn run(options: &Options) -> Outcome {
    let rig = Rig::new(&options.feature, options.kernel.as_deref())?;
    let machine = rig.machine()?;
    println!("simulated with {machine}\n");
    println!(
        "| scenario | chain | tokens | | kernel, us | again | simulated | again / kernel | simulated / kernel | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let folder = workspace::root().join("scenarios/fidelity/chains");
    let mut scenarios: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    scenarios.sort();
    for scenario in &scenarios {
        let name = scenario.file_stem().ok_or("a scenario has a name")?.to_string_lossy();
        match reports(&rig, scenario, &machine)? {
            Some(reports) => rows(&name, &reports).iter().for_each(|row| println!("{row}")),
            None => println!("| {name} | - | - | - | - | - | - | - | - | never quiet |"),
        }
    }
    Ok(())
}

/// The reports of both runs on the kernel and of the simulated one; `None` if the machine was never quiet.
fn reports(rig: &Rig, scenario: &Path, machine: &str) -> Outcome<Option<[Value; 3]>> {
    let text = std::fs::read_to_string(scenario)?;
    let Some(kernel) = rig.run_quietly(scenario, &[])? else { return Ok(None) };
    let simulated = rig.simulate(&text, machine, &[])?;
    let again = rig.run_quietly(scenario, &[])?;
    Ok(again.map(|again| [kernel, again, simulated]))
}

/// The rows of a scenario: one for each quantile of each chain.
fn rows(name: &str, reports: &[Value; 3]) -> Vec<String> {
    let chains = reports[0]["chains"].as_array().into_iter().flatten().enumerate();
    let row = |nth: usize, chain: &Value, (quantile, field): (&str, &str)| {
        let of = |report: &Value| report["chains"][nth]["latency"][field].as_f64();
        let [kernel, again, simulated] = reports.each_ref().map(|it| of(it).unwrap_or(f64::NAN));
        let holds = ratio(simulated, kernel) <= GOAL;
        let verdict = if holds { "holds" } else { "**differs**" };
        let [chain, tokens] = [&chain["name"], &chain["count"]].map(Value::to_string);
        format!(
            "| {name} | {} | {tokens} | {quantile} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {verdict} |",
            chain.trim_matches('"'),
            kernel / 1e3,
            again / 1e3,
            simulated / 1e3,
            again / kernel,
            simulated / kernel,
        )
    };
    chains.flat_map(|(nth, chain)| QUANTILES.map(|quantile| row(nth, chain, quantile))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chain_has_a_row_for_each_quantile() {
        let report = |p50: u64, p99: u64| {
            let latency = json!({"p50_ns": p50, "p99_ns": p99});
            json!({"chains": [{"name": "c", "count": 9, "latency": latency}]})
        };
        let reports = [report(10_000, 40_000), report(11_000, 40_000), report(15_000, 20_000)];
        assert_eq!(
            rows("s", &reports),
            [
                "| s | c | 9 | p50 | 10 | 11 | 15 | 1.10 | 1.50 | holds |",
                "| s | c | 9 | p99 | 40 | 40 | 20 | 1.00 | 0.50 | **differs** |",
            ]
        );
        let nothing = [Value::Null, Value::Null, json!({"chains": [{"name": "c"}]})];
        assert!(rows("s", &nothing).is_empty());
    }
}
