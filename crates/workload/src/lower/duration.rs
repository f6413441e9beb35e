//! Durations: `1000`, or a distribution from which one is drawn each time.

use super::MAX_INT;
use crate::diagnostic::Fault;
use crate::draw::Draw;
use crate::json::Node;
use runyard_engine::time::Nanos;

const FORMS: &str = "microseconds, {\"uniform\": [low, high]}, {\"exponential\": mean} or \
                     {\"normal\": [mean, deviation]}";

/// A duration, fixed or random, whose unit in the file is the microsecond.
pub(super) fn draw(node: Node<'_>) -> Result<Draw, Fault> {
    if node.is_number() {
        return Ok(Draw::Fixed(micros(node)?));
    }
    let members = if node.is_object() { node.object()? } else { Vec::new() };
    let [member] = members[..] else { return Err(node.expected(FORMS)) };
    match member.key {
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

/// A whole number of microseconds.
pub(super) fn micros(node: Node<'_>) -> Result<Nanos, Fault> {
    Ok(Nanos::from_micros(node.natural("microseconds", 0..=MAX_INT)?.into()))
}

fn pair(node: Node<'_>) -> Result<[Nanos; 2], Fault> {
    let mut spans = node.list()?;
    match (spans.next(), spans.next(), spans.next()) {
        (Some(first), Some(second), None) => Ok([micros(first)?, micros(second)?]),
        _ => Err(node.expected("a list of two")),
    }
}
