//! `runyard tunables` and `runyard features`: list the numbers and the switches that a scenario may set, with meaning
//! and source.

use crate::exit::Done;
use crate::names::KERNELS;
use crate::options::cpus;
use crate::output;
use clap::Args;
use comfy_table::ContentArrangement;
use runyard_engine::features::{Entry, Feature};
use runyard_engine::kernel::{Kernel, Model};
use runyard_outcome::Failure;
use runyard_workload::scenario::Preemption;
use runyard_workload::tunables::{self, Takes, Tunable};
use runyard_workload::{Overrides, Scenario, parse};
use serde_json::{Value, json};
use std::io::Write as _;

/// The largest width of a table, in columns.
const WIDTH: u16 = 110;

/// The arguments of both subcommands.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The kernel to list the defaults of; otherwise the default kernel of sim
    #[arg(long, value_name = "NAME", value_parser = KERNELS)]
    kernel: Option<Model>,
    /// The number of CPUs to list the defaults for
    #[arg(long, value_name = "N", value_parser = cpus)]
    cpus: Option<usize>,
    /// Print the list as JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// A scenario without a machine of its own, on the machine of the arguments.
    fn scenario(&self) -> Result<Scenario, Failure> {
        let over = Overrides {
            cpus: self.cpus,
            kernel: self.kernel,
            unless_said: Model::NEWEST,
            ..Overrides::default()
        };
        let least = "{\"tasks\": {\"task\": {\"run\": 1, \"loop\": 1}}}";
        Ok(parse("-", least, &over).map_err(Failure::input)?.scenario)
    }
}

/// Prints a list, as JSON or as a table.
pub(crate) fn tell(json: bool, list: &Value, head: &str, table: &str) -> Result<Done, Failure> {
    let text = match json {
        true => format!("{list:#}\n"),
        false => format!("{head}\n\n{table}"),
    };
    output::report(|out| out.write_all(text.as_bytes()))?;
    Ok(Done::Well)
}

/// Lists the tunables.
pub(crate) fn tunables(arguments: &Arguments) -> Result<Done, Failure> {
    let scenario = arguments.scenario()?;
    let all = tunables::ALL;
    let (model, cpus) = (scenario.model, scenario.machine.topology.cpus());
    let list = json!({
        "schema": "runyard.tunables/1",
        "kernel": model.to_string(),
        "cpus": cpus,
        "tunables": all.iter().map(|tunable| tunable_json(tunable, &scenario)).collect::<Vec<_>>(),
    });
    let rows = all.iter().map(|tunable| {
        let default = tunable.value(&scenario).unwrap_or_else(|| "-".to_owned());
        [tunable.path.to_owned(), default, meaning(tunable)]
    });
    let head = format!(
        "What a scenario and --set may set; the defaults are those of {model} on {cpus} CPUs (--kernel, --cpus)."
    );
    tell(arguments.json, &list, &head, &table(["path", "default", "meaning, values, source"], rows))
}

fn tunable_json(tunable: &Tunable, scenario: &Scenario) -> Value {
    let default = tunable.value(scenario);
    let default: Value =
        default.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let (kind, unit, low, high) = match tunable.takes {
        Takes::Integer { unit, low, high } => ("integer", Some(unit), Some(low), Some(high)),
        Takes::Switch => ("boolean", None, None, None),
        Takes::Part => ("number", None, None, Some(1)),
        Takes::Cpus | Takes::Shape | Takes::Kernel | Takes::Preemption => {
            ("string", None, None, None)
        }
    };
    json!({
        "path": tunable.path,
        "type": kind,
        "unit": unit,
        "min": low,
        "max": high,
        "default": default,
        "kernels": tunable.kernels().map(Kernel::name).collect::<Vec<_>>(),
        "what": tunable.what,
        "source": tunable.source,
    })
}

/// The accepted values of a tunable, in a few words.
fn values(takes: Takes) -> String {
    match takes {
        Takes::Integer { unit, low, high } => format!("{low} to {high}: {unit}"),
        Takes::Switch => "true or false".to_owned(),
        Takes::Part => "a number above 0, at most 1".to_owned(),
        Takes::Cpus => "CPUs, \"2-3\" or [2, 3]".to_owned(),
        Takes::Shape => "a string".to_owned(),
        Takes::Kernel => format!("a string: {}", Kernel::ALL.map(Kernel::name).join(", ")),
        Takes::Preemption => {
            format!("a string: {}", Preemption::ALL.map(Preemption::name).join(", "))
        }
    }
}

/// The meaning of a tunable, its kernels if not all kernels have it, its values and its source.
fn meaning(tunable: &Tunable) -> String {
    let Tunable { what, takes, source, .. } = tunable;
    let all = Kernel::released().count();
    let kernels: Vec<_> = tunable.kernels().map(Kernel::name).collect();
    let only = match kernels.len() == all {
        true => String::new(),
        false => format!(" Only {}.", kernels.join(", ")),
    };
    format!("{what}{only}\n{}\n{source}", values(*takes))
}

/// Lists the features.
pub(crate) fn features(arguments: &Arguments) -> Result<Done, Failure> {
    let scenario = arguments.scenario()?;
    let model = scenario.model;
    let feature = |feature: Feature| {
        let Entry { name, what, source, kernels, .. } = feature.entry();
        json!({
            "name": name,
            "default": scenario.features.has(feature),
            "kernels": kernels.iter().copied().map(Kernel::name).collect::<Vec<_>>(),
            "what": what,
            "source": source,
        })
    };
    let list = json!({
        "schema": "runyard.features/1",
        "kernel": model.to_string(),
        "features": Feature::ALL.into_iter().map(feature).collect::<Vec<_>>(),
    });
    let rows = Feature::ALL.map(|feature| {
        let Entry { name, what, source, kernels, .. } = feature.entry();
        let kernels = kernels.iter().copied().map(Kernel::name).collect::<Vec<_>>().join(" ");
        let default = if scenario.features.has(feature) { "on" } else { "off" };
        let kernels = if kernels.is_empty() { "none".to_owned() } else { kernels };
        [(*name).to_owned(), default.to_owned(), kernels, format!("{what}\n{source}")]
    });
    let head = format!(
        "`features` of a scenario and --feature switch these, NO_NAME for off; defaults of {model} (--kernel)."
    );
    let names = ["name", "default", "on in Linux", "meaning, source"];
    tell(arguments.json, &list, &head, &table(names, rows))
}

/// The rows in columns. The last column takes the width that the others leave.
pub(crate) fn table<const N: usize>(
    names: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = runyard_report::table(&names, N);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.add_rows(rows);
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
