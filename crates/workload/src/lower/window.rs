//! The part of a run that reports count.

use crate::Window;
use crate::diagnostic::Fault;
use runyard_engine::time::Nanos;

/// Returns the beginning of that part, and the duration of the run, which ends with it.
pub(super) fn read(
    Window { from, until }: Window,
    duration: Option<Nanos>,
) -> Result<(Nanos, Option<Nanos>), Fault> {
    let fault = |what| Err(Fault::new(Fault::NOWHERE, what));
    let end = until.or(duration);
    if let (Some(until), Some(duration)) = (until, duration)
        && until > duration
    {
        return fault(format!("until {until} is beyond the duration of the run, {duration}"));
    }
    match (from.unwrap_or(Nanos::ZERO), end) {
        (from, Some(end)) if from >= end => {
            fault(format!("the run ends at {end}: from must be before it, and is {from}"))
        }
        (from, end) => Ok((from, end)),
    }
}
