//! The situations in which shares are measured: the groups, the tasks and their behaviour. A situation is defined once
//! and run twice: as tasks of the runtime ([`super::shares`]), and as a scenario of the simulator
//! ([`super::expected`]).

use std::time::Duration;

/// Tasks that share one CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) name: &'static str,
    /// The groups; parents come before children.
    pub(super) groups: &'static [GroupOf],
    pub(super) parts: &'static [Part],
    /// Whether some part has less than a twentieth of the CPU, so that the run is longer.
    pub(super) has_small: bool,
}

/// Share below which a part needs a longer run, because it consists of few slices.
#[cfg(test)]
pub(super) const SMALL: f64 = 0.05;

/// A task group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupOf {
    pub(super) path: &'static str,
    pub(super) weight: u32,
    pub(super) limit: Option<LimitOf>,
}

/// The limit of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitOf {
    pub(super) percent: u32,
    pub(super) period: Duration,
}

/// Equal tasks, whose shares are summed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) tasks: u32,
    pub(super) does: Does,
    pub(super) nice: i8,
    /// The path of the group; `None` is the root.
    pub(super) group: Option<&'static str>,
}

/// The behaviour of a task, which it repeats for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Computes in one poll.
    Computes,
    /// Yields, and computes nothing.
    OnlyYields,
    /// Computes for this time, and yields.
    Yields(Duration),
    /// Computes for a time, and sleeps.
    Sleeps { computes: Duration, sleeps: Duration },
    /// Computes for this time, spawns a task that does the same, and ends. Each such task is also charged the switch
    /// from another task's poll. That is a fifth of 100 us on the runtime, and zero in the simulator.
    Spawns(Duration),
}

const fn part(name: &'static str, tasks: u32, does: Does) -> Part {
    Part { name, tasks, does, nice: 0, group: None }
}

const fn nice(nice: i8, part: Part) -> Part {
    Part { nice, ..part }
}

const fn within(group: &'static str, part: Part) -> Part {
    Part { group: Some(group), ..part }
}

const fn group(path: &'static str, weight: u32) -> GroupOf {
    GroupOf { path, weight, limit: None }
}

const fn limited(path: &'static str, percent: u32, period_ms: u64) -> GroupOf {
    let period = Duration::from_millis(period_ms);
    GroupOf { path, weight: 1_024, limit: Some(LimitOf { percent, period }) }
}

const fn yields(micros: u64) -> Does {
    Does::Yields(Duration::from_micros(micros))
}

const fn sleeps(computes_us: u64, sleeps_us: u64) -> Does {
    let [computes, sleeps] = [Duration::from_micros(computes_us), Duration::from_micros(sleeps_us)];
    Does::Sleeps { computes, sleeps }
}

const fn of(name: &'static str, parts: &'static [Part]) -> Situation {
    Situation { name, groups: &[], parts, has_small: false }
}

const fn small(situation: Situation) -> Situation {
    Situation { has_small: true, ..situation }
}

const fn grouped(groups: &'static [GroupOf], situation: Situation) -> Situation {
    Situation { groups, ..situation }
}

/// The behaviour of a task that yields after a short poll.
const SHORT: Does = yields(10);
/// Poll of a chain's task that is long compared with a switch. With polls of 1 ms all events of the simulator would
/// coincide with ticks, and a switch of 16 us more would add 0.4 points of the CPU. With this length it adds a tenth of
/// a point.
const LONG_LINK: Duration = Duration::from_micros(1_250);
const HOG: Part = part("hog", 1, Does::Computes);

/// All situations.
pub(super) const SITUATIONS: [Situation; 16] = [
    of("two hogs", &[part("first", 1, Does::Computes), part("second", 1, Does::Computes)]),
    small(of(
        "two hogs, 1,000 that only yield",
        &[part("hogs", 2, Does::Computes), part("yielders", 1_000, Does::OnlyYields)],
    )),
    small(of(
        "two hogs, 1,000 that yield after 10 us",
        &[part("hogs", 2, Does::Computes), part("yielders", 1_000, SHORT)],
    )),
    small(of(
        "one of 10 ms polls, 100 of 10 us",
        &[part("long polls", 1, yields(10_000)), part("short polls", 100, SHORT)],
    )),
    of("a yielder of nice 5, a hog", &[nice(5, part("yielder", 1, Does::OnlyYields)), HOG]),
    of("a yielder of nice -5, a hog", &[nice(-5, part("yielder, 10 us", 1, SHORT)), HOG]),
    of("five yielders, a hog of nice 5", &[part("yielders, 10 us", 5, SHORT), nice(5, HOG)]),
    small(of(
        "a chain of spawns, a hog",
        &[part("chain, 100 us", 1, Does::Spawns(Duration::from_micros(100))), HOG],
    )),
    of(
        "a chain of spawns of 1.25 ms, a hog",
        &[part("chain, 1.25 ms", 1, Does::Spawns(LONG_LINK)), HOG],
    ),
    of(
        "sleepers, ten yielders",
        &[part("sleepers", 3, sleeps(300, 1_700)), part("yielders, 10 us", 10, SHORT)],
    ),
    of(
        "rare sleepers, 20 yielders",
        &[part("sleepers", 2, sleeps(5_000, 50_000)), part("yielders, 10 us", 20, SHORT)],
    ),
    of(
        "weights by nice",
        &[
            nice(-5, part("yielder, -5", 1, SHORT)),
            part("yielders, 0", 2, SHORT),
            nice(3, part("hog, 3", 1, Does::Computes)),
            nice(5, part("yielder, 5", 1, SHORT)),
        ],
    ),
    grouped(
        &[group("/two", 2_048), group("/one", 1_024), group("/half", 512)],
        of(
            "weights by groups",
            &[
                within("/two", part("2,048: yielders", 2, SHORT)),
                within("/one", part("1,024: hog", 1, Does::Computes)),
                within("/half", part("512: hogs", 2, Does::Computes)),
                part("/: yielder", 1, SHORT),
            ],
        ),
    ),
    grouped(
        &[limited("/30", 30, 100), limited("/60", 60, 100)],
        of(
            "limits in 100 ms, hogs",
            &[
                within("/30", part("30 %", 2, Does::Computes)),
                within("/60", part("60 %", 2, Does::Computes)),
            ],
        ),
    ),
    grouped(
        &[limited("/30", 30, 10), limited("/60", 60, 10)],
        of(
            "limits in 10 ms, polls of 10 us",
            &[within("/30", part("30 %", 2, SHORT)), within("/60", part("60 %", 2, SHORT))],
        ),
    ),
    grouped(
        &[group("/a", 1_024), group("/a/x", 1_024), group("/a/y", 3_072), group("/b", 512)],
        of(
            "nested groups",
            &[
                within("/a/x", part("/a/x: hogs", 2, Does::Computes)),
                within("/a/y", part("/a/y: yielders", 3, SHORT)),
                within("/b", part("/b: hog", 1, Does::Computes)),
                part("/: yielder", 1, SHORT),
            ],
        ),
    ),
];

impl Situation {
    /// Returns whether limits leave a part of the CPU unused, so that a share is one of the CPU and not of the total
    /// use.
    pub(super) fn is_limited(&self) -> bool {
        self.groups.iter().any(|group| group.limit.is_some())
    }

    /// Returns the number of tasks at any time.
    pub(super) fn tasks(&self) -> u32 {
        self.parts.iter().map(|part| part.tasks).sum()
    }
}

impl GroupOf {
    /// Returns the path of the parent group, if any.
    pub(super) fn parent(&self) -> Option<&'static str> {
        self.path.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())
    }

    /// Returns the last component of the path.
    pub(super) fn name(&self) -> &'static str {
        self.path.rsplit_once('/').map_or(self.path, |(_, name)| name)
    }
}
