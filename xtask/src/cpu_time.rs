//! The CPU time of a process, as the kernel tells it in `/proc/PID/stat`.

/// The unit of `/proc` (`USER_HZ`), in seconds.
const TICK: f64 = 0.01;

/// The CPU time of a process and of its children that have ended, in seconds. `stat` is the text of its file; another
/// text has no time.
#[must_use]
pub fn of(stat: &str) -> f64 {
    // A name may have blanks and brackets. After it come the state and, from the twelfth word, utime stime cutime
    // cstime.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let times = after.split_whitespace().skip(11).take(4);
    times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * TICK
}

/// The CPU time of this process and of its children that have ended, in seconds.
#[must_use]
pub fn own() -> f64 {
    of(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_times_are_added_whatever_the_name_is() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 300 40 9 9";
        assert!((of(stat) - 4.6).abs() < 1e-9);
        assert_eq!(of(""), 0.0);
    }
}
