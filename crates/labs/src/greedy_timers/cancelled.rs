//! A model of timers that are cancelled in time: whether the greedy walk then saves wake-ups or costs some.
//!
//! The model has the engine's timer queue of one CPU, and nothing else: no tick, no task. The CPU is busy and idle in
//! turn, independent of its timers. Timers are armed at random moments. The model counts the demands of each walk on
//! the CPU: interrupts while it is busy, interrupts of its sleep, and timers that are run.
//!
//! The document hopes that a timer which keeps others waiting "could be deleted before it expires". But a timer that is
//! run early can no longer be cancelled itself. Such a run is *needless* if the timer would have been cancelled before
//! it closed. So the moment of the cancellation matters:
//! * *before* the timer opens, like the timeout of an operation that soon succeeds: no walk ever runs it;
//! * *inside* its window, like the timeout of an operation that takes a little longer than expected.
//!
//! With equal slacks an interrupt takes all open timers, so the interrupts are the fewest that hit all windows. The
//! greedy walk leaves fewer windows to be hit and cannot need more interrupts. With different slacks this is measured,
//! not proven.

use crate::rows::Row;
use crate::setting::{Part, Seen};
use rayon::prelude::*;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{TimerQueue, Token, Window};
use runyard_report::table;
use runyard_workload::draw::{Draw, Stream, below, stream};

/// The times for which the CPU is busy and idle: the cycle of the document's tasks.
const BUSY: Draw = Draw::Uniform(Nanos::from_micros(3_900), Nanos::from_micros(4_100));
const IDLE: Draw = Draw::Exponential(Nanos::from_millis(1));

/// The number of timers, the time between two of them, and the time until one opens.
const TIMERS: usize = 10_000;
const APART: Draw = Draw::Exponential(Nanos::from_millis(2));
const AHEAD: Draw = Draw::Uniform(Nanos::from_millis(1), Nanos::from_millis(20));

/// The slack of every other timer in runs with different slacks.
const LITTLE: Nanos = Nanos::from_micros(50);

/// The slacks of the timers: all the same, or every other timer with [`LITTLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slack {
    most: Nanos,
    mixed: bool,
}

const fn slack(most: Nanos, mixed: bool) -> Slack {
    Slack { most, mixed }
}

/// The document's large slack, for all timers and for half of them.
const SAME: Slack = slack(Nanos::from_millis(10), false);
const MIXED: Slack = slack(Nanos::from_millis(10), true);

const SLACKS: [Slack; 7] = [
    slack(LITTLE, false),
    slack(Nanos::from_millis(1), false),
    SAME,
    slack(Nanos::from_millis(100), false),
    slack(Nanos::from_millis(1), true),
    MIXED,
    slack(Nanos::from_millis(100), true),
];

/// The shown shares of cancelled timers, in per cent.
const SHARES: [u64; 6] = [0, 10, 25, 50, 75, 90];
const HALF: u64 = 50;

/// With the greedy walk and a slack of 10 ms there is at most one of so many interrupts: most timers are run on an idle
/// CPU.
const MOST_PARTS: f64 = 10.0;

/// The distance of the shares with results, in per cent.
const STEP: u64 = 5;

/// The moment of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    Inside,
}

/// The results for one kind of slack, of each share that is a multiple of [`STEP`].
#[derive(Clone, Debug)]
struct Kind {
    slack: Slack,
    /// The results for timers cancelled before they open, and inside their windows.
    before: Vec<Both>,
    inside: Vec<Both>,
}

/// The results of both walks for the same timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Both {
    regular: Tally,
    greedy: Tally,
}

/// The results of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// The interrupts of a busy CPU, and of an idle one.
    busy: u64,
    idle: u64,
    /// The timers that were run although they would have been cancelled before they closed.
    needless: u64,
}

/// The model with the greedy walk; without it both walks are the regular one.
pub(super) fn part(greedy: bool) -> Part {
    let kinds: Vec<_> = SLACKS.into_par_iter().map(|slack| Kind::of(slack, greedy)).collect();
    Part::new("", Vec::new(), rows(&kinds)).text(move |_| text(&kinds))
}

/// The rows about the document's large slack, for all timers and for half of them. They need no runs.
fn rows(kinds: &[Kind]) -> Vec<Row<Seen>> {
    let kind = |slack| kinds.iter().find(|kind| kind.slack == slack).expect("it is a slack");
    let (same, mixed, none, half) = (kind(SAME), kind(MIXED), at(0), at(HALF));
    // With different slacks the walk has never more interrupts in this model, but not by necessity.
    let never_more = kinds
        .iter()
        .filter(|kind| !kind.slack.mixed)
        .all(|kind| kind.before.iter().chain(&kind.inside).all(|both| both.saved() >= 0));
    let few = move |regular: f64, greedy: f64| never_more && greedy * MOST_PARTS <= regular;
    let unblocked = mixed.before[half].saved() > mixed.before[none].saved();
    let inside = same.inside[half];
    let needless = [inside.regular, inside.greedy].map(|it| Some(it.needless));
    vec![
        interrupts("slack 10 ms, none cancelled, at most a tenth", same.before[none]).holds(few),
        interrupts(
            "slack 10 ms or 50 us, half cancelled before, more saved than with none",
            mixed.before[half],
        )
        .holds(move |_, _| unblocked),
        interrupts("slack 10 ms, half cancelled inside, at most a tenth", inside).holds(few),
        row("slack 10 ms, half cancelled inside, run needlessly", "timers", needless),
        row(
            "slack 10 ms: cancelled inside, from which more is needless than saved",
            "%",
            [None, same.dear()],
        ),
    ]
}

fn interrupts(what: &str, Both { regular, greedy }: Both) -> Row<Seen> {
    row(what, "interrupts", [regular, greedy].map(|it| Some(it.interrupts())))
}

fn row(what: &str, unit: &'static str, figures: [Option<u64>; 2]) -> Row<Seen> {
    let figures = figures.map(|figure| figure.map(|figure| figure as f64));
    Row::beside(format!("one CPU, {what}"), unit, move |_, side| figures[side])
}

/// The kinds as two tables.
fn text(kinds: &[Kind]) -> String {
    let shown = [SHARES[0], SHARES[3], SHARES[5]];
    let shares = shown.map(|share| format!("{share} % cancelled"));
    let mut before = table(&["", &shares[0], &shares[1], &shares[2]], 1);
    let shares = SHARES.map(|share| format!("{share} %"));
    let shares = shares.iter().map(String::as_str);
    let header: Vec<_> = [""].into_iter().chain(shares).chain(["costs more"]).collect();
    let mut inside = table(&header, 1);
    for kind in kinds {
        let interrupts = shown.map(|share| {
            let Both { regular, greedy } = kind.before[at(share)];
            format!("{}+{} > {}+{}", regular.busy, regular.idle, greedy.busy, greedy.idle)
        });
        before.add_row([kind.slack.name()].into_iter().chain(interrupts));
        let saved = SHARES.map(|share| kind.inside[at(share)]);
        let saved = saved.map(|both| format!("{} / {}", both.saved(), both.needless()));
        let dear = kind.dear().map_or("never".to_owned(), |share| format!("from {share} %"));
        inside.add_row([kind.slack.name()].into_iter().chain(saved).chain([dear]));
    }
    format!(
        "\na model of one CPU, 4 ms busy and 1 ms idle, with {TIMERS} timers of which some are cancelled\n\
         before they open: interrupts of the busy CPU + of the idle one, regular > greedy walk\n{}\n\n\
         inside their windows: interrupts that the greedy walk saves / timers that it alone runs needlessly\n{}\n",
        before.trim_fmt(),
        inside.trim_fmt()
    )
}

impl Slack {
    fn name(self) -> String {
        let most = match self.most.0 {
            span if span < 1_000_000 => format!("{} us", span / 1_000),
            span => format!("{} ms", span / 1_000_000),
        };
        let or = if self.mixed { " or 50 us" } else { "" };
        format!("slack {most}{or}")
    }
}

/// The index of the results of a share.
fn at(share: u64) -> usize {
    (share / STEP) as usize
}

impl Kind {
    fn of(slack: Slack, greedy: bool) -> Kind {
        let run = |when, nth| Trace::of(slack, when, nth * STEP, 1).both(greedy);
        let all = |when| (0..=100 / STEP).map(|nth| run(when, nth)).collect();
        Kind { slack, before: all(When::Before), inside: all(When::Inside) }
    }

    /// The least share of timers cancelled inside their windows at which more needless runs are added than interrupts
    /// saved.
    fn dear(&self) -> Option<u64> {
        let mut shares = (0..).step_by(STEP as usize).zip(&self.inside).skip(1);
        shares.find(|(_, both)| both.needless() > both.saved()).map(|(share, _)| share)
    }
}

impl Both {
    /// The interrupts that only the regular walk needs.
    fn saved(self) -> i64 {
        self.regular.interrupts() as i64 - self.greedy.interrupts() as i64
    }

    /// The needless runs that only the greedy walk makes.
    fn needless(self) -> i64 {
        self.greedy.needless as i64 - self.regular.needless as i64
    }
}

impl Tally {
    fn interrupts(self) -> u64 {
        self.busy + self.idle
    }
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    armed: Time,
    window: Window,
    cancelled: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    Arm(usize),
    Cancel(usize),
    Idle,
    Busy,
}

/// The events that are the same for both walks.
#[derive(Clone, Debug)]
struct Trace {
    timers: Vec<Timer>,
    events: Vec<(Time, Happens)>,
}

impl Trace {
    /// Timers of which this share, in per cent, is cancelled.
    fn of(slack: Slack, when: When, share: u64, seed: u64) -> Trace {
        let mut draws = stream(seed, Stream::Order);
        let (mut timers, mut turns) = (Vec::new(), Vec::new());
        let mut now = Time::ZERO;
        for nth in 0..TIMERS {
            now = now + APART.sample(&mut draws);
            let soft = now + AHEAD.sample(&mut draws);
            let slack = if slack.mixed && nth % 2 == 1 { LITTLE } else { slack.most };
            // Both are drawn in any case, so that a share changes no other draw.
            let (chance, part) = (below(&mut draws, 100), below(&mut draws, slack.0));
            let early = below(&mut draws, soft.since(now).0);
            let at = match when {
                When::Before => now + Nanos(early),
                When::Inside => soft + Nanos(part),
            };
            let window = Window { soft, hard: soft + slack };
            timers.push(Timer { armed: now, window, cancelled: (chance < share).then_some(at) });
        }
        let mut turn = Time::ZERO;
        while turn < now {
            turn = turn + BUSY.sample(&mut draws);
            turns.push((turn, Happens::Idle));
            turn = turn + IDLE.sample(&mut draws);
            turns.push((turn, Happens::Busy));
        }
        Trace::with(timers, turns)
    }

    /// These timers, on a CPU that turns idle and busy.
    fn with(timers: Vec<Timer>, turns: Vec<(Time, Happens)>) -> Trace {
        let mut events = Vec::new();
        for (nth, timer) in timers.iter().enumerate() {
            events.push((timer.armed, Happens::Arm(nth)));
            events.extend(timer.cancelled.map(|at| (at, Happens::Cancel(nth))));
        }
        events.extend(turns);
        events.sort_by_key(|&(at, _)| at);
        Trace { timers, events }
    }

    /// The results of both walks; without `greedy` both are the regular one.
    fn both(&self, greedy: bool) -> Both {
        Both { regular: self.walked(false), greedy: self.walked(greedy) }
    }

    fn walked(&self, greedy: bool) -> Tally {
        let (mut queue, mut is_idle, mut tally) = (TimerQueue::default(), false, Tally::default());
        let mut ids = vec![None; self.timers.len()];
        for &(at, what) in &self.events {
            while queue.first() < at {
                *(if is_idle { &mut tally.idle } else { &mut tally.busy }) += 1;
                let now = queue.first();
                while let Some(expiry) = queue.take_expired(now) {
                    tally.needless += self.is_needless(expiry.token);
                }
                tally.needless += self.walk_greedily(&mut queue, now, greedy && is_idle);
            }
            match what {
                Happens::Arm(nth) => {
                    ids[nth] = Some(queue.arm(self.timers[nth].window, Token(nth as u64)));
                }
                Happens::Cancel(nth) => {
                    queue.cancel(ids[nth].expect("it was armed before"));
                }
                Happens::Busy => is_idle = false,
                Happens::Idle => {
                    is_idle = true;
                    tally.needless += self.walk_greedily(&mut queue, at, greedy);
                }
            }
        }
        tally
    }

    /// Runs all timers that may run, if the walk is greedy. Returns the number of needless runs.
    fn walk_greedily(&self, queue: &mut TimerQueue, now: Time, greedy: bool) -> u64 {
        let open = std::iter::from_fn(|| if greedy { queue.take_open(now) } else { None });
        open.map(|expiry| self.is_needless(expiry.token)).sum()
    }

    /// 1 if the timer would have been cancelled, otherwise 0.
    fn is_needless(&self, Token(nth): Token) -> u64 {
        u64::from(self.timers[nth as usize].cancelled.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Nanos::from_micros(us)
    }

    /// A timer that is armed at once, and cancelled at `cancelled`, if that is given.
    fn timer(soft: u64, hard: u64, cancelled: Option<u64>) -> Timer {
        let window = Window { soft: us(soft), hard: us(hard) };
        Timer { armed: Time::ZERO, window, cancelled: cancelled.map(us) }
    }

    /// The results of both walks for these timers, on a CPU that is idle during `idle` and busy before.
    fn walked(timers: &[Timer], idle: (u64, u64)) -> Both {
        let end = us(1_000_000);
        let turns =
            [(us(idle.0), Happens::Idle), (us(idle.1), Happens::Busy), (end, Happens::Busy)];
        Trace::with(timers.to_vec(), turns.into()).both(true)
    }

    #[test]
    fn what_is_open_when_the_cpu_goes_idle_interrupts_nobody() {
        let both = walked(&[timer(10, 60, None)], (20, 30));
        assert_eq!(both.regular, Tally { busy: 1, ..Tally::default() });
        assert_eq!(both.greedy, Tally::default());
    }

    #[test]
    fn what_waits_behind_a_timer_that_is_cancelled_interrupts_for_itself() {
        // At 25, the second timer hides the third from the regular walk.
        let timers = [timer(22, 25, None), timer(40, 41, Some(30)), timer(21, 90, None)];
        let both = walked(&timers, (20, 50));
        assert_eq!((both.regular.idle, both.regular.busy), (1, 1));
        assert_eq!((both.greedy.idle, both.greedy.busy), (1, 0));
    }

    #[test]
    fn what_is_run_early_cannot_be_cancelled() {
        let both = walked(&[timer(10, 60, Some(40))], (20, 30));
        assert_eq!(both.regular, Tally::default());
        assert_eq!(both.greedy, Tally { needless: 1, ..Tally::default() });
    }

    #[test]
    fn with_one_slack_there_are_never_more_interrupts() {
        for slack in SLACKS.into_iter().filter(|slack| !slack.mixed) {
            for (seed, share) in (1..).zip(SHARES) {
                let both = Trace::of(slack, When::Inside, share, seed).both(true);
                assert!(both.saved() >= 0, "{slack:?}, {share} %, seed {seed}: {both:?}");
            }
        }
    }
}
