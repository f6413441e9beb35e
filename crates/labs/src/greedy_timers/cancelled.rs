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

const SLACKS: [Slack; 7] = [
    Slack { most: LITTLE, mixed: false },
    Slack { most: Nanos::from_millis(1), mixed: false },
    SAME,
    Slack { most: Nanos::from_millis(100), mixed: false },
    Slack { most: Nanos::from_millis(1), mixed: true },
    MIXED,
    Slack { most: Nanos::from_millis(100), mixed: true },
];

/// The document's large slack, for all timers and for half of them.
const SAME: Slack = Slack { most: Nanos::from_millis(10), mixed: false };
const MIXED: Slack = Slack { most: Nanos::from_millis(10), mixed: true };

/// The shown shares of cancelled timers, in per cent.
const SHARES: [u64; 6] = [0, 10, 25, 50, 75, 90];
const HALF: u64 = 50;

/// With the greedy walk and a slack of 10 ms there is at most one of so many interrupts: most timers are run on an idle
/// CPU.
const MOST_PARTS: f64 = 10.0;

/// The distance of the shares at which the search for the break-even point looks.
const STEP: usize = 5;

/// The moment of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    Inside,
}

/// The results for one kind of slack.
#[derive(Clone, Debug)]
struct Kind {
    slack: Slack,
    /// The results at each of [`SHARES`], for timers cancelled before they open, and inside their windows.
    before: Vec<Both>,
    inside: Vec<Both>,
    /// The least share of timers cancelled inside their windows at which more needless runs are added than interrupts
    /// saved.
    dear: Option<u64>,
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
    /// All timers that were run.
    run: u64,
}

/// The model with the greedy walk; without it both walks are the regular one.
pub(super) fn part(greedy: bool) -> Part {
    let kinds = kinds(greedy);
    Part::new("", Vec::new(), rows(&kinds)).text(move |_| text(&kinds))
}

/// All kinds of slack, computed on all CPUs.
fn kinds(greedy: bool) -> Vec<Kind> {
    SLACKS.into_par_iter().map(|slack| Kind::of(slack, greedy)).collect()
}

/// The kinds as two tables.
fn text(rows: &[Kind]) -> String {
    let line = |row: &Kind, cells: Vec<String>| [vec![row.slack.name()], cells].concat();
    let shown = [0, 3, 5];
    let shares = shown.map(|at| format!("{} % cancelled", SHARES[at]));
    let mut before = table(&["", &shares[0], &shares[1], &shares[2]], 1);
    before.add_rows(rows.iter().map(|row| {
        let cell = |at: usize| {
            let Both { regular, greedy } = row.before[at];
            format!("{}+{} > {}+{}", regular.busy, regular.idle, greedy.busy, greedy.idle)
        };
        line(row, shown.map(cell).to_vec())
    }));
    let shares = SHARES.map(|share| format!("{share} %"));
    let header = ["", &shares[0], &shares[1], &shares[2], &shares[3], &shares[4], &shares[5]];
    let mut inside = table(&[&header[..], &["costs more"]].concat(), 1);
    inside.add_rows(rows.iter().map(|row| {
        let cell = |both: &Both| format!("{} / {}", both.saved(), both.needless());
        let dear = row.dear.map_or("never".to_owned(), |share| format!("from {share} %"));
        line(row, row.inside.iter().map(cell).chain([dear]).collect())
    }));
    format!(
        "\na model of one CPU, 4 ms busy and 1 ms idle, with {TIMERS} timers of which some are cancelled\n\
         before they open: interrupts of the busy CPU + of the idle one, regular > greedy walk\n{}\n\n\
         inside their windows: interrupts that the greedy walk saves / timers that it alone runs needlessly\n{}\n",
        before.trim_fmt(),
        inside.trim_fmt()
    )
}

/// The rows about the document's large slack, for all timers and for half of them. They need no runs.
fn rows(kinds: &[Kind]) -> Vec<Row<Seen>> {
    let [same, mixed] = [SAME, MIXED].map(|slack| {
        kinds.iter().find(|kind| kind.slack == slack).expect("it is among the slacks")
    });
    let at = |share| SHARES.iter().position(|&it| it == share).expect("it is shown");
    let (none, half) = (at(0), at(HALF));
    let row = |what: &str, unit: &'static str, figures: [Option<u64>; 2]| {
        let figures = figures.map(|figure| figure.map(|figure| figure as f64));
        Row::beside(format!("one CPU, {what}"), unit, move |_, side| figures[side])
    };
    let interrupts = |what: &str, both: Both| {
        row(what, "interrupts", [both.regular, both.greedy].map(|it| Some(it.interrupts())))
    };
    // With different slacks the walk has never more interrupts in this model, but not by necessity.
    let never_more = kinds
        .iter()
        .filter(|kind| !kind.slack.mixed)
        .all(|kind| kind.before.iter().chain(&kind.inside).all(|both| both.saved() >= 0));
    let few = move |regular: f64, greedy: f64| never_more && greedy * MOST_PARTS <= regular;
    let unblocked = mixed.before[half].saved() > mixed.before[none].saved();
    let needless =
        [same.inside[half].regular, same.inside[half].greedy].map(|it| Some(it.needless));
    let dear = "slack 10 ms: cancelled inside, from which more is needless than saved";
    vec![
        interrupts("slack 10 ms, none cancelled, at most a tenth", same.before[none]).holds(few),
        interrupts(
            "slack 10 ms or 50 us, half cancelled before, more saved than with none",
            mixed.before[half],
        )
        .holds(move |_, _| unblocked),
        interrupts("slack 10 ms, half cancelled inside, at most a tenth", same.inside[half])
            .holds(few),
        row("slack 10 ms, half cancelled inside, run needlessly", "timers", needless),
        row(dear, "%", [None, same.dear]),
    ]
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

impl Kind {
    fn of(slack: Slack, greedy: bool) -> Kind {
        let run = |when, share| Trace::of(slack, when, share, 1).both(greedy);
        let all = |when| SHARES.iter().map(|&share| run(when, share)).collect();
        let pays = |both: Both| both.needless() <= both.saved();
        let dear = (0..=100).step_by(STEP).skip(1).find(|&share| !pays(run(When::Inside, share)));
        Kind { slack, before: all(When::Before), inside: all(When::Inside), dear }
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
        let mut armed = Vec::new();
        for nth in 0..TIMERS {
            now = now + APART.sample(&mut draws);
            let soft = now + AHEAD.sample(&mut draws);
            let little = slack.mixed && nth % 2 == 1;
            let slack = if little { LITTLE } else { slack.most };
            // Both are drawn in any case, so that a share changes no other draw.
            let (chance, part) = (below(&mut draws, 100), below(&mut draws, slack.0));
            let early = below(&mut draws, soft.since(now).0);
            let at = match when {
                When::Before => now + Nanos(early),
                When::Inside => soft + Nanos(part),
            };
            let cancelled = (chance < share).then_some(at);
            timers.push(Timer { window: Window { soft, hard: soft + slack }, cancelled });
            armed.push(now);
        }
        let mut turn = Time::ZERO;
        while turn < now {
            turn = turn + BUSY.sample(&mut draws);
            turns.push((turn, Happens::Idle));
            turn = turn + IDLE.sample(&mut draws);
            turns.push((turn, Happens::Busy));
        }
        Trace::with(timers, &armed, turns)
    }

    /// Timers that are armed at these times, on a CPU that turns idle and busy.
    fn with(timers: Vec<Timer>, armed: &[Time], turns: Vec<(Time, Happens)>) -> Trace {
        let mut events = Vec::new();
        for (nth, (timer, &at)) in timers.iter().zip(armed).enumerate() {
            events.push((at, Happens::Arm(nth)));
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
        let mut cpu = Cpu { timers: &self.timers, greedy, ..Cpu::default() };
        let mut ids = vec![None; self.timers.len()];
        for &(at, what) in &self.events {
            while cpu.queue.first() < at {
                *(if cpu.is_idle { &mut cpu.tally.idle } else { &mut cpu.tally.busy }) += 1;
                cpu.walk(cpu.queue.first(), true);
            }
            match what {
                Happens::Arm(nth) => {
                    let window = self.timers[nth].window;
                    ids[nth] = Some(cpu.queue.arm(window, Token(nth as u64)));
                }
                Happens::Cancel(nth) => {
                    cpu.queue.cancel(ids[nth].expect("it was armed before"));
                }
                Happens::Busy => cpu.is_idle = false,
                Happens::Idle => {
                    cpu.is_idle = true;
                    cpu.walk(at, false);
                }
            }
        }
        cpu.tally
    }
}

#[derive(Default)]
struct Cpu<'t> {
    timers: &'t [Timer],
    greedy: bool,
    queue: TimerQueue,
    is_idle: bool,
    tally: Tally,
}

impl Cpu<'_> {
    /// The walk of an interrupt, or of a CPU that goes idle. The regular walk has none of the second kind.
    fn walk(&mut self, now: Time, interrupted: bool) {
        while let Some(expiry) = interrupted.then(|| self.queue.take_expired(now)).flatten() {
            self.count(expiry.token);
        }
        let greedy = self.greedy && self.is_idle;
        while let Some(expiry) = greedy.then(|| self.queue.take_open(now)).flatten() {
            self.count(expiry.token);
        }
    }

    fn count(&mut self, token: Token) {
        self.tally.run += 1;
        let timer = &self.timers[token.0 as usize];
        self.tally.needless += u64::from(timer.cancelled.is_some());
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
        Timer { window, cancelled: cancelled.map(us) }
    }

    /// The results of both walks for these timers, on a CPU that is idle during `idle` and busy before.
    fn walked(timers: &[Timer], idle: (u64, u64)) -> Both {
        let turns = [(us(idle.0), Happens::Idle), (us(idle.1), Happens::Busy)];
        let end = [(us(1_000_000), Happens::Busy)];
        let armed = vec![Time::ZERO; timers.len()];
        Trace::with(timers.to_vec(), &armed, [&turns[..], &end].concat()).both(true)
    }

    #[test]
    fn what_is_open_when_the_cpu_goes_idle_interrupts_nobody() {
        let both = walked(&[timer(10, 60, None)], (20, 30));
        assert_eq!(both.regular, Tally { busy: 1, run: 1, ..Tally::default() });
        assert_eq!(both.greedy, Tally { run: 1, ..Tally::default() });
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
        assert_eq!(both.greedy, Tally { run: 1, needless: 1, ..Tally::default() });
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
