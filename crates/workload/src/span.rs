//! Spans and times of a run, in the syntax of the command line and of other files of Runyard.

use runyard_engine::time::Nanos;

/// Reads `10s`, `250ms`, `5us`, `2m`.
///
/// # Errors
/// A sentence with the syntax of a span, if the text is not one.
pub fn span(text: &str) -> Result<Nanos, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return Err("a span is a whole number and us, ms, s or m, as 10s".to_owned()),
    };
    let number = text[..digits].parse().ok().and_then(|n: u64| n.checked_mul(unit));
    match number {
        None => Err("a span is a whole number and us, ms, s or m, below 584 years".to_owned()),
        Some(0) => Err("a run takes some time".to_owned()),
        Some(nanos) => Ok(Nanos(nanos)),
    }
}

/// Reads a time of a run, counted from its begin. It has the syntax of [`span`] with two additions: decimals are
/// allowed except for minutes, as `7.16s`, and it may be `0s`.
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
    let bad = || "a moment is a number and us, ms or s, as 7.16s".to_owned();
    let Some((whole, rest)) = text.split_once('.') else {
        return span(text).or_else(|_| match text {
            "0s" | "0ms" | "0us" => Ok(Nanos::ZERO),
            _ => Err(bad()),
        });
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (decimals, unit) = rest.split_at(digits);
    let places = match unit {
        "us" => 3,
        "ms" => 6,
        "s" => 9,
        _ => return Err(bad()),
    };
    if decimals.is_empty() || decimals.len() > places {
        return Err(bad());
    }
    let number = format!("{whole}{decimals:0<places$}");
    let is_number = !whole.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_number).map(Nanos).ok_or_else(bad)
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
    fn spans_have_a_number_and_a_unit() {
        assert_eq!(span("10s"), Ok(Nanos::from_secs(10)));
        assert_eq!(span("250ms"), Ok(Nanos::from_millis(250)));
        assert_eq!(span("2m"), Ok(Nanos::from_secs(120)));
        for bad in ["", "s", "10", "1.5s", "-1s", "10 s", "0s", "99999999999999999999s", "1h"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        for ns in [0, 1, 999, 1_000, 12_500, 1_000_000, 1_500_001, 60_000_000_000, u64::MAX] {
            assert_eq!(moment(&moment_text(Nanos(ns))), Ok(Nanos(ns)), "{ns}");
        }
    }

    #[test]
    fn moments_may_have_decimals() {
        assert_eq!(moment("7.16s"), Ok(Nanos(7_160_000_000)));
        assert_eq!(moment("12.5us"), Ok(Nanos(12_500)));
        assert_eq!(moment("250ms"), Ok(Nanos::from_millis(250)));
        for bad in ["", "7.16", ".5s", "7.s", "1.0000us", "-1.5s", "1.5m", "1.x5s"] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
