//! The influence of values that the document does not give: the cases once more, with one assumption changed each time.

use super::case::{Case, Daemons, Guess, MUCH_SLACK, Pair, SEEDS};
use rayon::prelude::*;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use std::fmt::Write as _;

/// The counted part of each run, in seconds.
const SECONDS: u64 = 10;

const BASE: Guess = Guess::SHIPPED;

/// The assumptions, each with one change from the shipped ones.
const GUESSES: [(&str, Guess); 14] = [
    ("as assumed", BASE),
    ("4 daemons of each period", Guess { daemons: 4, ..BASE }),
    ("16 of each", Guess { daemons: 16, ..BASE }),
    ("2 of each, a quarter of the periods", Guess { daemons: 2, hurry: 4, ..BASE }),
    ("a quarter of the periods", Guess { hurry: 4, ..BASE }),
    ("25 us of work", Guess { work: Nanos::from_micros(25), ..BASE }),
    ("300 us of work", Guess { work: Nanos::from_micros(300), ..BASE }),
    ("cycles of 4 ms to the nanosecond", Guess { uneven: Nanos::ZERO, ..BASE }),
    ("cycles of 3 to 5 ms", Guess { uneven: Nanos::from_millis(1), ..BASE }),
    ("cycles too have a slack of 10 ms", Guess { cycle_slack: MUCH_SLACK, ..BASE }),
    ("daemons do not poll", Guess { poll: false, ..BASE }),
    ("tick of 4 ms", Guess { tick_hz: 250, ..BASE }),
    ("1 node of 16", Guess { topology: (1, 16, 1), ..BASE }),
    ("4 nodes of 4", Guess { topology: (4, 4, 1), ..BASE }),
];

/// The number of cases with CPUs that are idle now and then.
const CASES: usize = 3;

/// The number of runs.
pub(super) const RUNS: u64 = (GUESSES.len() * CASES) as u64 * 2 * SEEDS;

/// The table of all of them; it calls `done` after each run.
pub(super) fn text(done: impl Fn() + Sync) -> Result<String, Failure> {
    let row = |(what, guess): &(&str, Guess)| -> Result<String, Failure> {
        let daemons = Daemons::Assumed(*guess);
        let of = |at: usize| Case { daemons, ..Case::DOCUMENTS[at] }.pair(SECONDS, &done);
        Ok(line(what, &[of(0)?, of(1)?, of(2)?]))
    };
    let rows: Result<Vec<_>, _> = GUESSES.par_iter().with_max_len(1).map(row).collect();
    let mut text = format!(
        "\nmigrations in 60 s with other guesses ({SECONDS} s of each), before > after; in brackets, in \
         per cent: how many of the\ndaemons' timers are run greedily, and how busy the CPUs are\n\
         {:37}{:>14}  {:>22}  {:>28}\n",
        "", "case 0", "case 1", "case 2"
    );
    for row in rows? {
        text += &row;
    }
    Ok(text)
}

fn line(what: &str, [alone, little, much]: &[Pair; CASES]) -> String {
    let both = |pair: &Pair| {
        let [before, after] = [&pair.before, &pair.after].map(|runs| runs.migrations().mean);
        format!("{before:.0} > {after:.0}")
    };
    let greedy = |pair: &Pair| 100.0 * pair.after.greedy(|run| run.daemons);
    let busy = 100.0 * much.after.spread(|run| run.busy).mean;
    let little = format!("{} ({:.0})", both(little), greedy(little));
    let last = format!("{} ({:.0}, {busy:.0})", both(much), greedy(much));
    let mut line = String::new();
    let _ = writeln!(line, "{what:37}{:>14}  {little:>22}  {last:>28}", both(alone));
    line
}
