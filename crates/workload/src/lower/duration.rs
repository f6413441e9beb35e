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

const MEAN_AND_DEVIATION: &str = "[mean, deviation]";

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
            let [low, high] = pair(value, "[low, high]")?;
            if low > high {
                return Err(Fault::new(value.at(), "the first is above the second"));
            }
            Draw::Uniform(low, high)
        }
        "exponential" => Draw::Exponential(micros(value)?),
        "normal" => {
            let [mean, sd] = pair(value, MEAN_AND_DEVIATION)?;
            Draw::Normal { mean, sd }
        }
        "lognormal" => {
            let [mean, sd] = pair(value, MEAN_AND_DEVIATION)?;
            if mean == Nanos::ZERO {
                return Err(Fault::new(value.at(), "the mean is not 0"));
            }
            Draw::Lognormal { mean, sd }
        }
        "pareto" => {
            let [least, shape] = listed(value, "[least, shape]")?;
            let what = "a shape above 1 and at most 100";
            let (least, shape) = (micros(least)?, shape.decimal(what, LEAST_PARETO..=MOST_SHAPE)?);
            Draw::Pareto { least, shape: shape as u32 }
        }
        "weibull" => {
            let [scale, shape] = listed(value, "[scale, shape]")?;
            let what = "a shape of 0.3 to 100";
            let (scale, shape) = (micros(scale)?, shape.decimal(what, LEAST_WEIBULL..=MOST_SHAPE)?);
            Draw::Weibull { scale, shape: shape as u32 }
        }
        "tail" => {
            let [usual, extra, percent] = listed(value, "[usual, extra, percent]")?;
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

fn pair(node: Node<'_>, form: &str) -> Result<[Nanos; 2], Fault> {
    let [first, second] = listed(node, form)?;
    Ok([micros(first)?, micros(second)?])
}

/// Returns the items of a list of `N`. `form` names them in the error of another value.
fn listed<'n, const N: usize>(node: Node<'n>, form: &str) -> Result<[Node<'n>; N], Fault> {
    let other = || node.expected(form);
    let items = node.list().map_err(|_| other())?.take(N + 1);
    items.collect::<Vec<_>>().try_into().map_err(|_| other())
}
