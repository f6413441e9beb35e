//! `runyard kernels`: the kernels by name, and what their simulation was held against.

use crate::exit::Done;
use crate::lists::{table, tell};
use clap::Args;
use runyard_engine::kernel::Kernel;
use runyard_outcome::Failure;
use serde_json::{Value, json};

/// The measurements, by the kernel's name. `cargo xtask kernel-lab` and `cargo xtask fidelity` measure them.
const MEASURED: &str = include_str!("kernels.json");

/// The arguments of the subcommand.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the list as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Lists the kernels.
pub(crate) fn kernels(arguments: &Arguments) -> Result<Done, Failure> {
    let measured = measured();
    let of = |kernel: Kernel| measured[kernel.name()].as_array().cloned().unwrap_or_default();
    let list = json!({
        "schema": "runyard.kernels/1",
        "kernels": Kernel::released().map(|kernel| json!({
            "name": kernel.name(),
            "release": kernel.release(),
            "measured": of(kernel),
        })).collect::<Vec<_>>(),
    });
    let rows = Kernel::released().map(|kernel| {
        let release = kernel.release().unwrap_or_default().to_owned();
        let told: Vec<_> = of(kernel).iter().map(sentence).collect();
        let told = match told.is_empty() {
            true => "Not measured: its rules were read in the source.".to_owned(),
            false => told.join("\n"),
        };
        [kernel.name().to_owned(), release, told]
    });
    let head = "The kernels of `machine.kernel` and --kernel: the release whose rules a name stands for, and how near its \
                simulation is to a kernel that ran.";
    tell(arguments.json, &list, head, &table(["name", "rules of", "measured"], rows))
}

fn measured() -> Value {
    serde_json::from_str(MEASURED).expect("a test reads the measurements")
}

/// A measurement in words.
fn sentence(of: &Value) -> String {
    let field = |name: &str| of[name].as_str().unwrap_or_default();
    format!(
        "{}, {}, {}: {}: {}",
        field("date"),
        field("kernel"),
        field("machine"),
        field("what"),
        field("near")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measurement_is_of_a_named_kernel_and_whole() {
        let measured = measured();
        for (name, list) in measured.as_object().unwrap() {
            assert!(name.parse::<Kernel>().is_ok_and(|it| it.release().is_some()), "{name}");
            for of in list.as_array().unwrap() {
                for field in ["kernel", "machine", "date", "what", "near"] {
                    assert!(
                        of[field].as_str().is_some_and(|text| !text.is_empty()),
                        "{name} {field}"
                    );
                }
            }
        }
    }
}
