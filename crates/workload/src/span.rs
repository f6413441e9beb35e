//! Spans and times of a run, in the syntax of the command line and of other files of Runyard.

use runyard_engine::time::Nanos;

/// The units of a time, and the nanoseconds of each.
const UNITS: [(&str, u64); 5] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The syntax of a time, for messages.
const SYNTAX: &str = "a time is a number of seconds, or a number and us, ms, s, m or h, as 1.5s";

/// Reads the length of a run: `10s`, `1.5s`, `250ms`, `5us`, `2m`, `1h`. A number without a unit is seconds.
///
/// ```
/// use runyard_engine::time::Nanos;
///
/// assert_eq!(runyard_workload::span("1.5m"), Ok(Nanos::from_secs(90)));
/// assert_eq!(runyard_workload::span("10"), Ok(Nanos::from_secs(10)));
/// assert!(runyard_workload::span("0s").is_err());
/// ```
///
/// # Errors
/// A sentence with the syntax, if the text is not a time, or is zero.
pub fn span(text: &str) -> Result<Nanos, String> {
    match moment(text)? {
        Nanos::ZERO => Err("a run takes some time".to_owned()),
        nanos => Ok(nanos),
    }
}

/// Reads a time of a run, counted from its begin. It has the syntax of [`span`], and may be `0`.
///
/// ```
/// use runyard_engine::time::Nanos;
///
/// assert_eq!(runyard_workload::moment("7.16s"), Ok(Nanos(7_160_000_000)));
/// assert!(runyard_workload::moment("soon").is_err());
/// ```
///
/// # Errors
/// A sentence with the syntax, if the text is not a time.
pub fn moment(text: &str) -> Result<Nanos, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(end);
    let name = if name.is_empty() { "s" } else { name };
    let unit = UNITS.iter().find(|(known, _)| *known == name).map(|&(_, nanos)| nanos);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let (Some(unit), false, false) = (unit, whole.is_empty(), decimals.is_empty()) else {
        return Err(SYNTAX.to_owned());
    };
    if decimals.contains('.') {
        return Err(SYNTAX.to_owned());
    }
    let part =
        part_of(unit, decimals).ok_or_else(|| format!("{text} has parts of a nanosecond"))?;
    let nanos =
        whole.parse().ok().and_then(|whole: u64| whole.checked_mul(unit)?.checked_add(part));
    nanos.map(Nanos).ok_or_else(|| format!("{text} is longer than 584 years"))
}

/// The nanoseconds of the decimals of a number of units, if they are a whole number.
fn part_of(unit: u64, decimals: &str) -> Option<u64> {
    let decimals = decimals.trim_end_matches('0');
    if decimals.is_empty() {
        return Some(0);
    }
    let parts = 10_u128.checked_pow(decimals.len().try_into().ok()?)?;
    let nanos = decimals.parse::<u128>().ok()?.checked_mul(unit.into())?;
    (nanos % parts == 0).then(|| (nanos / parts) as u64)
}

/// Writes a time of a run as [`moment`] reads it, in the largest unit of which it has one.
///
/// ```
/// use runyard_engine::time::Nanos;
///
/// assert_eq!(runyard_workload::moment_text(Nanos::from_millis(7_160)), "7.16s");
/// ```
#[must_use]
pub fn moment_text(at: Nanos) -> String {
    let (unit, places, name) = match at.0 {
        0 | 1_000_000_000.. => (1_000_000_000, 9, "s"),
        1_000_000.. => (1_000_000, 6, "ms"),
        _ => (1_000, 3, "us"),
    };
    let decimals = format!("{:0places$}", at.0 % unit);
    match decimals.trim_end_matches('0') {
        "" => format!("{}{name}", at.0 / unit),
        decimals => format!("{}.{decimals}{name}", at.0 / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_a_unit_or_of_seconds() {
        for (text, nanos) in [
            ("10s", 10_000_000_000),
            ("10", 10_000_000_000),
            ("0.5", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("250ms", 250_000_000),
            ("10us", 10_000),
            ("12.5us", 12_500),
            ("1.0000us", 1_000),
            ("2m", 120_000_000_000),
            ("1.1m", 66_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(span(text), Ok(Nanos(nanos)), "{text}");
            assert_eq!(moment(text), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn zero_is_a_moment_and_no_span() {
        for zero in ["0", "0s", "0ms", "0.0us", "00m"] {
            assert_eq!(moment(zero), Ok(Nanos::ZERO), "{zero}");
            assert_eq!(span(zero), Err("a run takes some time".to_owned()), "{zero}");
        }
    }

    #[test]
    fn another_text_is_refused_with_the_reason() {
        for bad in
            ["", "s", ".", ".5s", "7.s", "1.2.3s", "-1s", "+1s", "10 s", "1.x5s", "1d", "1S", "1e3"]
        {
            assert_eq!(span(bad), Err(SYNTAX.to_owned()), "{bad}");
        }
        for fine in ["1.0001us", "0.0000000001s", "0.1111111111111111111111111111111111111111111s"]
        {
            assert_eq!(span(fine), Err(format!("{fine} has parts of a nanosecond")));
        }
        for long in ["99999999999999999999s", "18446744074", "6000000h"] {
            assert_eq!(span(long), Err(format!("{long} is longer than 584 years")));
        }
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        for ns in [0, 1, 999, 1_000, 12_500, 1_000_000, 1_500_001, 60_000_000_000, u64::MAX] {
            assert_eq!(moment(&moment_text(Nanos(ns))), Ok(Nanos(ns)), "{ns}");
        }
    }
}
