//! The section `scheduler`, an extension: numbers and switches of the scheduler, named after the kernel's files. They
//! are the machine's final values, for any number of CPUs. A number that the machine's scheduler does not have is
//! refused.

use crate::diagnostic::Fault;
use crate::json::Node;
use crate::shape;
use crate::tunables::{Of, Place, Takes, Tunable};
use runyard_engine::config::Config;
use runyard_engine::kernel::Model;
use runyard_engine::tuned::{Set, Tuned};

/// A number from the section.
struct Given<'v> {
    tunable: &'static Tunable,
    value: Node<'v>,
}

/// Reads the section, for a scheduler with the numbers `config` without it.
pub(super) fn read(
    section: Option<Node<'_>>,
    model: Model,
    config: Config,
) -> Result<Tuned, Fault> {
    let mut tuned = Tuned::default();
    let mut given = Vec::new();
    for member in section.map(Node::object).transpose()?.into_iter().flatten() {
        let key = shape::SCHEDULER.own("`scheduler`", member)?;
        let tunable = Tunable::at(&format!("scheduler.{key}")).expect("the keys are the table's");
        let (of, set, _) = of_scheduler(tunable);
        if !of.has(&config) {
            return Err(Fault::new(member.at, tunable.lacked(of, model)));
        }
        let value = match tunable.takes {
            Takes::Switch => member.value.boolean()?.into(),
            _ => member.value.checked_of(tunable, Some)?,
        };
        tuned.add(set, value);
        given.push(Given { tunable, value: member.value });
    }
    fit_together(&given, &tuned, config)?;
    Ok(tuned)
}

/// Refuses a runtime that is longer than its period.
fn fit_together(given: &[Given<'_>], tuned: &Tuned, mut config: Config) -> Result<(), Fault> {
    tuned.apply(&mut config);
    for Given { tunable, value } in given {
        let pairs = crate::tunables::ALL.iter().filter_map(|other| {
            let Place::Scheduler { at_most, .. } = other.place else { return None };
            let most = Tunable::at(at_most?)?;
            (other.path == tunable.path || most.path == tunable.path).then_some((other, most))
        });
        for (runtime, period) in pairs {
            let [least, most] = [runtime, period].map(|it| (of_scheduler(it).2)(&config));
            if least > most {
                let what = format!(
                    "`{}` is {least}, and `{}`, which is {most}, must not be less",
                    runtime.name(),
                    period.name()
                );
                return Err(Fault::new(value.at(), what));
            }
        }
    }
    Ok(())
}

/// Returns the schedulers that have a tunable, and the functions that set and read it.
fn of_scheduler(tunable: &Tunable) -> (Of, Set, fn(&Config) -> i64) {
    match tunable.place {
        Place::Scheduler { of, set, get, .. } => (of, set, get),
        _ => unreachable!("{} is a number of the scheduler", tunable.path),
    }
}
