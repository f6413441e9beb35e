//! `runyard explain`: tells why a task waited, or why a chain was slow.

use crate::exit::Done;
use crate::options::HostOptions;
use crate::output;
use clap::Args;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_sweep::Question;
use runyard_workload::moment;
use std::io::Write;

/// The arguments of `runyard explain`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
    /// The name of the task, or of one thread of several instances.
    #[arg(long, value_name = "NAME", required_unless_present = "chain")]
    task: Option<String>,
    /// Tell the wait nearest to this moment of the run, as 7.16s; otherwise the longest one
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "chain")]
    at: Option<Nanos>,
    /// The chain, instead of a task: its slowest token from the first task to the last.
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    chain: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let host = &arguments.host;
    if host.has_files() {
        return Err(Failure::input(
            "explain: --trace, --html, --log and --schedstat are of `runyard sim`",
        ));
    }
    let parsed = host.read()?;
    let question = match (&arguments.chain, &arguments.task) {
        (Some(chain), _) => Question::Chain(chain.clone()),
        (None, Some(name)) => Question::Task { name: name.clone(), at: arguments.at },
        (None, None) => unreachable!("one of both is asked for"),
    };
    let story = runyard_sweep::explain(&parsed.scenario, host.seed, &question, &|| false)?;
    let Some(story) = story else { unreachable!("nothing stops it") };
    let text = if host.json { story.to_json() } else { story.text().to_owned() };
    output::report(|out| out.write_all(text.as_bytes()))?;
    Ok(Done::Well)
}
