//! Performs one operation a given number of times under callgrind. `cargo xtask instructions` runs it.

use clap::Parser;
use runyard_benches::operations;
use std::process::ExitCode;

/// Perform one of the operations of the benches
#[derive(Debug, Parser)]
struct Arguments {
    /// Print the names of the operations, one for each line
    #[arg(long)]
    list: bool,
    /// Name of the operation
    #[arg(required_unless_present = "list", requires = "times")]
    name: Option<String>,
    /// Number of iterations
    #[arg(value_name = "ITERATIONS")]
    times: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let operations = operations();
    let (Some(name), Some(times)) = (&arguments.name, arguments.times) else {
        operations.iter().for_each(|operation| println!("{}", operation.name()));
        return ExitCode::SUCCESS;
    };
    let Some(operation) = operations.iter().find(|operation| operation.name() == name) else {
        eprintln!("no operation is called {name}");
        return ExitCode::FAILURE;
    };
    operation.prepare()(times);
    ExitCode::SUCCESS
}
