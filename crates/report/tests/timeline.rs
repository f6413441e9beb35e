//! The picture of the last moments of a run.

use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_report::{Names, timeline};

fn name(task: TaskId) -> String {
    format!("t{}", task.0)
}

fn draw(events: &[(u64, u16, What)]) -> String {
    let event = |&(at, cpu, what)| Event { at: Time(at), cpu: CpuId(cpu), what };
    timeline(&events.iter().map(event).collect::<Vec<_>>(), &name)
}

fn exec(task: u64) -> What {
    What::Exec { task: TaskId(task), policy: Policy::Fifo(RtPrio::MAX) }
}

fn switch(prev: Option<(u64, Left)>, next: Option<u64>) -> What {
    let prev = prev.map(|(task, left)| (TaskId(task), left));
    What::Switch { prev, next: next.map(TaskId) }
}

#[test]
fn a_preemption_is_a_picture() {
    let picture = draw(&[
        (1_000_000, 1, What::Idle),
        (1_030_000, 0, What::Wake { task: TaskId(7), since: Time(1_028_500), by: None }),
        (1_030_000, 0, What::Overhead),
        (1_040_000, 0, switch(Some((3, Left::Preempted)), Some(7))),
        (1_040_000, 0, exec(7)),
        (1_060_000, 1, What::Overhead),
        (1_060_400, 1, What::Idle),
        (1_070_000, 0, switch(Some((7, Left::Exited)), None)),
        (1_070_000, 0, What::Idle),
        (1_089_500, 1, switch(None, Some(3))),
        (1_089_500, 1, exec(3)),
    ]);
    let expected = "\
from 0.001000000 s, 1.01 us a column
         +0 ns             +18.1 us          +36.2 us          +54.3 us          +72.4 us
         |                 |                 |                 |                 |
CPU 0    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==========BBBBBBBBBBBBBBBBBBBBBBBBBBBBBB....................
   wakes                              B
CPU 1    .........................................................................................A
A t3   B t7   = the scheduler   . idle

0.001000000 s  CPU 1   is idle
0.001030000 s  CPU 0   wakes t7, due 1.50 us ago
0.001030000 s  CPU 0   works for the scheduler
0.001040000 s  CPU 0   switches from t3 (preempted) to t7
0.001040000 s  CPU 0   executes t7 (SCHED_FIFO 99)
0.001060000 s  CPU 1   works for the scheduler
0.001060400 s  CPU 1   is idle
0.001070000 s  CPU 0   switches from t7 (exited) to idle
0.001070000 s  CPU 0   is idle
0.001089500 s  CPU 1   switches from idle to t3
0.001089500 s  CPU 1   executes t3 (SCHED_FIFO 99)
";
    assert_eq!(picture, expected, "\n{picture}");
}

#[test]
fn every_event_has_words() {
    let whats = [
        What::Spawn { task: TaskId(1) },
        What::Wake { task: TaskId(1), since: Time(5), by: None },
        What::TimerInterrupt,
        What::TimerArmed,
        What::TimerExpired { greedy: false },
        What::TimerExpired { greedy: true },
        What::TimerCancelled,
        What::Changed {
            task: TaskId(1),
            policy: Policy::Idle,
            group: GroupId(2),
            latency_nice: LatencyNice::MIN,
        },
        What::Step { task: TaskId(1), phase: 2, step: 3 },
        switch(Some((1, Left::Yielded)), Some(1)),
        switch(Some((1, Left::Blocked)), Some(1)),
        What::Throttled { group: GroupId(2) },
        What::Unthrottled { group: GroupId(2) },
    ];
    let picture = draw(&whats.map(|what| (5, 0, what)));
    let words: Vec<_> = picture.lines().filter_map(|line| line.split_once("CPU 0   ")).collect();
    let expected = [
        "spawns t1",
        "wakes t1",
        "takes a timer interrupt",
        "arms a timer",
        "runs an expired timer",
        "runs a timer greedily",
        "cancels a timer",
        "makes t1 SCHED_IDLE 0 of latency nice -20 in task group 2",
        "has t1 at step 3 of phase 2",
        "switches from t1 (yielded) to t1",
        "switches from t1 (blocked) to t1",
        "throttles task group 2",
        "throttles task group 2 no more",
    ];
    let told: Vec<_> = words.iter().filter(|(time, _)| !time.is_empty()).map(|it| it.1).collect();
    assert_eq!(told, expected, "\n{picture}");
}

#[test]
fn forced_idle_has_a_sign_of_its_own_where_there_is_any() {
    let forced = |cookie| What::ForcedIdle { cookie: Cookie::new(cookie) };
    let picture = draw(&[
        (0, 0, exec(1)),
        (0, 1, forced(3)),
        (30, 1, What::Idle),
        (60, 0, forced(0)),
        (88, 0, What::Overhead),
    ]);
    let (left, right) = ("CPU 0    ", "CPU 1    ");
    let lanes = [
        format!("{left}{}{}==", "A".repeat(60), "~".repeat(28)),
        format!("{right}{}{}", "~".repeat(30), ".".repeat(60)),
    ];
    for line in &lanes {
        assert!(picture.lines().any(|it| it == line), "{line}\n{picture}");
    }
    assert!(picture.contains("\nA t1   = the scheduler   . idle   ~ forced idle\n"), "{picture}");
    for words in [
        "1   is forced idle: its core runs tasks of cookie 3\n",
        "0   is forced idle: its core runs tasks without a cookie\n",
    ] {
        assert!(picture.contains(words), "{picture}");
    }
    let events = [Event { at: Time(5), cpu: CpuId(0), what: forced(1) }];
    assert!(timeline(&events, &Host).ends_with("core runs tasks of cookie a?b\n"));
}

/// A host that knows the groups and the cookies too.
struct Host;

impl Names for Host {
    fn task(&self, task: TaskId) -> String {
        name(task)
    }

    fn group(&self, group: GroupId) -> String {
        ["/", "/web", "/web/\u{1b}api"][group.index()].to_owned()
    }

    fn cookie(&self, _: Cookie) -> String {
        "a\nb".to_owned()
    }
}

#[test]
fn a_task_group_has_its_path_where_the_host_knows_it() {
    let throttled = |group| What::Throttled { group: GroupId(group) };
    let whats = [throttled(2), throttled(1), What::Unthrottled { group: GroupId(2) }];
    let events = whats.map(|what| Event { at: Time(5), cpu: CpuId(0), what });
    let picture = timeline(&events, &Host);
    let words: Vec<_> = picture.lines().rev().take(3).collect();
    for (words, expected) in words.iter().rev().zip([
        "throttles task group /web/?api",
        "throttles task group /web",
        "throttles task group /web/?api no more",
    ]) {
        assert!(words.ends_with(expected), "\n{picture}");
    }
}

#[test]
fn a_cpu_did_before_what_it_goes_on_with() {
    let picture = draw(&[
        (0, 0, What::TimerInterrupt),
        (40, 0, What::Overhead),
        (50, 0, exec(1)),
        (40, 1, What::Overhead),
        (50, 1, What::Idle),
        (40, 2, What::Overhead),
        (88, 2, What::TimerArmed),
    ]);
    for (cpu, before, after) in [(0, "A", "A"), (1, ".", "."), (2, " ", "=")] {
        let lane =
            format!("CPU {cpu}    {}{}{}\n", before.repeat(40), "=".repeat(10), after.repeat(40),);
        assert!(picture.contains(&lane), "CPU {cpu}\n{picture}");
    }
}

#[test]
fn too_many_cpus_tasks_and_events_are_left_out() {
    let mut events = Vec::new();
    for at in 0..40 {
        let task = |n| TaskId(3 * u64::from(at) + n);
        for n in 0..2 {
            events.push((0, at, What::Wake { task: task(n), since: Time(0), by: None }));
        }
        events.push((u64::from(at), at, exec(task(2).0)));
    }
    let picture = draw(&events);
    assert!(!picture.contains("\nCPU 7 ") && picture.contains("\nCPU 8 "), "{picture}");
    assert!(picture.contains("\nand 8 CPUs whose last event is older\n"), "{picture}");
    assert!(picture.contains("   * another task   ") && picture.contains("A t119   "), "{picture}");
    assert!(picture.contains("\n   wakes +\nCPU "), "two at once\n{picture}");
    assert!(picture.lines().all(|line| line.len() <= 100), "{picture}");
    assert_eq!(picture.lines().filter(|line| line.contains(" s  CPU ")).count(), 24, "{picture}");
}

#[test]
fn events_out_of_order_are_drawn_all_the_same() {
    assert_eq!(draw(&[]), "no events\n");
    let picture = draw(&[(100, 0, exec(1)), (900, 0, What::Idle), (50, 0, What::Overhead)]);
    assert!(picture.starts_with("from 0.000000050 s, 10 ns a column\n"), "{picture}");
}
