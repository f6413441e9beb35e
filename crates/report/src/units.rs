//! Figures in the form for people: three significant digits and a unit, thousands with commas, per cent. All come from
//! integers, or from floats that the standard library rounds exactly, so a text is the same on every machine.

use serde::Serialize;

/// The sign for a figure that the host cannot know.
pub(crate) const UNKNOWN: &str = "-";

/// The units of time, each with its nanoseconds.
const UNITS: [(u128, &str); 4] =
    [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];

/// The units of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricUnit {
    /// Nanoseconds.
    Span,
    /// Per cent.
    Percent,
    /// A fraction from 0 to 1.
    Share,
    /// A count of anything.
    #[default]
    Number,
}

impl MetricUnit {
    /// A number with its unit.
    ///
    /// ```
    /// assert_eq!(runyard_report::MetricUnit::Span.shown(1_500_000.0), "1.50 ms");
    /// ```
    #[must_use]
    pub fn shown(self, number: f64) -> String {
        let sign = if number < 0.0 { "-" } else { "" };
        match self {
            MetricUnit::Span => format!("{sign}{}", span(number.abs().round() as u64)),
            MetricUnit::Percent => format!("{number:.2} %"),
            MetricUnit::Share => format!("{:.2} %", 100.0 * number),
            MetricUnit::Number if number.abs() >= 1000.0 => format!("{number:.0}"),
            MetricUnit::Number => format!("{number:.2}"),
        }
    }

    /// A difference of two numbers, with its sign. The difference of two percentages is in points.
    pub(crate) fn difference(self, difference: f64) -> String {
        let sign = match difference {
            it if it < 0.0 => "-",
            it if it > 0.0 => "+",
            _ => "",
        };
        sign.to_owned() + &in_points(self.shown(difference.abs()))
    }
}

/// A difference of percentages in its own unit.
pub(crate) fn in_points(difference: String) -> String {
    match difference.strip_suffix(" %") {
        Some(points) => format!("{points} points"),
        None => difference,
    }
}

/// A span of `ns` nanoseconds, in three digits.
///
/// ```
/// let shown = [850, 1_230, 45_600_000, 1_800_000_000_000].map(runyard_report::span);
/// assert_eq!(shown, ["850 ns", "1.23 us", "45.6 ms", "1,800 s"]);
/// ```
#[must_use]
pub fn span(ns: u64) -> String {
    let (number, unit) = in_unit(ns);
    format!("{number} {unit}")
}

/// A span for a column: `s` is as wide as the other units, so that the numbers are aligned.
pub(crate) fn span_cell(ns: Option<u64>) -> String {
    ns.map_or_else(
        || UNKNOWN.to_owned(),
        |ns| {
            let (number, unit) = in_unit(ns);
            format!("{number} {unit:<2}")
        },
    )
}

/// The number in the smallest unit in which `ns` rounds to less than 1,000, and that unit.
fn in_unit(ns: u64) -> (String, &'static str) {
    let ns = u128::from(ns);
    let fits = |unit: &&(u128, &str)| rounded(ns, unit.0) < 1000;
    let (unit, name) = UNITS.iter().find(fits).unwrap_or(&UNITS[UNITS.len() - 1]);
    let (hundredths, tenths) = (rounded(ns * 100, *unit), rounded(ns * 10, *unit));
    let number = match () {
        () if *unit == 1 => ns.to_string(),
        () if hundredths < 1000 => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        () if tenths < 1000 => format!("{}.{}", tenths / 10, tenths % 10),
        () => grouped(rounded(ns, *unit)),
    };
    (number, name)
}

/// A number with commas between thousands: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    grouped(u128::from(n))
}

/// A number for a column.
pub(crate) fn count_cell(n: Option<u64>) -> String {
    n.map_or_else(|| UNKNOWN.to_owned(), count)
}

/// A CPU for a column, if there is one.
pub(crate) fn cpu_cell(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| UNKNOWN.to_owned(), |cpu| format!("CPU {cpu}"))
}

/// `part` of `whole` in per cent with two decimals; unknown if `part` is unknown or `whole` is 0.
pub(crate) fn percent_cell(part: Option<u64>, whole: u64) -> String {
    match part {
        Some(part) if whole > 0 => {
            let hundredths = rounded(u128::from(part) * 10_000, u128::from(whole));
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// `after` divided by `before`: with two decimals; without decimals from a hundred on; with two digits below a tenth;
/// as a fraction below a thousandth: `1.50`, `123`, `0.0016`, `1/12,345`. Unknown if either is unknown, or `before` is
/// 0.
pub(crate) fn ratio_cell(before: Option<u64>, after: Option<u64>) -> String {
    let (Some(before @ 1..), Some(after)) = (before, after) else { return UNKNOWN.to_owned() };
    let (before, after) = (u128::from(before), u128::from(after));
    let hundredths = rounded(after * 100, before);
    match hundredths {
        _ if after == 0 => "0".to_owned(),
        _ if after * 1000 < before => format!("1/{}", grouped(rounded(before, after))),
        _ if after * 100 < before => format!("0.{:04}", rounded(after * 10_000, before)),
        _ if after * 10 < before => format!("0.{:03}", rounded(after * 1_000, before)),
        0..10_000 => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        _ => grouped((hundredths + 50) / 100),
    }
}

/// The rate a second of `n` things in `ns` nanoseconds; unknown if `ns` is 0.
pub(crate) fn rate_cell(n: Option<u64>, ns: u64) -> String {
    match n {
        Some(n) if ns > 0 => grouped(rounded(u128::from(n) * 1_000_000_000, u128::from(ns))),
        _ => UNKNOWN.to_owned(),
    }
}

fn rounded(part: u128, whole: u128) -> u128 {
    (part + whole / 2) / whole
}

fn grouped(n: u128) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_three_digits_in_the_unit_that_they_fit() {
        let spans = [0, 999, 1_000, 1_234, 12_345, 999_499, 999_500, 59_949_999_999, u64::MAX];
        let texts = spans.map(span);
        let expected = ["0 ns", "999 ns", "1.00 us", "1.23 us", "12.3 us", "999 us", "1.00 ms"];
        assert_eq!(texts[..7], expected);
        assert_eq!(texts[7..], ["59.9 s", "18,446,744,074 s"]);
        assert_eq!((span(9_995), span(99_950)), ("10.0 us".to_owned(), "100 us".to_owned()));
    }

    #[test]
    fn a_number_has_its_thousands_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_ratio_is_of_what_was_before() {
        let ratios = [(2, 3), (3, 2), (7, 7), (1, 99), (1, 100), (3, 4_000_000), (5, 0)];
        let small = [(1000, 67), (3_730_000, 5_990), (1_000, 1), (3_730_000, 3_000), (1_000, 99)];
        let texts = ratios.map(|(before, after)| ratio_cell(Some(before), Some(after)));
        assert_eq!(texts, ["1.50", "0.67", "1.00", "99.00", "100", "1,333,333", "0"]);
        let texts = small.map(|(before, after)| ratio_cell(Some(before), Some(after)));
        assert_eq!(texts, ["0.067", "0.0016", "0.0010", "1/1,243", "0.099"]);
        assert_eq!(ratio_cell(Some(0), Some(1)), "-");
        assert_eq!(
            (ratio_cell(None, Some(1)), ratio_cell(Some(1), None)),
            ("-".into(), "-".into())
        );
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        assert_eq!(
            (percent_cell(Some(1), 3), percent_cell(Some(2), 3)),
            ("33.33".into(), "66.67".into())
        );
        assert_eq!((percent_cell(Some(1), 0), percent_cell(None, 1)), ("-".into(), "-".into()));
        assert_eq!(
            (rate_cell(Some(3), 2_000_000_000), rate_cell(None, 1)),
            ("2".into(), "-".into())
        );
        assert_eq!((span_cell(None), count_cell(None)), ("-".into(), "-".into()));
    }
}
