//! The effect of a limit: the group gets exactly its budget, on any CPUs, at each level of task groups.
//!
//! The document has no figures for this. A group that can use its whole budget uses it, to one per cent over ten
//! seconds. Before, with a feature switched off, it gets the amount that is due to it then.

use crate::figure::{percent, rounded};
use crate::rows::{Row, Word};
use crate::setting::{Part, Seen, Setting, of_run};
use crate::usage::{SECOND, Window};
use runyard_engine::features::Feature;
use runyard_engine::time::Nanos;
use std::ops::Range;

/// The largest difference between a figure and the due amount, as a fraction of that amount.
const MAX_DIFFERENCE: f64 = 0.01;

/// The counted time: ten seconds, after one second in which the tasks settle. Both are whole periods of each limit
/// here.
pub(super) const WINDOW: Window = Window::of_seconds(SECOND, 10);

/// The period of most limits.
pub(super) const PERIOD: Nanos = Nanos::from_millis(100);

/// A machine with task groups of hogs. Some of the groups are limited.
struct Case {
    name: &'static str,
    cpus: u32,
    /// The feature that is off before.
    without: Feature,
    /// The groups, in the language of scenarios.
    groups: &'static str,
    hogs: &'static [Hogs],
    /// The period, if the use in each period is checked as well. The groups' own periods begin up to a sixteenth later
    /// than the counted periods. For hogs this makes no difference: they use their budget at the beginning of each period.
    each_period: Option<Nanos>,
}

/// A group, the number of its hogs, and the due amount of the machine, in CPUs, before and after.
type Hogs = (&'static str, u32, [f64; 2]);

/// A group whose budget its children use, with two children.
const HALF_WITH_20_AND_60: &str = "
    '/half': {'runtime': 50000, 'period': 100000},
    '/half/20': {'runtime': 20000, 'period': 100000}, '/half/60': {'runtime': 60000, 'period': 100000}";

const LIMITS: Case = Case {
    name: "",
    cpus: 24,
    without: Feature::HardLimits,
    groups: "",
    hogs: &[],
    each_period: None,
};

const CASES: [Case; 9] = [
    Case {
        name: "48 hogs, 450 of 500 ms on each of 24 CPUs",
        groups: "'/limited': {'runtime': 450000, 'period': 500000, 'per_cpu': true}",
        hogs: &[("/limited", 48, [24.0, 21.6])],
        each_period: Some(Nanos::from_millis(500)),
        ..LIMITS
    },
    Case {
        name: "7 hogs, 90 of 100 ms on 24 CPUs",
        groups: "'/limited': {'runtime': 90000, 'period': 100000}",
        hogs: &[("/limited", 7, [7.0, 0.9])],
        each_period: Some(PERIOD),
        ..LIMITS
    },
    Case {
        name: "1 hog, 10 of 100 ms on each of 24 CPUs, borrowing",
        without: Feature::RuntimeShare,
        groups: "'/limited': {'runtime': 10000, 'period': 100000, 'per_cpu': true}",
        hogs: &[("/limited", 1, [0.1, 1.0])],
        ..LIMITS
    },
    Case {
        name: "60 % below 50 %",
        groups: "
    '/half': {'runtime': 50000, 'period': 100000}, '/half/60': {'runtime': 60000, 'period': 100000}",
        hogs: &[("/half/60", 1, [1.0, 0.5])],
        ..LIMITS
    },
    Case {
        name: "two of 40 % below 50 %",
        groups: "
    '/half': {'runtime': 50000, 'period': 100000},
    '/half/one': {'runtime': 40000, 'period': 100000}, '/half/other': {'runtime': 40000, 'period': 100000}",
        hogs: &[("/half/one", 1, [1.0, 0.25]), ("/half/other", 1, [1.0, 0.25])],
        ..LIMITS
    },
    Case {
        name: "20 % beside 60 % below 50 %",
        groups: HALF_WITH_20_AND_60,
        hogs: &[("/half/20", 1, [1.0, 0.2]), ("/half/60", 1, [1.0, 0.3])],
        ..LIMITS
    },
    Case {
        name: "20 % beside 60 % below 50 %, all on one CPU",
        cpus: 1,
        groups: HALF_WITH_20_AND_60,
        hogs: &[("/half/20", 1, [0.5, 0.2]), ("/half/60", 1, [0.5, 0.3])],
        ..LIMITS
    },
    Case {
        name: "1 hog, 90 of 100 ms on 256 CPUs",
        cpus: 256,
        groups: "'/limited': {'runtime': 90000, 'period': 100000}",
        hogs: &[("/limited", 1, [1.0, 0.9])],
        each_period: Some(PERIOD),
        ..LIMITS
    },
    Case {
        name: "1 hog, 1 ms of 1 s on each of 256 CPUs, borrowing",
        cpus: 256,
        without: Feature::RuntimeShare,
        groups: "'/limited': {'runtime': 1000, 'period': 1000000, 'per_cpu': true}",
        hogs: &[("/limited", 1, [0.001, 0.256])],
        each_period: Some(SECOND),
    },
];

/// The names of the cases on machines of the document's size or smaller.
pub(super) fn small() -> Vec<&'static str> {
    CASES.iter().filter(|case| case.cpus <= super::CPUS).map(|case| case.name).collect()
}

/// All cases, and tasks that stay below their limit.
pub(super) fn parts(seed: u64) -> Vec<Part> {
    CASES.iter().map(|case| case.part(seed)).chain([below(seed)]).collect()
}

impl Case {
    fn part(&self, seed: u64) -> Part {
        let hogs = self.hogs.iter().map(|&(group, hogs, _)| (group, hogs));
        let setting = of_hogs(self.cpus, self.groups, hogs).seeds([seed]);
        let setting = setting.window(WINDOW, self.each_period.unwrap_or(PERIOD));
        let mut rows = Vec::new();
        let mut first = 0;
        for &(group, hogs, due) in self.hogs {
            let tasks = first..first + hogs as usize;
            first = tasks.end;
            rows.push(has(group, tasks, due));
        }
        if let Some(period) = self.each_period {
            let budget = self.hogs[0].2[1] * period.0 as f64;
            let part = move |run: &Seen| run.used.most().0 as f64 / budget;
            let most =
                of_run("the most in a period", "% of the runtime", move |run| percent(part(run)));
            rows.push(
                most.after(1).judged_by(Word::Holds, move |sides, _| {
                    part(sides[1][0]) <= 1.0 + MAX_DIFFERENCE
                }),
            );
        }
        let without = setting.clone().feature(self.without, false);
        Part::new(self.name, vec![without, setting], rows)
    }
}

/// The time of tasks of a group, as a number of CPUs: what is due to them before and after, to one per cent.
pub(super) fn has(group: &str, tasks: Range<usize>, due: [f64; 2]) -> Row<Seen> {
    let all = tasks.clone();
    let row =
        of_run(format!("{group} has"), "CPUs", move |run| rounded(run.used.cpus(all.clone()), 4));
    row.judged_by(Word::Holds, move |sides, _| {
        (0..2).all(|side: usize| is_near(sides[side][0].used.cpus(tasks.clone()), due[side]))
    })
}

/// Whether tasks had the amount that is due to them.
fn is_near(had: f64, due: f64) -> bool {
    (had - due).abs() <= due * MAX_DIFFERENCE
}

/// A task group that wants most of its budget, in short pieces on many CPUs, and all of it in no period: 48 tasks of 1
/// ms every 10 ms. Each may begin eleven times in 100 ms. It is never throttled: the budget that one CPU drew returns to
/// the other CPUs when the group leaves that CPU.
fn below(seed: u64) -> Part {
    const BUDGET: Nanos = Nanos::from_millis(530);
    let groups = "'/limited': {'runtime': 530000, 'period': 100000}";
    let tasks = "'task': {'instance': 48, 'group': '/limited', 'delay': {'uniform': [0, 10000]},
                          'timer': {'ref': 'unique', 'period': 10000, 'mode': 'absolute'}, 'run': 1000}";
    let setting = of_tasks(24, groups, tasks).window(WINDOW, PERIOD).seeds([seed]);
    let throttled = of_run("throttled", "times", |run| run.used.throttled as f64);
    // A workload that reaches its limit does not fit this row.
    let never = throttled.after(0).judged_by(Word::Holds, |sides, [_, throttled]| {
        throttled == 0.0 && sides[0][0].used.most() < BUDGET
    });
    let have = of_run("have", "CPUs", |run| rounded(run.used.cpus(0..48), 4));
    let all =
        have.after(0).judged_by(Word::Holds, |sides, _| is_near(sides[0][0].used.cpus(0..48), 4.8));
    let rows = vec![never, all];
    Part::new("48 periodic tasks, never more than 530 of 100 ms", vec![setting], rows)
}

/// A row that holds on any machine: the tasks of a limited group, and the amount due to them, in CPUs.
pub(super) struct Held {
    pub(super) what: &'static str,
    pub(super) tasks: Range<usize>,
    pub(super) due: f64,
}

/// The rows about [`scenario_of`].
pub(super) const HELD: [Held; 2] = [
    Held { what: "30 of 100 ms", tasks: 0..2, due: 0.3 },
    Held { what: "40 of 100 ms below 20", tasks: 2..4, due: 0.2 },
];

/// Two hogs in a limited task group, two hogs in a group that its parent limits, and one hog without a limit for each
/// CPU.
pub(super) fn scenario_of(cpus: u32) -> Setting {
    let groups = "
        '/held': {'runtime': 20000, 'period': 100000}, '/held/more': {'runtime': 40000, 'period': 100000},
        '/limited': {'runtime': 30000, 'period': 100000}, '/free': {}";
    of_hogs(cpus, groups, [("/limited", 2), ("/held/more", 2), ("/free", cpus)].into_iter())
}

/// A scenario with these groups, and with so many hogs in some of them.
fn of_hogs<'g>(cpus: u32, groups: &str, hogs: impl Iterator<Item = (&'g str, u32)>) -> Setting {
    let hogs = hogs.enumerate().map(|(nth, (group, hogs))| {
        format!("'hog-of-{nth}': {{'instance': {hogs}, 'group': '{group}', 'run': 1000}}, ")
    });
    of_tasks(cpus, groups, &hogs.collect::<String>())
}

/// A scenario with these groups and tasks.
fn of_tasks(cpus: u32, groups: &str, tasks: &str) -> Setting {
    let machine =
        format!("{{'cpus': {cpus}, 'kernel': '6.1 + founding', 'costs': {{'jitter_ns': 0}}}}");
    let text = format!(
        "{{'machine': {machine}, 'global': {{'duration': 11}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"
    );
    Setting::of("limits.json", &text)
}
