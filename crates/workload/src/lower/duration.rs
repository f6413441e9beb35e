//! Durations: `1000`, or a distribution from which each use draws a value.

use super::number::MAX_INT;
use crate::diagnostic::Fault;
use crate::draw::Draw;
use crate::json::Node;
use runyard_engine::attr::Slice;
use runyard_engine::time::Nanos;

const FORMS: &str = "microseconds, {\"uniform\": [low, high]}, {\"exponential\": mean} or \
                     {\"normal\": [mean, deviation]}";

/// Reads a duration, fixed or random. The unit in the file is the microsecond.
pub(super) fn draw(node: Node<'_>) -> Result<Draw, Fault> {
    if node.is_number() {
        return Ok(Draw::Fixed(micros(node)?));
    }
    let mut members =
        if node.is_object() { Some(node.object()?) } else { None }.into_iter().flatten();
    let (Some(member), None) = (members.next(), members.next()) else {
        return Err(node.expected(FORMS));
    };
    match &*member.key() {
        "uniform" => {
            let [low, high] = pair(member.value)?;
            if low > high {
                return Err(Fault::new(member.value.at(), "the first is above the second"));
            }
            Ok(Draw::Uniform(low, high))
        }
        "exponential" => Ok(Draw::Exponential(micros(member.value)?)),
        "normal" => {
            let [mean, sd] = pair(member.value)?;
            Ok(Draw::Normal { mean, sd })
        }
        _ => Err(Fault::new(member.at, format!("expected {FORMS}"))),
    }
}

/// Reads a whole number of microseconds.
pub(super) fn micros(node: Node<'_>) -> Result<Nanos, Fault> {
    Ok(Nanos::from_micros(node.natural("microseconds", 0..=MAX_INT)?.into()))
}

/// Reads the slice of a fair task, in whole microseconds.
pub(super) fn slice(node: Node<'_>) -> Result<Slice, Fault> {
    let [low, high] = [Slice::MIN, Slice::MAX].map(|slice| (slice.get().0 / 1_000) as i64);
    let make = |us: i64| Slice::new(Nanos::from_micros(us.unsigned_abs()));
    node.checked("a slice in microseconds", low..=high, make)
}

fn pair(node: Node<'_>) -> Result<[Nanos; 2], Fault> {
    let mut spans = node.list()?;
    match (spans.next(), spans.next(), spans.next()) {
        (Some(first), Some(second), None) => Ok([micros(first)?, micros(second)?]),
        _ => Err(node.expected("a list of two")),
    }
}
