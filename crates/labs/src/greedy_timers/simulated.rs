//! The experiment in virtual time: without the greedy walk and with it, and a model of cancelled timers.

use super::cancelled;
use super::case::{self, Case, Counted, Daemons, Load, Pair, Runs, SEEDS};
use crate::claims::{Claim, ClaimVerdict, Reproduced};
use crate::figure::percent;
use crate::length::Length;
use crate::progress::Progress;
use crate::usage::Account;
use rayon::prelude::*;
use runyard_outcome::Failure;
use std::fmt::Write as _;

/// The remark that goes with every table of figures.
const ASSUMED: &str = "\
assumed: 80 daemons, eight of each of ten periods from 100 ms to 6.3 s, that compute for 100 us at a time and
wait in poll (slack at least a thousandth of the period); cycles of 4 ms +- 2.5 % and 1 ms, slack 50 us in
every case; two sockets of four cores with two threads; a tick of 1 ms
recorded timers: those of Postgres, redis and cron without clients, 17 wake-ups a second, instead of the 80 daemons
";

/// The counted part of each run, in seconds; with `--soak` it is as long as the document's.
const SECONDS: u64 = 10;
const SOAK_SECONDS: u64 = 60;

/// The highest load of a machine with daemons alone, in per cent.
const MOST_BUSY: f64 = 0.5;

/// The largest fraction of the migrations that may be left with a slack of 10 ms. The document has 0.53.
const MOST_LEFT: f64 = 0.7;

/// The largest fraction of the migrations for each expired timer that may be left.
const MOST_LEFT_BY_TIMER: f64 = 0.5;

/// The parameter that was chosen for the migrations of case 1 without the walk.
const DAEMONS: &str = "the number of daemons, to the migrations of case 1 without the walk";

/// The reason why hogs migrate as before.
const NEVER_IDLE: &str = "no CPU is ever idle, so nothing is walked on idle";

/// The document's figures of a case.
#[derive(Clone, Copy, Debug)]
struct Published {
    /// The mean, and the deviation of the mean in per cent, before and after.
    migrations: [(f64, f64); 2],
    /// The part of the timers that only the greedy walk ran, in per cent.
    greedy: Option<f64>,
}

/// The figures in the order of [`Case::DOCUMENTS`].
const PUBLISHED: [Published; 4] = [
    Published { migrations: [(2_118.0, 7.851), (2_140.0, 7.278)], greedy: None },
    Published { migrations: [(20_568.0, 2.210), (17_954.0, 1.459)], greedy: Some(10.0) },
    Published { migrations: [(24_510.0, 2.431), (13_042.0, 3.721)], greedy: Some(86.0) },
    Published { migrations: [(938.0, 13.147), (973.0, 7.746)], greedy: None },
];

/// Runs the experiment in virtual time, without the greedy walk and with it: five seeds of each case. A soak is as long
/// as the document's runs.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let seconds = length.pick(SECONDS, SOAK_SECONDS);
    let cases: Vec<_> = [Case::DOCUMENTS, Case::RECORDED].concat();
    progress.parts("runs", 2 * SEEDS * cases.len() as u64);
    let done = || progress.part_done();
    let pair = |case: &Case| Ok((*case, case.pair(seconds, done)?));
    let pairs: Result<Vec<_>, Failure> = cases.par_iter().with_max_len(1).map(pair).collect();
    let pairs = pairs?;
    let rows = cancelled::rows(true);

    let mut claims: Vec<_> = pairs.iter().flat_map(|(case, pair)| claims(*case, pair)).collect();
    claims.extend(cancelled::claims(&rows));
    Ok(Reproduced::of("greedy-timers", "sim", claims, |table| {
        format!(
            "greedy-timers on sim: 16 CPUs, NO_GREEDY_TIMERS and then GREEDY_TIMERS; {SEEDS} seeds, {seconds} s \
             of each\n\n{table}\n{}{ASSUMED}\n{}\n",
            deviations(&pairs),
            cancelled::text(&rows),
        )
    }))
}

/// The claims about a case. With recorded timers only its migrations are claimed, and the greedy walk's part is shown.
fn claims(case: Case, pair: &Pair) -> Vec<Claim> {
    let published = PUBLISHED[case.number()];
    let is_recorded = case.daemons == Daemons::Recorded;
    let claim = |what: &str, unit: &str, published: [Option<f64>; 2], figures, so| {
        let (before, after): (Option<f64>, f64) = figures;
        let what = format!("{}: {what}", case.name());
        Claim::of(what, unit, [before, Some(after)], so).beside(published)
    };
    let of_both = |of: fn(&Runs) -> f64| (Some(of(&pair.before)), of(&pair.after));
    let (what, verdict) = migrations(case, pair);
    let mut claims = vec![claim(
        what,
        "in 60 s",
        published.migrations.map(|(mean, _)| Some(mean)),
        of_both(|runs| runs.migrations().mean.round()),
        verdict,
    )];
    if case.load == Load::Cycles && !is_recorded {
        let [before, after] = [&pair.before, &pair.after].map(|runs| runs.by_timer().mean);
        let verdict = match case.slack == case::MUCH_SLACK {
            true => ClaimVerdict::of(after <= MOST_LEFT_BY_TIMER * before),
            false => ClaimVerdict::Shown,
        };
        let figures = (Some(percent(before)), percent(after));
        claims.push(claim("migrations by timer wake-ups", "%", [None; 2], figures, verdict));
    }
    if !is_recorded {
        let busy = of_both(|runs| percent(runs.spread(|run| run.busy).mean));
        let verdict = match case.load {
            Load::Nothing => {
                ClaimVerdict::fitted(busy.1 < MOST_BUSY, "the daemons' computing time")
            }
            Load::Cycles | Load::Hogs => ClaimVerdict::Shown,
        };
        claims.push(claim("busy", "%", [None; 2], busy, verdict));
    }
    if let Some(greedy) = published.greedy {
        let mut share = |what, published, kind: fn(&Counted) -> Account| {
            let figures = (None, percent(pair.after.greedy(kind)));
            claims.push(claim(what, "%", [None, published], figures, ClaimVerdict::Shown));
        };
        // The document counts all timers but the tick's.
        share("of all timers greedily", Some(greedy), |run| run.all);
        share("of the daemons' timers greedily", None, |run| run.daemons);
    }
    claims
}

/// The name of the claim about a case's migrations, which has its bound, and whether it is kept.
fn migrations(case: Case, Pair { before, after }: &Pair) -> (&'static str, ClaimVerdict) {
    let (was, is) = (before.migrations(), after.migrations());
    let of = ClaimVerdict::of;
    match (case.number(), case.daemons) {
        (0, Daemons::Assumed) => {
            let same = (is.mean - was.mean).abs() <= was.noise(is);
            ("migrations, no change beyond the noise", of(same))
        }
        // Few daemons move so seldom that there is nothing to judge.
        (0, Daemons::Recorded) => ("migrations", ClaimVerdict::Shown),
        (1, daemons) => {
            let holds = is.mean - was.mean <= was.noise(is);
            let verdict = match daemons {
                Daemons::Assumed => ClaimVerdict::fitted(holds, DAEMONS),
                Daemons::Recorded => of(holds),
            };
            ("migrations, no more beyond the noise", verdict)
        }
        (2, _) => ("migrations, at most 0.7 of before", of(is.mean <= MOST_LEFT * was.mean)),
        _ => ("migrations, the same", ClaimVerdict::same(before.0 == after.0, NEVER_IDLE)),
    }
}

/// The claims of the case with much slack and of the cancelled timers without the greedy walk, in short runs: for tests
/// that see them fail.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated_without() -> Result<Vec<Claim>, Failure> {
    let mut claims = Vec::new();
    for case in [Case::DOCUMENTS[2], Case::RECORDED[2]] {
        let before = case.pair(1, || ())?.before;
        claims.extend(self::claims(case, &Pair { after: before.clone(), before }));
    }
    claims.extend(cancelled::claims(&cancelled::rows(false)));
    Ok(claims)
}

/// The means of the migrations, in the form of `perf stat -r`.
fn deviations(pairs: &[(Case, Pair)]) -> String {
    let mut text = String::from(
        "migrations in 60 s, +- the standard deviation of the mean in per cent (as perf stat -r)\n\
         case                                     published: before          after            here: before          \
         after    of the daemons\n",
    );
    let figure = |(mean, percent): (f64, f64)| format!("{mean:.0} +-{percent:.1}%");
    for (case, pair) in pairs {
        let [was, is] = PUBLISHED[case.number()].migrations.map(figure);
        let [before, after] = [&pair.before, &pair.after].map(|runs| {
            let migrations = runs.migrations();
            figure((migrations.mean, migrations.percent()))
        });
        let [own, own_after] = [&pair.before, &pair.after]
            .map(|runs| runs.spread(|run| run.a_minute(run.daemons.migrations)).mean);
        let name = case.name();
        let _ = writeln!(
            text,
            "{name:39}  {was:>17}  {is:>13}  {before:>22}  {after:>13}    {own:.0}, {own_after:.0}"
        );
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claims::tests::failed;

    /// Five runs of a minute with these migrations.
    fn runs(migrations: [u64; 5]) -> Runs {
        let run = |migrations| {
            let all = Account { migrations, timers: 100_000, ..Account::default() };
            Counted { seconds: 60, all, ..Counted::default() }
        };
        Runs(migrations.map(run).to_vec())
    }

    /// Runs with this mean, and a deviation of one per cent.
    fn about(mean: u64) -> Runs {
        let by = (mean as f64 * 0.01 * 5.0_f64.sqrt()).round() as u64;
        runs([mean - by, mean + by, mean, mean - by, mean + by])
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let pair = Pair { before: about(1_000), after: about(1_000) };
        let cases = [Case::DOCUMENTS, Case::RECORDED].concat();
        let claims = cases.into_iter().flat_map(|case| claims(case, &pair));
        claims.chain(cancelled::claims(&cancelled::rows(true))).collect()
    }

    /// The claims of a case that fail.
    fn failed_of(at: usize, before: Runs, after: Runs) -> Vec<String> {
        let failed = failed(claims(Case::DOCUMENTS[at], &Pair { before, after }));
        failed.iter().map(|what| what.rsplit(": ").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_daemons_alone_migrate_as_before() {
        for after in [1_980, 2_000, 2_020] {
            assert_eq!(failed_of(0, about(2_000), about(after)), [""; 0]);
        }
        for after in [1_900, 2_100] {
            assert_eq!(
                failed_of(0, about(2_000), about(after)),
                ["migrations, no change beyond the noise"]
            );
        }
    }

    #[test]
    fn little_slack_makes_nothing_worse() {
        for (after, holds) in [(10_000, true), (20_200, true), (21_000, false)] {
            assert_eq!(failed_of(1, about(20_000), about(after)).is_empty(), holds, "{after}");
        }
    }

    #[test]
    fn much_slack_helps_much() {
        assert_eq!(failed_of(2, about(24_000), about(11_000)), [""; 0]);
        let by_timer = "migrations by timer wake-ups";
        assert_eq!(failed_of(2, about(24_000), about(13_000)), [by_timer]);
        assert_eq!(
            failed_of(2, about(24_000), about(17_000)),
            ["migrations, at most 0.7 of before", by_timer]
        );
    }

    #[test]
    fn where_no_cpu_is_ever_idle_nothing_differs() {
        assert_eq!(failed_of(3, runs([1, 0, 0, 0, 2]), runs([1, 0, 0, 0, 2])), [""; 0]);
        assert_eq!(
            failed_of(3, runs([1, 0, 0, 0, 2]), runs([1, 0, 0, 1, 2])),
            ["migrations, the same"]
        );
    }
}
