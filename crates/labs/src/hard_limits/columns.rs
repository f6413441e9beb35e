//! The document's three columns on this machine's CPUs: a program without hard limits, in a group without a limit, and in
//! a group with 450 ms of each 500 ms on each CPU.
//!
//! How long a program takes is the machine's affair, so times are shown. A program that would use more CPU time than the
//! limit allows must be throttled, and must not use more. Whether it would is seen in the group without a limit.

use super::founding::{PERIOD, RUNTIME};
use crate::claims::{Claim, ClaimVerdict, Unjudged};
use crate::figure::{percent, rounded};
use crate::length::Length;
use crate::quiet::Tried;
use crate::rows::{self, Row, Sides, Word};
use runyard_engine::time::Nanos;
use std::time::Duration;

/// The number of columns.
pub(super) const COLUMNS: usize = 3;
const OWN: usize = 0;
const FREE: usize = 1;
const LIMITED: usize = 2;

/// The columns by their names in rows.
const NAMES: [&str; COLUMNS] = ["no group", "unlimited", "450 of 500 ms on each CPU"];

/// All of what is allowed, in per cent.
const ALL: f64 = 100.0;
/// Two runs of a program differ by some per cent. One that uses no more than this without a limit might keep the limit by
/// itself in the next run.
const CLEARLY_MORE: f64 = 103.0;

/// The time on each CPU that a program may use beyond the limit's part of its time. The periods do not begin with the
/// program: it may use 450 ms of a CPU in 450 ms at its beginning, and again at its end, where the limit's part is 405 ms
/// each. On the kernel a CPU keeps what it has borrowed from the group's runtime, at most 5 ms
/// (`sched_cfs_bandwidth_slice_us`), and finds out at a tick that this is used up, at most 10 ms later.
const BEYOND: Nanos = Nanos::from_millis(2 * 45 + 5 + 10);

/// The results of a program.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Whose limit it is, and the program.
    pub(super) name: String,
    /// The program's own words: its command line, or what it said when it failed.
    pub(super) told: String,
    /// Whether it uses all CPUs that it gets. Only then do its rows have a bound.
    pub(super) wants_all_cpus: bool,
    /// The document's time of a switch in the columns, in microseconds, if the program measures that.
    pub(super) published: Option<[f64; COLUMNS]>,
    /// The runs of each round, by column.
    pub(super) rounds: Result<Vec<[Ran; COLUMNS]>, Unjudged>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) took: Nanos,
    /// Its CPU time.
    pub(super) used: Nanos,
    pub(super) cpus: usize,
    pub(super) switches: u64,
    /// The periods in which its group was throttled; `None` if it has none.
    pub(super) throttled: Option<u64>,
    /// The time of a switch as the program measures it, in microseconds.
    pub(super) switch_us: Option<f64>,
}

/// The number of rounds, each with a run in each column.
fn nr_rounds(length: Length) -> u32 {
    length.pick(1, 5)
}

/// The time of all rounds of a program whose run takes this time without a limit.
pub(super) fn takes(run: Nanos, length: Length) -> Duration {
    Duration::from_nanos(run.0) * nr_rounds(length) * COLUMNS as u32
}

/// Runs all rounds. Each begins with another column.
///
/// # Errors
/// Those of `run`.
pub(super) fn rounds<E>(
    length: Length,
    mut run: impl FnMut(usize) -> Result<Ran, E>,
) -> Result<Vec<[Ran; COLUMNS]>, E> {
    let mut round = |number: usize| {
        let mut ran = [None; COLUMNS];
        for at in (0..COLUMNS).map(|at| (at + number) % COLUMNS) {
            ran[at] = Some(run(at)?);
        }
        Ok(ran.map(|ran| ran.expect("each column has run")))
    };
    (0..nr_rounds(length) as usize).map(&mut round).collect()
}

impl Ran {
    fn seconds(&self) -> Option<f64> {
        Some(self.took.0 as f64 / 1e9)
    }

    /// The CPU time in per cent of what the limit allows in the time of the run.
    fn of_allowed(&self) -> Option<f64> {
        let part = RUNTIME.0 as f64 / PERIOD.0 as f64;
        let allowed = (self.took.0 as f64 * part + BEYOND.0 as f64) * self.cpus as f64;
        Some(percent(self.used.0 as f64 / allowed))
    }

    fn throttled(&self) -> Option<f64> {
        self.throttled.map(|periods| periods as f64)
    }
}

/// The known values of a column, in order.
fn sorted(sides: &Sides<'_, Ran>, column: usize, of: fn(&Ran) -> Option<f64>) -> Vec<f64> {
    let mut values: Vec<_> = sides[column].iter().filter_map(|ran| of(ran)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A row of medians.
fn medians(what: &str, unit: &'static str, of: fn(&Ran) -> Option<f64>) -> Row<Ran> {
    Row::beside(what, unit, move |sides, column| {
        let values = sorted(sides, column, of);
        values.get(values.len() / 2).map(|value| rounded(*value, 3))
    })
}

/// A row of the largest value of a column, or of its least.
fn extremes(
    what: &str,
    unit: &'static str,
    of: fn(&Ran) -> Option<f64>,
    is_largest: fn(usize) -> bool,
) -> Row<Ran> {
    Row::beside(what, unit, move |sides, column| {
        let values = sorted(sides, column, of);
        if is_largest(column) { values.last().copied() } else { values.first().copied() }
    })
}

impl Measured {
    /// A line of text: the program's own words and the number of rounds, or why there is none.
    pub(super) fn line(&self) -> String {
        let name = &self.name;
        match &self.rounds {
            Ok(rounds) => format!("{name}: `{}`, rounds: {}", self.told, rounds.len()),
            Err(why) if self.told.is_empty() => format!("{name}: {why}"),
            Err(why) => format!("{name}: {why}: {}", self.told),
        }
    }

    /// The claims.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let column = |at: usize| {
            let rounds = self.rounds.iter().flatten();
            rounds.map(|round| Tried::quiet(round[at])).collect::<Vec<_>>()
        };
        rows::claims(&self.rows(), &[OWN, FREE, LIMITED].map(column))
    }

    fn rows(&self) -> Vec<Row<Ran>> {
        let time = || medians("time", "s", Ran::seconds);
        let never = Word::Same("the group has no limit");
        let most = extremes("throttled, at most", "periods", Ran::throttled, |_| true);
        let range = Row::beside("time, least and largest", "s", |sides: &Sides<'_, Ran>, end| {
            let times = sorted(sides, LIMITED, Ran::seconds);
            let time = if end == 0 { times.first() } else { times.last() };
            time.map(|time| rounded(*time, 3))
        });
        let used = |ran: &Ran| Some(ran.used.0 as f64 / 1e9);
        let [free, limited] = [
            vec![time().of(OWN, FREE), most.after(FREE).judged(never, |_, most| most == 0.0)],
            vec![
                time().of(OWN, LIMITED),
                range,
                self.kept(),
                self.held(),
                medians("user and system time", "s", used).of(OWN, LIMITED),
                medians("switches", "", |ran| Some(ran.switches as f64)).of(OWN, LIMITED),
            ],
        ];
        let below = |column: usize, rows: Vec<Row<Ran>>| {
            let switch = self.published.map(|published| {
                let row = medians("a switch", "us", |ran| ran.switch_us).of(OWN, column);
                row.published(published[OWN], published[column])
            });
            let named =
                move |row: Row<Ran>| row.below(&format!("{}, {}", self.name, NAMES[column]));
            rows.into_iter().chain(switch).map(named)
        };
        let rows = below(FREE, free).chain(below(LIMITED, limited));
        match self.rounds {
            Ok(_) => rows.collect(),
            Err(why) => rows.map(|row| row.open(ClaimVerdict::NotJudged(why))).collect(),
        }
    }

    /// The row about the CPU time, which has a bound if the program uses more than the limit allows in its absence.
    fn kept(&self) -> Row<Ran> {
        let row =
            extremes("CPU time, of what is allowed", "%", Ran::of_allowed, |at| at == LIMITED);
        self.bounded(row.of(FREE, LIMITED), self.needs_less(), |_, used| used <= ALL)
    }

    /// The row about the periods. A program that kept to the limit by itself is not throttled, and then nothing shows
    /// whether it would be.
    fn held(&self) -> Row<Ran> {
        let row = extremes("throttled", "periods", Ran::throttled, |at| at == FREE);
        let limited = self.rounds.iter().flatten().map(|round| round[LIMITED]);
        let is_free = |ran: Ran| ran.throttled == Some(0) && ran.of_allowed() <= Some(ALL);
        let needs_less = self.needs_less() || limited.into_iter().any(is_free);
        self.bounded(row.of(FREE, LIMITED), needs_less, |_, held| held > 0.0)
    }

    /// Whether the program uses hardly more than the limit allows in the group without a limit.
    fn needs_less(&self) -> bool {
        let free = self.rounds.iter().flatten().map(|round| round[FREE]);
        free.into_iter().any(|ran| ran.of_allowed() <= Some(CLEARLY_MORE))
    }

    /// The row with a bound. A program that leaves a part of the CPUs idle, or to others, tells nothing about the limit.
    fn bounded(
        &self,
        row: Row<Ran>,
        needs_less: bool,
        bound: impl Fn(f64, f64) -> bool + Send + Sync + 'static,
    ) -> Row<Ran> {
        match needs_less {
            _ if !self.wants_all_cpus => row,
            true => row.open(ClaimVerdict::NotJudged(Unjudged::NeedsLess)),
            false => row.holds(bound),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::claims::tests::failed;

    /// A program that is not installed.
    pub(in super::super) fn missing(name: &str, published: Option<[f64; COLUMNS]>) -> Measured {
        let rounds = Err(Unjudged::NotInstalled("it", "some"));
        let (name, told) = (name.to_owned(), String::new());
        Measured { name, told, wants_all_cpus: true, published, rounds }
    }

    /// A run on two CPUs that takes two seconds.
    fn ran(used: u64, throttled: Option<u64>) -> Ran {
        let (took, used) = (Nanos::from_secs(2), Nanos::from_millis(used));
        Ran { took, used, cpus: 2, switches: 7, throttled, switch_us: Some(30.5) }
    }

    /// A program with one round, in which it uses so many milliseconds of the CPUs without the limit and with it.
    fn one(used: [u64; 2], throttled: [u64; 2]) -> Measured {
        let [free, limited] = [0, 1].map(|at| ran(used[at], Some(throttled[at])));
        let told = "make -j4".to_owned();
        let rounds = Ok(vec![[ran(used[0], None), free, limited]]);
        Measured { told, rounds, ..missing("a limit, a build", None) }
    }

    fn words(measured: &Measured) -> Vec<&'static str> {
        let word = |claim: Claim| match claim.verdict {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::SameByConstruction(_) => "same",
            ClaimVerdict::NotJudged(_) => "not judged",
            _ => "shown",
        };
        let words = measured.claims().into_iter().map(word);
        words.filter(|&word| word != "shown").collect()
    }

    #[test]
    fn a_limit_that_is_not_kept_fails() {
        let of = |used, throttled| failed(one(used, throttled).claims());
        let what = |what: &str| format!("a limit, a build, 450 of 500 ms on each CPU: {what}");
        // Two seconds of two CPUs allow 3,600 ms, and 210 ms at the ends.
        assert_eq!(of([3_960, 3_800], [0, 3]), [""; 0]);
        let both = ["CPU time, of what is allowed", "throttled"].map(what);
        assert_eq!(of([3_960, 3_960], [0, 0]), both);
        assert_eq!(of([3_960, 3_800], [1, 3]), ["a limit, a build, unlimited: throttled, at most"]);
    }

    #[test]
    fn a_program_that_needs_less_is_not_judged_and_a_missing_one_neither() {
        assert_eq!(words(&one([2_000, 2_000], [0, 0])), ["same", "not judged", "not judged"]);
        // 102 % of what is allowed: seen in a build that used 99 % in its next run, without a limit too.
        assert_eq!(words(&one([3_890, 3_780], [0, 0])), ["same", "not judged", "not judged"]);
        // Others had a part of the CPUs while it was limited.
        assert_eq!(words(&one([3_960, 3_000], [0, 0])), ["same", "holds", "not judged"]);
        let ring = Measured { wants_all_cpus: false, ..one([2_000, 2_000], [0, 0]) };
        assert_eq!(words(&ring), ["same"], "it never uses more than one CPU");
        let missing = missing("it", Some([1.0; COLUMNS]));
        assert_eq!(words(&missing), vec!["not judged"; missing.claims().len()]);
    }

    #[test]
    fn the_time_of_a_switch_stands_beside_the_documents() {
        let published = Some([315.87, 330.19, 317.04]);
        let claims = Measured { published, ..one([2_000, 2_000], [0, 0]) }.claims();
        let switch = claims.last().unwrap();
        assert_eq!((switch.published_after, switch.after), (Some(317.04), Some(30.5)));
    }

    #[test]
    fn each_round_begins_with_another_column() {
        let mut order = Vec::new();
        let run = |column| {
            order.push(column);
            Ok::<_, ()>(ran(column as u64, None))
        };
        let rounds = rounds(Length::Soak, run).unwrap();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2, 1, 2, 0]);
        assert!(rounds.iter().all(|round| round[LIMITED].used == Nanos::from_millis(2)));
    }

    #[test]
    fn the_line_has_the_command_line_or_the_reason() {
        assert_eq!(one([1, 1], [0, 0]).line(), "a limit, a build: `make -j4`, rounds: 1");
        let mut missing = missing("it", None);
        assert_eq!(missing.line(), "it: it is not installed (package some)");
        missing.told = "Permission denied".to_owned();
        missing.rounds = Err(Unjudged::NoGroups);
        let why = "the kernel makes no task groups for this process";
        assert_eq!(missing.line(), format!("it: {why}: Permission denied"));
    }
}
