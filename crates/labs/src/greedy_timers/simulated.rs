//! The experiment in virtual time: the document's four cases without the greedy walk and with it, and a model of
//! cancelled timers.
//!
//! The document gives 16 logical CPUs, their load, the cycle of its 16 tasks, and the slack. The following is assumed:
//! * The machine has two sockets of four cores with two threads each, and a tick of 1 ms.
//! * The cycle is 4 ms of computing, give or take 2.5 %, and `usleep(1000)` with a slack of 50 us in every case. With
//!   10 ms of slack the CPUs would be a third busy, not four fifths.
//! * There are 80 daemons, eight for each of ten periods from 100 ms to 6.3 s. A daemon computes for 100 us at a time
//!   on average; together they wake up 212 times a second. Their number is fitted to the migrations of case 1 before: a
//!   timer that expires on a busy CPU moves its task whenever another CPU of the socket is idle.
//! * They wait as daemons do, in `poll` or `epoll_wait`. There the kernel makes the slack at least a thousandth of the
//!   timeout (`select_estimate_accuracy`, since 2.6.28).
//!
//! The same cases have, instead of these daemons, those whose timers were recorded (`docs/figures/timers/recorded.json`).

use super::cancelled;
use crate::figure::percent;
use crate::length::Length;
use crate::rows::{Row, Sides, Word};
use crate::setting::{Part, Seen, Setting, Simulated};
use crate::spread::Spread;
use crate::usage::{Account, Window};
use runyard_engine::kernel::Experiment;
use runyard_engine::time::{Nanos, Time};
use runyard_report::table;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TaskSpec};

/// The scenarios: cycles, a thread of hogs without an instance, and daemons. With assumed daemons it is case 2, with
/// recorded ones case 1.
const ASSUMED: &str = include_str!("../../scenarios/greedy-timers.json");
const RECORDED: &str = include_str!("../../scenarios/recorded-timers.json");
const DAEMONS: usize = 2;

/// The remark that goes with every table of figures.
const REMARK: &str = "\
assumed: 80 daemons, eight of each of ten periods from 100 ms to 6.3 s, that compute for 100 us at a time and
wait in poll (slack at least a thousandth of the period); cycles of 4 ms +- 2.5 % and 1 ms, slack 50 us in
every case; two sockets of four cores with two threads; a tick of 1 ms
recorded timers: those of Postgres, redis and cron without clients, 17 wake-ups a second, instead of the 80 daemons
";

/// The number of tasks that compute, one for each CPU.
const BUSY: u32 = 16;

/// The time before counting begins: the tasks begin together on one CPU, and spread.
const SETTLE: Nanos = Nanos::from_secs(2);

/// The counted part of each run, in seconds; with `--soak` it is as long as the document's.
const SECONDS: u64 = 10;
const SOAK_SECONDS: u64 = 60;

/// The number of seeds, as in the document (`perf stat -r 5`).
const SEEDS: u64 = 5;

/// The unit of time of the document's migrations.
const MINUTE: Nanos = Nanos::from_secs(60);

/// The kernel's default slack, and the document's larger slack.
const LITTLE: Nanos = Nanos::from_micros(50);
const MUCH: Nanos = Nanos::from_millis(10);

/// `poll` makes the slack at least this fraction of the timeout.
const POLL_ACCURACY: u64 = 1_000;

/// The highest load of a machine with daemons alone, in per cent.
const MOST_BUSY: f64 = 0.5;

/// The largest fraction of the migrations that may be left with a slack of 10 ms. The document has 0.53.
const MOST_LEFT: f64 = 0.7;

/// The largest fraction of the migrations for each expired timer that may be left.
const MOST_LEFT_BY_TIMER: f64 = 0.5;

/// The words of bounds that prove less.
const FITTED_DAEMONS: Word =
    Word::Fitted("the number of daemons, to the migrations of case 1 without the walk");
const FITTED_WORK: Word = Word::Fitted("the daemons' computing time");
const NEVER_IDLE: Word = Word::Same("no CPU is ever idle, so nothing is walked on idle");

/// The load of the CPUs besides the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Nothing,
    Cycles,
    Hogs,
}

/// A case: its load, and the daemons beside it.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    load: Load,
    /// The least slack of the daemons' timers.
    slack: Nanos,
    is_recorded: bool,
    /// The document's migrations, before and after: the mean, and the deviation of the mean in per cent.
    migrations: [(f64, f64); 2],
    /// The part of the timers that only the greedy walk ran there, in per cent.
    greedy: Option<f64>,
}

/// The document's cases, by their numbers there.
const CASES: [Case; 4] = [
    case("0: daemons alone", Load::Nothing, LITTLE, [(2_118.0, 7.851), (2_140.0, 7.278)]),
    Case {
        greedy: Some(10.0),
        ..case(
            "1: cycles, slack 50 us",
            Load::Cycles,
            LITTLE,
            [(20_568.0, 2.210), (17_954.0, 1.459)],
        )
    },
    Case {
        greedy: Some(86.0),
        ..case("2: cycles, slack 10 ms", Load::Cycles, MUCH, [(24_510.0, 2.431), (13_042.0, 3.721)])
    },
    case("3: hogs", Load::Hogs, LITTLE, [(938.0, 13.147), (973.0, 7.746)]),
];

const fn case(name: &'static str, load: Load, slack: Nanos, migrations: [(f64, f64); 2]) -> Case {
    Case { name, load, slack, is_recorded: false, migrations, greedy: None }
}

/// Short runs of the case with much slack, and cancelled timers without the walk: all parts fail without it.
pub(crate) fn broken() -> (Simulated, Vec<&'static str>) {
    let much_slack = [CASES[2], Case { is_recorded: true, ..CASES[2] }];
    (of_cases(&much_slack, 1, false), vec![""])
}

/// The experiment: five seeds of each case. A soak is as long as the document's runs.
pub(crate) fn experiment(length: Length) -> Simulated {
    let recorded = CASES.map(|case| Case { is_recorded: true, ..case });
    of_cases(&[CASES, recorded].concat(), length.pick(SECONDS, SOAK_SECONDS), true)
}

/// These cases for so many seconds each; and the cancelled timers, with the greedy walk or without it.
fn of_cases(cases: &[Case], seconds: u64, greedy: bool) -> Simulated {
    let settings =
        cases.iter().flat_map(|case| case.setting(seconds).pair(Experiment::GreedyTimers));
    let rows = cases.iter().enumerate().flat_map(|(nth, case)| case.rows(2 * nth));
    let told = cases.to_vec();
    let cases = Part::new("", settings.collect(), rows.collect())
        .text(move |sides| deviations(&told, sides) + REMARK);
    Simulated {
        document: Experiment::GreedyTimers,
        title: format!(
            "16 CPUs, NO_GREEDY_TIMERS and then GREEDY_TIMERS; {SEEDS} seeds, {seconds} s of each"
        ),
        parts: vec![cases, cancelled::part(greedy)],
        soak: None,
    }
}

impl Case {
    fn name(&self) -> String {
        format!("{}{}", if self.is_recorded { "recorded timers, " } else { "" }, self.name)
    }

    fn setting(self, seconds: u64) -> Setting {
        let setting = match self.is_recorded {
            false => Setting::of("greedy-timers.json", ASSUMED),
            true => Setting::of("recorded-timers.json", RECORDED),
        };
        let instances = |of| if self.load == of { BUSY } else { 0 };
        let length = Nanos::from_secs(seconds);
        let window = Window { from: Time::ZERO + SETTLE, end: Time::MAX };
        let setting = setting
            .set("tasks.cycle.instance", instances(Load::Cycles))
            .set("tasks.hog.instance", instances(Load::Hogs))
            .lasts(SETTLE + length)
            .window(window, length)
            .seeds(1..=SEEDS);
        setting.edit(move |scenario| {
            for TaskSpec { properties, phases, .. } in &mut scenario.tasks[DAEMONS..] {
                // The kernel's own slack of each: assumed daemons wait in `poll`.
                let kernels = match phases[0].steps.get(1) {
                    Some(Step::Sleep(Draw::Fixed(period))) if !self.is_recorded => {
                        Some(Nanos(period.0 / POLL_ACCURACY))
                    }
                    _ => properties.slack,
                };
                properties.slack = kernels.max(Some(self.slack));
            }
        })
    }

    /// The rows about the setting `before` and the next one. With recorded timers only the migrations are claimed, and the
    /// greedy walk's part is shown.
    fn rows(self, before: usize) -> Vec<Row<Seen>> {
        let share = |what: &str, of: fn(&Seen) -> f64| {
            let mean = move |runs: &[&Seen]| percent(spread(runs, of).mean);
            Row::new(what, "%", mean).of(before, before + 1)
        };
        let mut rows = vec![self.migrations(before)];
        if self.load == Load::Cycles && !self.is_recorded {
            let row = share("migrations by timer wake-ups", by_timer);
            rows.push(match self.slack == MUCH {
                true => row.judged_by(Word::Holds, move |sides, _| {
                    let mean = |side: usize| spread(&sides[side], by_timer).mean;
                    mean(before + 1) <= MOST_LEFT_BY_TIMER * mean(before)
                }),
                false => row,
            });
        }
        if !self.is_recorded {
            let busy = share("busy", |run| run.used.sum().busy());
            rows.push(match self.load {
                Load::Nothing => busy.judged(FITTED_WORK, |_, after| after < MOST_BUSY),
                Load::Cycles | Load::Hogs => busy,
            });
        }
        if let Some(greedy) = self.greedy {
            // The document counts all timers but the tick's.
            let of_all = share("of all timers greedily", |run| greedily(all(run)));
            rows.push(of_all.after(before + 1).published(None, greedy));
            let own = share("of the daemons' timers greedily", |run| greedily(daemons(run, BUSY)));
            rows.push(own.after(before + 1));
        }
        rows.into_iter().map(|row| row.below(&self.name())).collect()
    }

    /// The row about the case's migrations, with its bound.
    fn migrations(self, before: usize) -> Row<Seen> {
        let [was, is] = self.migrations.map(|(mean, _)| mean);
        let row = |what: &str| {
            let mean = move |runs: &[&Seen]| migrations(runs).mean.round();
            Row::new(what, "in 60 s", mean).of(before, before + 1).published(was, is)
        };
        let (what, word, kept): (_, _, fn(Spread, Spread) -> bool) =
            match (self.load, self.slack == MUCH, self.is_recorded) {
                (Load::Nothing, _, false) => {
                    ("no change beyond the noise", Word::Holds, |was, is| {
                        (is.mean - was.mean).abs() <= was.noise(is)
                    })
                }
                // Few daemons move so seldom that there is nothing to judge.
                (Load::Nothing, _, true) => return row("migrations"),
                (Load::Cycles, false, is_recorded) => {
                    let word = if is_recorded { Word::Holds } else { FITTED_DAEMONS };
                    ("no more beyond the noise", word, |was, is| {
                        is.mean - was.mean <= was.noise(is)
                    })
                }
                (Load::Cycles, true, _) => ("at most 0.7 of before", Word::Holds, |was, is| {
                    is.mean <= MOST_LEFT * was.mean
                }),
                (Load::Hogs, ..) => {
                    return row("migrations, the same")
                        .judged_by(NEVER_IDLE, move |sides, _| nothing_differs(sides, before));
                }
            };
        row(&format!("migrations, {what}")).judged_by(word, move |sides, _| {
            let of = |side: usize| migrations(&sides[side]);
            kept(of(before), of(before + 1))
        })
    }
}

/// The migrations for each timer that expired.
fn by_timer(run: &Seen) -> f64 {
    all(run).migrations as f64 / all(run).timers.max(1) as f64
}

/// Whether the runs of a setting and of the next one are the same.
fn nothing_differs(sides: &Sides<'_, Seen>, before: usize) -> bool {
    let figures = |run: &&Seen| (all(run), daemons(run, BUSY), run.used.sum().busy());
    let of = |side: usize| sides[side].iter().map(figures).collect::<Vec<_>>();
    of(before) == of(before + 1)
}

/// The accounts of all tasks in one, and those of the daemons, which come after so many busy tasks.
fn all(run: &Seen) -> Account {
    run.used.account(0..usize::MAX)
}

fn daemons(run: &Seen, busy: u32) -> Account {
    run.used.account(busy as usize..usize::MAX)
}

/// The fraction of the timers that only the greedy walk ran.
fn greedily(account: Account) -> f64 {
    account.greedy as f64 / account.timers.max(1) as f64
}

/// The spread of a figure over the runs.
fn spread(runs: &[&Seen], of: impl Fn(&Seen) -> f64) -> Spread {
    Spread::of(&runs.iter().map(|run| of(run)).collect::<Vec<_>>())
}

/// The migrations a minute.
fn migrations(runs: &[&Seen]) -> Spread {
    a_minute(runs, all)
}

/// The migrations a minute in these accounts.
fn a_minute(runs: &[&Seen], of: impl Fn(&Seen) -> Account) -> Spread {
    spread(runs, |run| of(run).migrations as f64 * MINUTE.0 as f64 / run.used.span().0 as f64)
}

/// The means of the migrations, in the form of `perf stat -r`.
fn deviations(cases: &[Case], sides: &[Vec<Seen>]) -> String {
    let header = ["case", "published: before", "after", "here: before", "after", "of the daemons"];
    let mut text = table(&header, 1);
    let figure = |(mean, percent): (f64, f64)| format!("{mean:.0} +-{percent:.1}%");
    for (case, pair) in cases.iter().zip(sides.chunks(2)) {
        let busy = if case.load == Load::Nothing { 0 } else { BUSY };
        let pair = [0, 1].map(|side: usize| pair[side].iter().collect::<Vec<_>>());
        let here =
            pair.each_ref().map(|runs| migrations(runs)).map(|it| figure((it.mean, it.percent())));
        let [before, after] = pair.map(|runs| a_minute(&runs, |run| daemons(run, busy)).mean);
        let own = format!("{before:.0}, {after:.0}");
        let published = case.migrations.map(figure);
        text.add_row([case.name()].into_iter().chain(published).chain(here).chain([own]));
    }
    format!(
        "\nmigrations in 60 s, +- the standard deviation of the mean in per cent (as perf stat -r)\n{}\n",
        text.trim_fmt()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(at: usize) -> Case {
        Case { is_recorded: true, ..CASES[at] }
    }

    /// The slacks of the daemons of a case, in us.
    fn slacks(case: Case) -> Vec<u64> {
        let daemons = case.setting(1).scenario().unwrap().tasks.split_off(DAEMONS);
        daemons.iter().map(|it| it.properties.slack.unwrap().0 / 1_000).collect()
    }

    #[test]
    fn the_shipped_scenarios_are_cases() {
        for (case, name, file) in [
            (CASES[2], "greedy-timers.json", ASSUMED),
            (recorded(1), "recorded-timers.json", RECORDED),
        ] {
            let shipped = Setting::of(name, file).scenario().unwrap();
            let mut made = case.setting(1).scenario().unwrap();
            made.duration = shipped.duration;
            assert_eq!(format!("{made:?}"), format!("{shipped:?}"));
        }
    }

    #[test]
    fn recorded_timers_have_at_least_the_slack_of_the_case() {
        assert_eq!(slacks(recorded(1)), [100, 200, 200, 60_000, 60_000, 50]);
        assert_eq!(slacks(recorded(2)), [10_000, 10_000, 10_000, 60_000, 60_000, 10_000]);
    }

    #[test]
    fn the_cases_have_the_same_daemons() {
        for case in CASES {
            let scenario = case.setting(1).scenario().unwrap();
            let number = |tasks: &[TaskSpec]| tasks.iter().map(|task| task.instances).sum::<u32>();
            assert_eq!(number(&scenario.tasks[DAEMONS..]), 80);
            let busy = if case.load == Load::Nothing { 0 } else { BUSY };
            assert_eq!(number(&scenario.tasks[..DAEMONS]), busy, "{case:?}");
            let (all, least) = (slacks(case), case.slack.0 / 1_000);
            assert_eq!((all[0], all[9]), (least.max(100), least.max(6_300)));
        }
    }
}
