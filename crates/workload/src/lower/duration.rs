//! Durations: `1000`, or a distribution from which each use draws a value.

use super::context::Context;
use super::number::MAX_INT;
use super::values;
use super::warnings::Warnings;
use crate::diagnostic::{Fault, quoted};
use crate::draw::Draw;
use crate::json::Node;
use crate::nearest::advice;
use runyard_engine::attr::Slice;
use runyard_engine::time::Nanos;

const FORMS: &str = "microseconds, or a distribution as {\"uniform\": [low, high]} (the others are exponential, normal, \
                     lognormal, pareto, weibull, tail and values)";

/// The names of the distributions.
const KNOWN: [&str; 8] =
    ["uniform", "exponential", "normal", "lognormal", "pareto", "weibull", "tail", "values"];

/// A million: shapes and percentages are kept in millionths.
const MILLION: u64 = 1_000_000;

/// The least shape of a Pareto distribution. At 1 there is no mean.
const LEAST_PARETO: u64 = 1_000_001;

/// The least shape of a Weibull distribution, at which no draw is as long as [`Draw::LONGEST`].
const LEAST_WEIBULL: u64 = 300_000;

/// The largest shape, of which the values hardly differ.
const MOST_SHAPE: u64 = 100 * MILLION;

/// The part of a mean that is told if a cut takes it away.
const TOLD: f64 = 0.001;

/// Reads a duration, fixed or random. The unit in the file is the microsecond.
pub(super) fn draw(node: Node<'_>, context: &mut Context) -> Result<Draw, Fault> {
    if node.is_number() {
        return Ok(Draw::Fixed(micros(node)?));
    }
    let mut members =
        if node.is_object() { Some(node.object()?) } else { None }.into_iter().flatten();
    let (Some(member), None) = (members.next(), members.next()) else {
        return Err(node.expected(FORMS));
    };
    let value = member.value;
    let draw = match &*member.key() {
        "uniform" => {
            let [low, high] = pair(value)?;
            if low > high {
                return Err(Fault::new(value.at(), "the first is above the second"));
            }
            Draw::Uniform(low, high)
        }
        "exponential" => Draw::Exponential(micros(value)?),
        "normal" => {
            let [mean, sd] = pair(value)?;
            Draw::Normal { mean, sd }
        }
        "lognormal" => {
            let [mean, sd] = pair(value)?;
            if mean == Nanos::ZERO {
                return Err(Fault::new(value.at(), "the mean is not 0"));
            }
            Draw::Lognormal { mean, sd }
        }
        "pareto" => {
            let what = "a shape above 1 and at most 100";
            let (least, shape) = with_shape(value, what, LEAST_PARETO)?;
            Draw::Pareto { least, shape }
        }
        "weibull" => {
            let (scale, shape) = with_shape(value, "a shape of 0.3 to 100", LEAST_WEIBULL)?;
            Draw::Weibull { scale, shape }
        }
        "tail" => {
            let [usual, extra, percent] = listed(value)?;
            let percent = percent.decimal("a percentage of 0 to 100", 0..=100 * MILLION)?;
            let (usual, extra) = (micros(usual)?, micros(extra)?);
            Draw::Tail { usual, extra, often: percent as u32 }
        }
        "values" => Draw::Values(values::read(value, &context.folder)?),
        other => {
            let what =
                format!("no distribution is called {}{}", quoted(other), advice(other, &KNOWN));
            return Err(Fault::new(member.at, what));
        }
    };
    tell_cut(draw, value.at(), &mut context.warnings);
    Ok(draw)
}

/// Warns if values are cut so that their mean is another one.
fn tell_cut(draw: Draw, at: usize, warnings: &mut Warnings) {
    let (mean, asked) = (draw.mean(), draw.uncut_mean());
    let change = mean - asked;
    if change.abs() > TOLD * asked {
        let which = if change > 0.0 { "below 0" } else { "above 36 years" };
        let [mean, asked] = [mean, asked].map(|mean| mean / 1e3);
        let what = format!(
            "the values {which} are cut, so the mean of these times is {mean:.1} us and not {asked:.1} us"
        );
        warnings.instead(at, what);
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

/// Reads a list of a time and a shape, in millionths, that is `least` or more. `what` is the error of another shape.
fn with_shape(node: Node<'_>, what: &str, least: u64) -> Result<(Nanos, u32), Fault> {
    let [time, shape] = listed(node)?;
    Ok((micros(time)?, shape.decimal(what, least..=MOST_SHAPE)? as u32))
}

fn pair(node: Node<'_>) -> Result<[Nanos; 2], Fault> {
    let [first, second] = listed(node)?;
    Ok([micros(first)?, micros(second)?])
}

/// Returns the items of a list of `N`.
fn listed<const N: usize>(node: Node<'_>) -> Result<[Node<'_>; N], Fault> {
    let items: Vec<_> = node.list()?.take(N + 1).collect();
    let count = if N == 2 { "a list of two" } else { "a list of three" };
    items.try_into().map_err(|_| node.expected(count))
}
