//! What others do to the process: its CPUs and its quota change, signals arrive that are not the runtime's, and code in
//! tasks runs on stacks of its own.

use super::all;
use crate::draws::Draws;
use crate::quota;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid as Process;
use runyard::trial::interrupt_by;
use runyard::{spawn, time, yield_now};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

/// The time for which a change holds that the runtime sees: it reads its CPUs and its quota each second.
const HELD: Duration = Duration::from_millis(1_200);

/// Sets the CPUs of each thread of the process, as `taskset -ap` does.
fn bind_all(cpus: &CpuSet) {
    for task in std::fs::read_dir("/proc/self/task").expect("there is /proc").flatten() {
        let number = task.file_name().to_str().and_then(|name| name.parse().ok());
        // The thread may have ended.
        let _ = sched_setaffinity(number.and_then(Pid::from_raw), cpus);
    }
}

/// Narrows the process to some of its CPUs, and widens it again, beside tasks that compute and sleep.
pub async fn masks(mut draws: Draws) {
    static FIRST: OnceLock<CpuSet> = OnceLock::new();
    let first = FIRST.get_or_init(|| sched_getaffinity(None).expect("a thread has CPUs"));
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| first.is_set(cpu)).collect();
    let mut some = CpuSet::new();
    cpus.iter().for_each(|&cpu| {
        if draws.within(0, 1) == 1 {
            some.set(cpu);
        }
    });
    some.set(cpus[draws.within(0, cpus.len() as u64 - 1) as usize]);
    bind_all(&some);
    let held = if draws.within(0, 7) == 0 { HELD } else { Duration::ZERO };
    sums_for(held, &mut draws).await;
    bind_all(first);
}

/// Limits the CPU time of the process for longer than the runtime needs to see it, beside tasks that compute and sleep.
pub async fn quotas(mut draws: Draws) {
    quota::set(Some(draws.within(50, 200)));
    sums_for(HELD, &mut draws).await;
    quota::set(None);
}

/// Runs some tasks that compute and sleep, again and again for at least this time.
async fn sums_for(span: Duration, draws: &mut Draws) {
    let end = Instant::now() + span;
    loop {
        sums(draws).await;
        if Instant::now() >= end {
            return;
        }
    }
}

/// Runs some tasks that compute and sleep.
async fn sums(draws: &mut Draws) {
    let (tasks, many) = (draws.within(1, 4), draws.within(1, 40));
    let turn = |_| {
        spawn(async move {
            for number in 0..many {
                assert_eq!((0..=number).sum::<u64>(), number * (number + 1) / 2);
                time::sleep(Duration::from_micros(100)).await;
                yield_now().await;
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Sends a signal to the process again and again whose handler restarts no system call.
pub async fn storms(mut draws: Draws) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| interrupt_by(Signal::SIGUSR2 as i32));
    let (tasks, many) = (draws.within(1, 3), draws.within(1, 100));
    let turn = |_| {
        spawn(async move {
            for number in 0..many {
                kill(Process::this(), Signal::SIGUSR2).expect("a process may signal itself");
                assert_eq!(vec![number; 40].iter().sum::<u64>(), 40 * number);
                if number % 16 == 0 {
                    yield_now().await;
                }
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// The smallest stack of a coroutine: a page.
const PAGE: usize = 4_096;

/// Computes in coroutines whose stacks have no room for a signal.
pub async fn coroutines(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 4), draws.within(1, 400));
    let turn = |_| {
        spawn(async move {
            let stack = DefaultStack::new(PAGE).expect("there is memory");
            let mut squares = Coroutine::with_stack(stack, move |yielder, mut number: u64| {
                while number < many {
                    let square = (0..number).map(|odd| 2 * odd + 1).sum::<u64>();
                    number = yielder.suspend(square);
                }
            });
            for number in 0..many {
                match squares.resume(number) {
                    CoroutineResult::Yield(square) => assert_eq!(square, number * number),
                    CoroutineResult::Return(()) => panic!("it goes on"),
                }
            }
            assert!(matches!(squares.resume(many), CoroutineResult::Return(())));
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}
