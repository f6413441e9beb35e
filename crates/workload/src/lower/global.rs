//! The section `global`: the duration of the run, the defaults of threads, and the log. The type of a key that only
//! rt-app needs is checked, and the key has no effect.

use super::number::MAX_INT;
use super::policy::PolicyName;
use super::warnings::Warnings;
use crate::diagnostic::Fault;
use crate::json::Node;
use crate::overrides::DeadlinePolicy;
use crate::scenario::LogSpec;
use crate::shape;
use crate::span::span;
use runyard_engine::time::Nanos;

/// The values of the section.
#[derive(Default)]
pub(super) struct Global {
    pub(super) duration: Option<Nanos>,
    pub(super) default_policy: PolicyName,
    pub(super) pi_enabled: bool,
    pub(super) log: LogSpec,
}

pub(super) fn read(
    section: Option<Node<'_>>,
    deadline: DeadlinePolicy,
    warnings: &mut Warnings,
) -> Result<Global, Fault> {
    let mut global = Global::default();
    for member in section.map(Node::object).transpose()?.into_iter().flatten() {
        let value = member.value;
        match &*member.key() {
            "duration" => global.duration = duration(value)?,
            "default_policy" => {
                global.default_policy = PolicyName::read(value, deadline, warnings)?;
            }
            "pi_enabled" => global.pi_enabled = value.boolean()?,
            "cumulative_slack" => global.log.cumulative_slack = value.boolean()?,
            "log_basename" => global.log.basename = value.text()?.into_owned(),
            "lock_pages" | "gnuplot" => drop(value.boolean()?),
            "logdir" | "io_device" => drop(value.text()?),
            "calibration" => text_or_size(value, "nanoseconds, or \"CPU0\"")?,
            "log_size" => text_or_size(value, "megabytes, or \"file\"")?,
            "mem_buffer_size" => drop(value.natural("bytes", 0..=MAX_INT)?),
            "ftrace" if value.is_text() => {}
            "ftrace" => drop(value.boolean()?),
            _ => warnings.unknown(member, shape::GLOBAL),
        }
    }
    Ok(global)
}

/// Reads seconds, or a text as `"490ms"`. As in rt-app, 0 means the same as -1: "until all have ended".
fn duration(value: Node<'_>) -> Result<Option<Nanos>, Fault> {
    if value.is_text() {
        return span(&value.text()?).map(Some).map_err(|what| Fault::new(value.at(), what));
    }
    let seconds = value.integer("seconds, or -1 for no end", -1..=MAX_INT.into())?;
    Ok(u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Nanos::from_secs))
}

fn text_or_size(value: Node<'_>, what: &str) -> Result<(), Fault> {
    if !value.is_text() {
        value.natural(what, 0..=MAX_INT)?;
    }
    Ok(())
}
