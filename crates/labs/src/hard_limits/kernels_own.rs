//! The kernel's own limit on this machine: the [original programs](super::originals) of the document's benchmarks, in
//! the document's three columns. They run in the command's own group, in a group without a limit, and in a group with
//! 450 ms of each 500 ms on each CPU.
//!
//! The limit is not the document's code but that of its successor, which Linux has had since 3.2 (`cpu.max`). How long a
//! program takes is the machine's affair, so times are shown. A program that would use more CPU time than the limit
//! allows must be throttled, and must not use more. Whether it would is seen in the group without a limit.

use super::founding::{PERIOD, RUNTIME, documents};
use super::originals::{Bench, Job, Missing, Original, switch_us};
use crate::claims::{Claim, ClaimVerdict, Unjudged};
use crate::figure::{percent, rounded};
use crate::length::Length;
use crate::quiet::Course;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_hosts::linux::{Finished, Place};
use runyard_outcome::Failure;
use std::time::Duration;

/// The time of a probe.
const PROBE: Duration = Duration::from_millis(500);

/// The time on each CPU that a program may use beyond the limit's part of its time. The kernel's periods do not begin
/// with the program: it may use 450 ms of a CPU in 450 ms at its beginning, and again at its end, where the limit's part
/// is 405 ms each. A CPU keeps what it has borrowed from the group's runtime, at most 5 ms
/// (`sched_cfs_bandwidth_slice_us`), and finds out at a tick that this is used up, at most 10 ms later.
const BEYOND: Nanos = Nanos::from_millis(2 * 45 + 5 + 10);

/// The columns of the document's table.
const COLUMNS: usize = 3;
const OWN: usize = 0;
const FREE: usize = 1;
const LIMITED: usize = 2;

/// The results of a program.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    original: Original,
    /// The command line, or what the program said when it failed.
    told: String,
    /// The runs of each round, by column.
    rounds: Result<Vec<[Ran; COLUMNS]>, Unjudged>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Ran {
    seconds: f64,
    /// User and system time, in seconds.
    used: f64,
    /// The CPU time in per cent of what the limit allows in this time.
    of_allowed: f64,
    switches: u64,
    /// The periods in which its group was throttled; `None` in the command's own group.
    throttled: Option<u64>,
    /// The time of a switch as the program measures it, in microseconds; only `lat_ctx` does.
    switch_us: Option<f64>,
}

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The time of a run in the command's own group.
    run: Nanos,
    /// The number of rounds, each with a run in each column.
    rounds: u32,
    /// The limit of the last column.
    limit: Option<Limit>,
}

impl Extent {
    /// Several periods: in a short experiment as much as it has time for.
    pub(super) fn of(length: Length) -> Extent {
        let run = Nanos::from_millis(length.pick(2_200, 4_000));
        Extent { run, rounds: length.pick(1, 5), limit: Some(documents()) }
    }

    /// The time of all runs of all programs.
    pub(super) fn takes(self) -> Duration {
        self.one_takes() * Original::ALL.len() as u32
    }

    /// The time of the runs of one program.
    fn one_takes(self) -> Duration {
        PROBE + Duration::from_nanos(self.run.0) * self.rounds * COLUMNS as u32
    }
}

/// Runs all programs on so many CPUs, as parts of a course that last as long as [`Extent::takes`] says.
pub(super) fn measured(
    cpus: usize,
    extent: Extent,
    course: &mut Course<'_>,
) -> Result<Vec<Measured>, Failure> {
    let bench = Bench::new(cpus)?;
    let of = |original: Original| {
        let what = format!("{} under the kernel's own limit", original.name());
        course.once(&what, extent.one_takes(), || of_one(&bench, original, extent))
    };
    Ok(Original::ALL.into_iter().map(of).collect())
}

/// The claims about a build whose last column has no limit either: for tests that see them fail.
pub(super) fn build_without_limit(cpus: usize) -> Result<Vec<Claim>, Failure> {
    let bench = Bench::new(cpus)?;
    let extent = Extent { limit: None, ..Extent::of(Length::Short) };
    Ok(of_one(&bench, Original::Build, extent).limited())
}

/// Runs one program. Each round begins with another column.
fn of_one(bench: &Bench, original: Original, extent: Extent) -> Measured {
    let columns = [Place::Own, Place::Group(None), Place::Group(extent.limit)];
    let round = |job: Job<'_>, number: usize| {
        let mut ran = [None; COLUMNS];
        for at in (0..COLUMNS).map(|at| (at + number) % COLUMNS) {
            ran[at] = Some(Ran::of(&job.run(columns[at])?, bench.cpus));
        }
        Ok::<_, Missing>(ran.map(|ran| ran.expect("each column has run")))
    };
    let all = |job: Job<'_>| {
        let rounds = (0..extent.rounds as usize).map(|number| round(job, number));
        Ok((job.shown(), rounds.collect::<Result<Vec<_>, _>>()?))
    };
    match bench.find(original, extent.run).and_then(all) {
        Ok((told, rounds)) => Measured { original, told, rounds: Ok(rounds) },
        Err(Missing { why, said }) => Measured { original, told: said, rounds: Err(why) },
    }
}

impl Ran {
    fn of(finished: &Finished, cpus: usize) -> Ran {
        let used = finished.user + finished.system;
        let part = RUNTIME.0 as f64 / PERIOD.0 as f64;
        let allowed = (finished.took.0 as f64 * part + BEYOND.0 as f64) * cpus as f64;
        Ran {
            seconds: finished.took.0 as f64 / 1e9,
            used: used.0 as f64 / 1e9,
            of_allowed: percent(used.0 as f64 / allowed),
            switches: finished.switches,
            throttled: finished.throttled,
            switch_us: switch_us(&finished.said),
        }
    }
}

impl Measured {
    /// A line of text: the command line and the number of rounds, or why there is none.
    fn line(&self) -> String {
        let name = self.original.name();
        match &self.rounds {
            Ok(rounds) => format!("{name}: `{}`, rounds: {}", self.told, rounds.len()),
            Err(why) if self.told.is_empty() => format!("{name}: {why}"),
            Err(why) => format!("{name}: {why}: {}", self.told),
        }
    }

    /// The known values of a column, in order.
    fn sorted(&self, column: usize, of: impl Fn(&Ran) -> Option<f64>) -> Vec<f64> {
        let rounds = self.rounds.iter().flatten();
        let mut values: Vec<_> = rounds.filter_map(|round| of(&round[column])).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The verdict of a row without a bound.
    fn shown(&self) -> ClaimVerdict {
        self.rounds
            .as_ref()
            .map_or_else(|why| ClaimVerdict::NotJudged(*why), |_| ClaimVerdict::Shown)
    }

    /// The verdict of a row with a bound, where the program uses this part of what is allowed, in per cent, without a
    /// limit. A program that leaves a part of the CPUs idle, or to others, tells nothing about the limit.
    fn so(&self, uses: Option<f64>, so: bool) -> ClaimVerdict {
        match &self.rounds {
            Err(why) => ClaimVerdict::NotJudged(*why),
            Ok(_) if !self.original.wants_all_cpus() => ClaimVerdict::Shown,
            Ok(_) if uses <= Some(100.0) => ClaimVerdict::NotJudged(Unjudged::NeedsLess),
            Ok(_) => ClaimVerdict::of(so),
        }
    }

    /// A row of medians in these columns.
    fn medians(
        &self,
        what: &str,
        unit: &str,
        columns: [usize; 2],
        of: fn(&Ran) -> Option<f64>,
    ) -> Claim {
        let median = |column| {
            let values = self.sorted(column, of);
            values.get(values.len() / 2).map(|value| rounded(*value, 3))
        };
        self.claim(what, unit, columns.map(median), self.shown())
    }

    fn claim(&self, what: &str, unit: &str, figures: [Option<f64>; 2], so: ClaimVerdict) -> Claim {
        let what = format!("the kernel's own limit, {}, {what}", self.original.name());
        Claim::of(what, unit, figures, so)
    }

    /// The rows of the group without a limit.
    fn unlimited(&self) -> [Claim; 2] {
        let time = |ran: &Ran| Some(ran.seconds);
        let most = self.sorted(FREE, throttled).last().copied();
        let so = match &self.rounds {
            Ok(_) if most == Some(0.0) => {
                ClaimVerdict::SameByConstruction("the group has no limit")
            }
            Ok(_) => ClaimVerdict::Fails,
            Err(why) => ClaimVerdict::NotJudged(*why),
        };
        [
            self.medians("unlimited: time", "s", [OWN, FREE], time),
            self.claim("unlimited: throttled, at most", "periods", [None, most], so),
        ]
    }

    /// The rows of the limited group.
    fn limited(&self) -> Vec<Claim> {
        let name = |what: &str| format!("450 of 500 ms on each CPU: {what}");
        let times = self.sorted(LIMITED, |ran| Some(ran.seconds));
        let range = [times.first(), times.last()].map(|time| time.map(|time| rounded(*time, 3)));
        let medians = |what: &str, unit, of| self.medians(&name(what), unit, [OWN, LIMITED], of);
        let [free, limited] = [FREE, LIMITED].map(|at| self.sorted(at, |ran| Some(ran.of_allowed)));
        let used = [free.first(), limited.last()].map(Option::<&f64>::copied);
        let held = [
            self.sorted(FREE, throttled).last().copied(),
            self.sorted(LIMITED, throttled).first().copied(),
        ];
        let is_kept = used[1] <= Some(100.0);
        let is_held = held[1] > Some(0.0);
        let kept_so = self.so(used[0], is_kept);
        // A program that kept to the limit by itself is not throttled, and then nothing shows whether it would be.
        let uses = used[0].filter(|_| is_held || !is_kept);
        let held_so = self.so(uses, is_held);
        vec![
            medians("time", "s", |ran| Some(ran.seconds)),
            self.claim(&name("time, least and largest"), "s", range, self.shown()),
            self.claim(&name("CPU time, of what is allowed"), "%", used, kept_so),
            self.claim(&name("throttled"), "periods", held, held_so),
            medians("user and system time", "s", |ran| Some(ran.used)),
            medians("switches", "", |ran| Some(ran.switches as f64)),
        ]
    }

    /// The rows of the program's own figure, beside the document's.
    fn switch(&self) -> Vec<Claim> {
        if self.original != Original::LatCtx {
            return Vec::new();
        }
        let of = |column, what: &str| {
            self.medians(&format!("{what}: a switch"), "us", [OWN, column], |ran| ran.switch_us)
        };
        let [off, free, limited] = SWITCH_US;
        vec![
            of(FREE, "unlimited").beside([Some(off), Some(free)]),
            of(LIMITED, "450 of 500 ms on each CPU").beside([Some(off), Some(limited)]),
        ]
    }
}

/// The document's time of a switch among 10 processes of 1024 KB, in its three columns.
const SWITCH_US: [f64; COLUMNS] = [315.87, 330.19, 317.04];

fn throttled(ran: &Ran) -> Option<f64> {
    ran.throttled.map(|periods| periods as f64)
}

/// The text about the results of [`measured`]: a line for each program.
pub(super) fn text(measured: &[Measured]) -> String {
    let lines: String = measured.iter().map(|one| format!("  {}\n", one.line())).collect();
    format!("Under the kernel's own limit:\n{lines}")
}

/// The claims about the results of [`measured`].
pub(super) fn claims(measured: &[Measured]) -> Vec<Claim> {
    let of = |one: &Measured| {
        let mut claims = Vec::from(one.unlimited());
        claims.extend(one.limited());
        claims.extend(one.switch());
        claims
    };
    measured.iter().flat_map(of).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::claims::tests::failed;

    /// Results on a machine that has none of the programs.
    pub(in super::super) fn nothing() -> Vec<Measured> {
        let why = Unjudged::NotInstalled("it", "some");
        let none = |original| Measured { original, told: String::new(), rounds: Err(why) };
        Original::ALL.into_iter().map(none).collect()
    }

    /// A run on two CPUs that takes two seconds.
    fn ran(used: u64, throttled: Option<u64>) -> Ran {
        let half = Nanos::from_millis(used / 2);
        let (took, said) = (Nanos::from_secs(2), "10 30.5\n".to_owned());
        let periods = throttled.map(|_| 4);
        let (user, system, switches) = (half, half, 7);
        Ran::of(&Finished { took, user, system, switches, periods, throttled, said }, 2)
    }

    /// A program with one round, in which it uses so many milliseconds of the CPUs without the limit and with it.
    fn one(original: Original, used: [u64; 2], throttled: [u64; 2]) -> Measured {
        let [free, limited] = [0, 1].map(|at| ran(used[at], Some(throttled[at])));
        Measured {
            original,
            told: "make -j4".to_owned(),
            rounds: Ok(vec![[ran(used[0], None), free, limited]]),
        }
    }

    fn words(measured: Measured) -> Vec<&'static str> {
        let word = |claim: Claim| match claim.verdict {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::SameByConstruction(_) => "same",
            ClaimVerdict::NotJudged(_) => "not judged",
            _ => "shown",
        };
        let claims = claims(&[measured]).into_iter();
        claims.map(word).filter(|&word| word != "shown").collect()
    }

    #[test]
    fn a_limit_that_is_not_kept_fails() {
        let of = |used, throttled| claims(&[one(Original::Build, used, throttled)]);
        let what = |what: &str| {
            format!("the kernel's own limit, a build, 450 of 500 ms on each CPU: {what}")
        };
        // Two seconds of two CPUs allow 3,600 ms, and 210 ms at the ends.
        assert_eq!(failed(of([3_900, 3_800], [0, 3])), [""; 0]);
        assert_eq!(
            failed(of([3_900, 3_900], [0, 0])),
            [what("CPU time, of what is allowed"), what("throttled")]
        );
        let throttled = "the kernel's own limit, a build, unlimited: throttled, at most";
        assert_eq!(failed(of([3_900, 3_800], [1, 3])), [throttled]);
    }

    #[test]
    fn a_program_that_needs_less_is_not_judged_and_a_missing_one_neither() {
        let needs_less = one(Original::Hackbench, [2_000, 2_000], [0, 0]);
        assert_eq!(words(needs_less), ["same", "not judged", "not judged"]);
        // Others had a part of the CPUs while it was limited.
        let disturbed = one(Original::Hackbench, [3_900, 3_000], [0, 0]);
        assert_eq!(words(disturbed), ["same", "holds", "not judged"]);
        let ring = one(Original::LatCtx, [2_000, 2_000], [0, 0]);
        assert_eq!(words(ring), ["same"], "it never uses more than one CPU");
        for missing in nothing() {
            let rows = claims(std::slice::from_ref(&missing)).len();
            assert_eq!(words(missing), vec!["not judged"; rows]);
        }
    }

    #[test]
    fn the_time_of_a_switch_stands_beside_the_documents() {
        let claims = claims(&[one(Original::LatCtx, [2_000, 2_000], [0, 0])]);
        let switch = claims.last().unwrap();
        assert_eq!((switch.published_after, switch.after), (Some(317.04), Some(30.5)));
    }

    #[test]
    fn the_text_has_the_command_line_or_the_reason() {
        let mut all = nothing();
        all[2] = one(Original::Build, [3_900, 3_800], [0, 3]);
        all[1].rounds = Err(Unjudged::NoGroups);
        all[1].told = "Permission denied".to_owned();
        assert_eq!(
            text(&all),
            "Under the kernel's own limit:\n  hackbench: it is not installed (package some)\n  \
             lat_ctx: the kernel makes no task groups for this process: Permission denied\n  \
             a build: `make -j4`, rounds: 1\n"
        );
    }
}
