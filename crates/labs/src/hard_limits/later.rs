//! What the document leaves for later, and the price of borrowing as it does it.

use super::CPUS;
use super::exact::{PERIOD, WINDOW, has};
use crate::rows::{Row, Word};
use crate::setting::{Part, Setting, Watch, of_run};
use crate::usage::Window;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::kernel::Experiment;
use runyard_engine::limits::Limit;
use runyard_engine::limits::pool::{Part as PoolPart, Pool};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};

/// The parts, in the order of the table.
pub(super) fn parts() -> Vec<Part> {
    vec![borrowing(), offline(), inheritance()]
}

/// The part of the group's budget that the hog's CPU is to have in the comparison of borrowing.
const MOST: f64 = 0.9;

/// The least factor by which the pool is cheaper on the document's machine.
const CHEAPER: f64 = 10.0;

/// The price of borrowing: the document's passes beside the engine's pool.
///
/// A task group may use as much as one CPU has, and one hog on one CPU wants all of that. In the document each CPU has its
/// part of the budget. A CPU that has used its part up locks every other CPU and takes an equal part of the rest there. So
/// n CPUs leave it `1 - 1/n` of what is left at each pass. Here the budget is a pool, from which a CPU draws. Both are
/// computed from the rules alone; the pool is the engine's.
fn borrowing() -> Part {
    let what = format!("1 hog has 90 % of a CPU's budget on {CPUS} CPUs: passes, and a pool");
    let locks = [by_passes(CPUS), by_draws(CPUS)].map(|locks| locks as f64);
    let row = Row::beside(what, "locks", move |_, side| Some(locks[side]));
    Part::new("", Vec::new(), vec![row.holds(|passes, draws| draws * CHEAPER <= passes)])
}

/// The locks of other CPUs by which a CPU of so many collects the budget in passes.
fn by_passes(cpus: u32) -> u64 {
    let n = f64::from(cpus);
    let (mut own, mut passes) = (1.0 / n, 0);
    while own < MOST {
        own += (1.0 - own) / n;
        passes += 1;
    }
    passes * u64::from(cpus - 1)
}

/// The draws by which a CPU gets as much from the pool.
fn by_draws(cpus: u32) -> u64 {
    const PERIOD: Nanos = Nanos::from_millis(500);
    let limit = Limit::new(PERIOD, PERIOD, Nanos::ZERO, false).expect("the kernel takes it");
    let part = PoolPart { quota: PERIOD, burst: Nanos::ZERO, of_cpu: PERIOD };
    let cpu = CpuId::at(0);
    let mut pool = Pool::new(limit, part, (cpu, cpus as usize), 0, (Time::ZERO, Nanos::ZERO));
    let mut draws = 0;
    while (pool.used().0 as f64) < MOST * PERIOD.0 as f64 {
        let mut grant = pool.draw(Time::ZERO, cpu, false);
        grant.charge(grant.drawn());
        let waiting = pool.give_back(Time::ZERO, grant);
        assert_eq!(waiting, None, "no other CPU is throttled");
        draws += 1;
    }
    draws
}

/// CPUs that go offline: the budget that they held is the group's all the same.
///
/// Eight hogs may use three of eight CPUs. Three CPUs go offline in the middle of a period, and again, so that each time
/// they hold a part of the budget. Five CPUs stay.
fn offline() -> Part {
    let text = r#"{
        "machine": {"cpus": 8, "kernel": "6.1 + founding", "costs": {"jitter_ns": 0}},
        "global": {"duration": 11},
        "groups": {"/limited": {"runtime": 300000, "period": 100000}},
        "tasks": {"hog": {"instance": 8, "group": "/limited", "run": 1000}},
        "timeline": [
            {"at": 1005000, "cpu": 5, "online": false}, {"at": 1005000, "cpu": 6, "online": false},
            {"at": 1005000, "cpu": 7, "online": false}, {"at": 3000000, "cpu": 7, "online": true},
            {"at": 3005000, "cpu": 7, "online": false}, {"at": 5000000, "cpu": 6, "online": true},
            {"at": 5005000, "cpu": 6, "online": false},
        ],
    }"#;
    let setting = Setting::of("offline.json", text).seeds([0]).window(WINDOW, PERIOD);
    let row = has("/limited", 0..8, [5.0, 3.0]);
    let name = "8 hogs, 300 of 100 ms on 8 CPUs, 3 of which go offline";
    Part::new(name, setting.pair(Experiment::HardLimits), vec![row])
}

/// The longest wait with inheritance, in us: the worker's time with the mutex, and the machine's own work.
const LONGEST: f64 = 3_200.0;

/// The least longest wait before, in us, from the end of a budget to the next period. A tenth of a period has budget.
const LONG: f64 = 50_000.0;

/// Bandwidth inheritance: a task without a limit needs a mutex that a task of a limited group holds.
///
/// A worker of a group that may use a tenth of its CPU holds the mutex for 3 ms at a time. A request on another CPU needs
/// it every 37 ms for 0.1 ms. Before, the mutex hands over and lends nothing: a holder that is out of budget keeps the
/// others waiting for its next period. After, it inherits: the holder goes on, and its group owes the time. The limit is
/// kept all the same.
fn inheritance() -> Part {
    let setting = |kind| {
        let text = r#"{
            "machine": {"cpus": 2, "kernel": "6.1 + founding", "costs": {"jitter_ns": 0}},
            "global": {"duration": 10},
            "mutexes": {"m": "KIND"},
            "groups": {"/limited": {"runtime": 10000, "period": 100000}},
            "tasks": {
                "worker": {"group": "/limited", "cpus": [0], "lock": "m", "run": 3000, "unlock": "m", "run1": 1000},
                "request": {
                    "cpus": [1], "timer": {"ref": "unique", "period": 37000, "mode": "absolute"},
                    "lock": "m", "run": 100, "unlock": "m",
                },
            },
        }"#;
        let setting = Setting::of("inheritance.json", &text.replace("KIND", kind)).seeds([0]);
        setting.window(Window::ALL, PERIOD).watch(|_| waits())
    };
    let longest = of_run("longest wait, inheriting", "us", |run| run.took.max());
    let longest = longest.judged_by(Word::Holds, |sides, [before, after]| {
        let run = sides[1][0];
        let of_limit = run.used.of(0..1).0 as f64 * 10.0 / run.time.0 as f64;
        (of_limit - 1.0).abs() <= 0.02 && before >= LONG && after <= LONGEST
    });
    let name = "a request waits for a mutex of a group out of budget";
    Part::new(name, vec![setting("hand_over"), setting("inherit")], vec![longest])
}

/// The times from the step at which a request asks for the mutex to that at which it has it.
fn waits() -> Watch {
    const REQUEST: TaskId = TaskId(1);
    let mut asked = Time::ZERO;
    Box::new(move |event, _, seen| match event.what {
        What::Step { task: REQUEST, step: 1, .. } => asked = event.at,
        What::Step { task: REQUEST, step: 2, .. } => seen.took.times.record(event.at.since(asked)),
        _ => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_grow_with_the_square_of_the_cpus_and_draws_do_not() {
        assert_eq!([4, 24].map(by_passes), [24, 1_242]);
        let [few, many] = [256, 1_024].map(by_passes);
        assert!(many > 15 * few, "{few} {many}");
        assert_eq!(by_draws(4), by_draws(1_024));
    }
}
