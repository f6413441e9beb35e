//! The occupancy of the CPUs, for a timeline of the whole run: a lane for each of the first [`LANES`] CPUs.
//!
//! A lane is a list of *spans* without gaps: idle, forced idle, the scheduler's work, a task. All spans are kept while
//! there are no more than [`MOST_SPANS`]. With more, only *switches* are kept: work of the scheduler that returns to
//! the same task, such as a tick, becomes part of the task's span. If there are still too many, spans are *folded*:
//! time is cut into cells of 2^n nanoseconds, and neighbours in the same cell become one span that is marked. A folded
//! span has the beginning and the end, the activity with the largest part, the number of spans, and the busy time. A
//! span longer than a cell stays. When there are too many again, cells become wider. Spans near one of the longest
//! waits of the run, or of its task, are not folded, since a reader will look there. Such a wait is known when it ends,
//! long before its spans are folded.
//!
//! Rejected: only the first spans of a run (the latest wake-up is seldom there); samples at fixed moments (they miss
//! shorter spans); a tree of summaries for each zoom (a browser makes any zoom of a million spans within a frame).
//!
//! Invariants: the spans of a lane follow each other without a gap, from the beginning to the end of the latest one.
//! Folding moves no end of a span that is longer than a cell. Busy time is the same before and after.

use crate::account::Doing;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use std::ops::Range;

/// The number of CPUs with a lane. More would leave a page no room for what they did.
pub(crate) const LANES: usize = 1_024;

/// The largest number of spans: five for each of a million switches; a switch without interrupts has two or three. A
/// span takes 16 bytes.
const MOST_SPANS: usize = 5_000_000;

/// The cells of the first folding: 2^12 ns, about the time of a switch to a task and back.
const FIRST_SHIFT: u32 = 12;

/// Cells as wide as 2^30 ns, a second, also fold spans near long waits: otherwise there are too many spans left.
const LAST_SPARING_SHIFT: u32 = 30;

/// The number of the longest waits of a run whose surroundings are spared.
const LONGEST: usize = 10;

/// The occupant of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// None.
    Idle,
    /// None, since the waiting tasks have another cookie than the core.
    Forced,
    /// The scheduler.
    Scheduler,
    /// This task, by its number.
    Task(u32),
}

/// A span of a lane; it begins where the one before it ends.
#[derive(Clone, Copy, Debug)]
struct Kept {
    end: Time,
    who: Who,
    /// The index of a folded span's details plus 1; 0 for any other span.
    folded: u32,
}

/// The details of a folded span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folded {
    /// The number of its parts.
    pub(crate) parts: u64,
    /// The time that the CPU was not idle.
    pub(crate) busy: Nanos,
    /// The time of the occupant with the largest part.
    most: Nanos,
}

/// A span in the form for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) time: Range<Time>,
    pub(crate) who: Who,
    /// The details, if it stands for several spans.
    pub(crate) folded: Option<Folded>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    spans: Vec<Kept>,
    folded: Vec<Folded>,
}

/// The lanes of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    count: usize,
    most: usize,
    /// Whether only switches are kept.
    switches: bool,
    /// The width of the cells, once a span was folded.
    shift: Option<u32>,
    /// The longest waits of the run, and the surroundings of these and of the tasks' longest waits.
    longest: Vec<Nanos>,
    spared: Vec<Range<Time>>,
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes::with_room_for(MOST_SPANS)
    }

    /// Lanes of at most `most` spans.
    fn with_room_for(most: usize) -> Lanes {
        Lanes { lanes: Vec::new(), count: 0, most, ..Lanes::default() }
    }

    /// Adds a span in which a CPU did `doing`. The spans of a CPU come in order and without a gap.
    #[inline]
    pub(crate) fn add(&mut self, cpu: CpuId, doing: Doing, span: Range<Time>) {
        let cpu = cpu.index();
        if cpu >= LANES || span.start >= span.end {
            return;
        }
        if cpu >= self.lanes.len() {
            self.lanes.resize_with(cpu + 1, Lane::default);
        }
        let who = match doing {
            Doing::Idle => Who::Idle,
            Doing::Forced { .. } => Who::Forced,
            Doing::Overhead => Who::Scheduler,
            Doing::Exec { task, .. } => Who::Task(task_number(task)),
        };
        let spans = &mut self.lanes[cpu].spans;
        debug_assert_eq!(spans.last().map_or(Time::ZERO, |last| last.end), span.start, "no gap");
        if self.switches && comes_back(spans, who) {
            spans.pop();
            self.count -= 1;
        }
        match spans.last_mut() {
            Some(last) if last.who == who && last.folded == 0 => last.end = span.end,
            _ => {
                spans.push(Kept { end: span.end, who, folded: 0 });
                self.count += 1;
            }
        }
        if self.count > self.most {
            self.make_room();
        }
    }

    /// Notes a wait of this length, if it may be among the longest of the run, or is the longest of its task. Its
    /// surroundings will not be folded.
    #[inline]
    pub(crate) fn waited(&mut self, wait: Range<Time>, is_longest_of_task: bool) {
        let long = wait.end.since(wait.start);
        let is_long = self.longest.len() < LONGEST || self.longest.iter().any(|&it| it < long);
        if is_long || is_longest_of_task {
            self.spare(wait, is_long);
        }
    }

    #[cold]
    fn spare(&mut self, wait: Range<Time>, is_long: bool) {
        let long = wait.end.since(wait.start);
        if is_long {
            self.longest.push(long);
            self.longest.sort_unstable_by_key(|&it| std::cmp::Reverse(it));
            self.longest.truncate(LONGEST);
        }
        let near = Nanos(long.0 / 2);
        self.spared.push(Time(wait.start.0.saturating_sub(near.0))..wait.end + near);
    }

    /// Turns the spared ranges into a list in order of time, without overlaps.
    fn unite_spared(&mut self) {
        let mut all = std::mem::take(&mut self.spared);
        all.sort_unstable_by_key(|range| range.start);
        for range in all {
            match self.spared.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.spared.push(range),
            }
        }
    }

    /// Keeps only switches from now on, and reduces the present spans to switches.
    #[cold]
    pub(crate) fn keep_switches(&mut self) {
        if !std::mem::replace(&mut self.switches, true) {
            self.lanes.iter_mut().for_each(Lane::keep_switches);
            self.count = self.lanes.iter().map(|lane| lane.spans.len()).sum();
        }
    }

    /// Without interrupts there may be enough room for a long time.
    #[cold]
    fn make_room(&mut self) {
        self.keep_switches();
        if self.count > self.most / 4 * 3 {
            self.fold_to(self.most / 2);
        }
    }

    /// Folds more and more until at most `most` spans are left, or each lane is one span.
    #[cold]
    pub(crate) fn fold_to(&mut self, most: usize) {
        self.keep_switches();
        // The spans since the last time are not folded yet.
        let mut shift = self.shift.unwrap_or(FIRST_SHIFT);
        self.unite_spared();
        while self.count > most.max(self.lanes.len()) && shift < u64::BITS {
            self.shift = Some(shift);
            let spared = if shift < LAST_SPARING_SHIFT { &self.spared[..] } else { &[] };
            self.lanes.iter_mut().for_each(|lane| *lane = lane.fold(shift, spared));
            self.count = self.lanes.iter().map(|lane| lane.spans.len()).sum();
            shift += 1;
        }
    }

    /// The width of the cells in which spans were folded; `None` if none was.
    pub(crate) fn cell(&self) -> Option<Nanos> {
        self.shift.map(|shift| Nanos(1 << shift))
    }

    /// Whether work of the scheduler that returned to the same task is part of the task's span.
    pub(crate) fn has_only_switches(&self) -> bool {
        self.switches
    }

    /// The number of spans.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The spans of each lane, from CPU 0 to the last CPU with any activity.
    pub(crate) fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = Span>> {
        self.lanes.iter().map(Lane::iter)
    }
}

impl Lane {
    fn iter(&self) -> impl Iterator<Item = Span> {
        let mut begin = Time::ZERO;
        self.spans.iter().map(move |kept| {
            let begin = std::mem::replace(&mut begin, kept.end);
            Span { time: begin..kept.end, who: kept.who, folded: self.of(kept) }
        })
    }

    fn of(&self, kept: &Kept) -> Option<Folded> {
        (kept.folded as usize).checked_sub(1).map(|at| self.folded[at])
    }

    fn keep_switches(&mut self) {
        let mut kept: Vec<Kept> = Vec::with_capacity(self.spans.len() / 2);
        for span in &self.spans {
            if comes_back(&kept, span.who) {
                kept.pop();
                kept.last_mut().expect("it came back to somebody").end = span.end;
            } else {
                kept.push(*span);
            }
        }
        self.spans = kept;
    }

    /// The lane with neighbours joined that lie in one cell of 2^shift nanoseconds, outside of the spared ranges.
    fn fold(&self, shift: u32, spared: &[Range<Time>]) -> Lane {
        let mut lane = Lane::default();
        let cell = |span: &Span| {
            let next = spared.partition_point(|range| range.end <= span.time.start);
            if spared.get(next).is_some_and(|range| range.start < span.time.end) {
                return None;
            }
            let (first, last) = (span.time.start.0 >> shift, (span.time.end.0 - 1) >> shift);
            (first == last).then_some(first)
        };
        let mut near: Vec<Span> = Vec::new();
        for span in self.iter() {
            let joins = near.first().is_some_and(|first| {
                let own = cell(&span);
                own.is_some() && own == cell(first)
            });
            if !joins {
                lane.push(&near);
                near.clear();
            }
            near.push(span);
        }
        lane.push(&near);
        lane
    }

    /// Adds these neighbours as one.
    fn push(&mut self, near: &[Span]) {
        let Some(last) = near.last() else { return };
        let (who, folded) = match near {
            [one] => (one.who, one.folded),
            several => {
                let (who, folded) = merge(several);
                (who, Some(folded))
            }
        };
        self.folded.extend(folded);
        let folded = folded.map_or(0, |_| self.folded.len());
        let folded = u32::try_from(folded).expect("there are fewer than were kept");
        self.spans.push(Kept { end: last.time.end, who, folded });
    }
}

/// Whether `who` had the CPU before the scheduler's last span.
fn comes_back(spans: &[Kept], who: Who) -> bool {
    let plain = |kept: &Kept, it: Who| kept.who == it && kept.folded == 0;
    match spans {
        [.., before, last] => {
            matches!(who, Who::Task(_)) && plain(last, Who::Scheduler) && plain(before, who)
        }
        _ => false,
    }
}

/// The occupant with the largest part of several spans, and their details.
fn merge(spans: &[Span]) -> (Who, Folded) {
    let mut shares: Vec<(Who, u64)> = Vec::new();
    let (mut parts, mut busy) = (0, Nanos::ZERO);
    for Span { time, who, folded } in spans {
        let long = time.end.since(time.start);
        let idle = matches!(who, Who::Idle | Who::Forced);
        let alone = Folded { parts: 1, busy: if idle { Nanos::ZERO } else { long }, most: long };
        let it = folded.unwrap_or(alone);
        parts += it.parts;
        busy += it.busy;
        match shares.iter_mut().find(|share| share.0 == *who) {
            Some(share) => share.1 += it.most.0,
            None => shares.push((*who, it.most.0)),
        }
    }
    // Of two equal parts the task's counts, since readers look for tasks.
    let most = shares.into_iter().max_by_key(|&(who, ns)| (ns, who)).expect("there are some");
    (most.0, Folded { parts, busy, most: Nanos(most.1) })
}

fn task_number(task: TaskId) -> u32 {
    u32::try_from(task.index()).expect("tasks are numbered from 0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::{Nice, Policy};

    const CPU: CpuId = CpuId(1);

    fn exec(task: u64) -> Doing {
        Doing::Exec { task: TaskId(task), policy: Policy::Normal(Nice::default()) }
    }

    /// Lanes in which CPU 1 had these activities, each for the given time.
    fn lanes(most: usize, did: &[(Doing, u64)]) -> Lanes {
        let mut lanes = Lanes::with_room_for(most);
        let mut now = Time::ZERO;
        for &(doing, ns) in did {
            lanes.add(CPU, doing, now..now + Nanos(ns));
            now = now + Nanos(ns);
        }
        lanes
    }

    fn spans(lanes: &Lanes) -> Vec<Span> {
        lanes.iter().nth(1).unwrap().collect()
    }

    #[test]
    fn few_spans_stay_as_they_were() {
        let lanes = lanes(4, &[(Doing::Idle, 7), (exec(3), 5), (exec(3), 2), (Doing::Overhead, 1)]);
        let told: Vec<_> =
            spans(&lanes).into_iter().map(|it| (it.who, it.time.start.0, it.time.end.0)).collect();
        let expected = [(Who::Idle, 0, 7), (Who::Task(3), 7, 14), (Who::Scheduler, 14, 15)];
        assert_eq!((told.as_slice(), lanes.cell()), (&expected[..], None), "two of a task are one");
    }

    #[test]
    fn interrupts_go_before_switches_do() {
        let did = [
            (exec(1), 1_000_000),
            (Doing::Overhead, 500),
            (exec(1), 999_500),
            (Doing::Overhead, 700),
        ];
        let mut lanes = lanes(100, &[&did[..], &[(exec(2), 9)], &did, &[(exec(1), 3)]].concat());
        assert_eq!(spans(&lanes).len(), 10);
        lanes.keep_switches();
        let told: Vec<_> = spans(&lanes).into_iter().map(|it| (it.who, it.time.end.0)).collect();
        let expected = [
            (Who::Task(1), 2_000_000),
            (Who::Scheduler, 2_000_700),
            (Who::Task(2), 2_000_709),
            (Who::Task(1), 4_001_412),
        ];
        assert_eq!(told, expected);
        lanes.add(CPU, Doing::Overhead, Time(4_001_412)..Time(4_001_500));
        lanes.add(CPU, exec(1), Time(4_001_500)..Time(4_001_501));
        assert_eq!((spans(&lanes).len(), lanes.len()), (4, 4), "also of what comes");
    }

    #[test]
    fn neighbours_in_a_cell_become_one() {
        let short =
            [(exec(1), 1_000), (Doing::Overhead, 500), (exec(2), 1_500), (Doing::Idle, 1_000)];
        let long = (exec(4), 9_000);
        let lanes = lanes(4, &[&short[..], &[long], &[(Doing::Overhead, 10)]].concat());
        let told = spans(&lanes);
        assert_eq!(lanes.cell(), Some(Nanos(4_096)));
        assert_eq!(told.len(), 3);
        let Folded { parts, busy, most } = told[0].folded.unwrap();
        assert_eq!((told[0].who, told[0].time.end), (Who::Task(2), Time(4_000)));
        assert_eq!((parts, busy, most), (4, Nanos(3_000), Nanos(1_500)));
        assert_eq!((told[1].who, told[1].time.clone()), (Who::Task(4), Time(4_000)..Time(13_000)));
        assert_eq!(told[1].folded, None, "what is longer than a cell is itself");
    }

    #[test]
    fn what_is_near_a_long_wait_is_not_folded() {
        let did: Vec<_> =
            (0..4_000).flat_map(|at| [(exec(at % 3), 60), (Doing::Overhead, 40)]).collect();
        let mut lanes = Lanes::with_room_for(20_000);
        for wait in (1..=20).rev() {
            lanes.waited(Time(wait * 1_000)..Time(wait * 1_000 + wait), false);
        }
        lanes.waited(Time(200_000)..Time(200_002), true);
        let mut now = Time::ZERO;
        for (doing, ns) in did {
            lanes.add(CPU, doing, now..now + Nanos(ns));
            now = now + Nanos(ns);
        }
        lanes.fold_to(400);
        let told = spans(&lanes);
        let at = |at: u64| {
            let span = told.iter().find(|it| it.time.contains(&Time(at))).unwrap();
            span.folded.is_none()
        };
        assert!((11..=20).all(|wait| at(wait * 1_000)), "the ten longest of the run");
        assert!((1..=9).any(|wait| !at(wait * 1_000)) && at(200_001) && !at(201_000));
        lanes.fold_to(1);
        assert_eq!(spans(&lanes).len(), 1, "there is an end to that");
    }

    #[test]
    fn busy_time_outlasts_folding() {
        let mut did = Vec::new();
        let mut busy = 0;
        for round in 0..20_000_u64 {
            let (run, rest) = (300 + round * 37 % 5_000, 100 + round * 91 % 3_000);
            did.extend([(exec(round % 5), run), (Doing::Overhead, 90), (Doing::Idle, rest)]);
            busy += run + 90;
        }
        let lanes = lanes(1_000, &did);
        let told = spans(&lanes);
        assert!(told.len() <= 1_000, "{}", told.len());
        let sum = |part: fn(&Span) -> u64| told.iter().map(part).sum::<u64>();
        let own = sum(|it| match (it.folded, it.who) {
            (Some(folded), _) => folded.busy.0,
            (None, Who::Idle) => 0,
            (None, _) => it.time.end.0 - it.time.start.0,
        });
        assert_eq!(own, busy);
        assert_eq!(sum(|it| it.folded.map_or(1, |folded| folded.parts)), 60_000);
        let gaps = told.windows(2).filter(|pair| pair[0].time.end != pair[1].time.start).count();
        assert_eq!(gaps, 0);
    }
}
