//! What is asked of the kernel for a thread, and what it says of one. All of it is about the calling
//! thread.
//!
//! The kernel's counts do not begin with the task: [`Counts::read`] is taken before a task starts,
//! and what it says is subtracted. Two figures are not quite the report's: a migration is any move
//! between run queues, also one of a thread that did not run there; and who yields is counted by the
//! kernel among those who lose their CPU, so that the preemptions of a task that yields are unknown.

use super::cgroup::{Stat, home};
use super::ground::Ground;
use crate::clock::cpu_time;
use crate::machine::number_of;
use crate::play::{Asked, TaskStats};
use runyard_engine::attr::{Attr, Policy, Slice};
use runyard_engine::time::{Nanos, Time};
use runyard_workload::scenario::Reservation;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use std::fmt::Display;
use std::num::NonZeroU64;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{Error, ThreadPriority, ThreadPriorityValue};

/// The least timer slack that can be asked for; 0 asks for the default.
const LEAST_SLACK: NonZeroU64 = NonZeroU64::MIN;

/// What the kernel and the task itself say of a task that is over.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) runtime: Nanos,
    /// `None`, as below, if the kernel does not say.
    pub(super) wait: Option<Nanos>,
    pub(super) switches: Option<u64>,
    pub(super) preemptions: Option<u64>,
    pub(super) migrations: Option<u64>,
    pub(super) stats: TaskStats,
}

/// What became of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// When it ended.
    pub(super) end: Time,
    /// What each of the tasks did.
    pub(super) figures: Vec<Figures>,
    /// What the limits of the scenario's groups did, if the tasks were in them; else all were in
    /// `/`.
    pub(super) limits: Option<Vec<Stat>>,
}

/// What the kernel has counted for a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    wait: Option<u64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
    migrations: Option<u64>,
}

impl Counts {
    /// The counts of the calling thread.
    pub(super) fn read() -> Counts {
        let [stat, status, sched] = ["schedstat", "status", "sched"].map(|file| {
            std::fs::read_to_string(format!("/proc/thread-self/{file}")).unwrap_or_default()
        });
        Counts {
            wait: stat.split_whitespace().nth(1).and_then(|wait| wait.parse().ok()),
            voluntary: number_of(&status, "voluntary_ctxt_switches"),
            involuntary: number_of(&status, "nonvoluntary_ctxt_switches"),
            migrations: number_of(&sched, "se.nr_migrations"),
        }
    }

    /// What became of the calling thread since `self`, which has collected `stats`. It has been
    /// switched in as often as it was switched out: it executed then and does now.
    pub(super) fn figures(self, stats: TaskStats) -> Figures {
        let runtime = cpu_time().saturating_sub(stats.cpu_at_start);
        let now = Counts::read();
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let involuntary = since(now.involuntary, self.involuntary);
        let voluntary = since(now.voluntary, self.voluntary);
        Figures {
            runtime,
            wait: since(now.wait, self.wait).map(Nanos),
            switches: voluntary.zip(involuntary).map(|(own, other)| own + other),
            preemptions: involuntary.filter(|_| stats.yields == 0),
            migrations: since(now.migrations, self.migrations),
            stats,
        }
    }
}

/// Has the kernel give the calling thread what is `asked`: all of it, or as far as it `was` otherwise.
pub(super) fn apply(asked: &Asked, was: Option<&Asked>, ground: &Ground) -> Result<(), String> {
    let (new, old) = (&asked.attr, was.map(|was| &was.attr));
    if old.is_none_or(|old| old.affinity != new.affinity) {
        let mut set = CpuSet::new();
        new.affinity.iter().for_each(|cpu| set.set(ground.cpus[cpu.index()]));
        sched_setaffinity(None, &set)
            .map_err(|error| refused(format_args!("CPUs {}", new.affinity), error))?;
    }
    if old.is_none_or(|old| old.slack != new.slack) {
        let slack = NonZeroU64::new(new.slack.0).unwrap_or(LEAST_SLACK);
        set_current_timer_slack(Some(slack)).map_err(|error| refused("a timer slack", error))?;
    }
    // Who becomes real-time leaves its group before, and who ceases to be comes to one afterwards:
    // some kernels have no group with real-time tasks.
    let moves = old.is_none_or(|old| home(old) != home(new));
    let leaves = moves && home(new).is_none();
    let enter = |moves| match &ground.groups {
        Some(groups) if moves => groups.enter(new).map_err(|why| refused("a task group", why)),
        _ => Ok(()),
    };
    enter(leaves)?;
    let policy = |asked: &Asked| (asked.attr.policy, asked.reservation);
    if was.is_none_or(|was| policy(was) != policy(asked)) {
        match asked.reservation {
            Some(reserved) => set_deadline(reserved)?,
            None => set_policy(new.policy)?,
        }
    }
    if old.is_none_or(|old| (old.policy, old.slice) != (new.policy, new.slice)) {
        set_slice(new, ground);
    }
    enter(moves && !leaves)?;
    if let Some(cookies) = &ground.cookies {
        let wanted = cookies.wanted(new);
        if old.is_none_or(|old| cookies.wanted(old) != wanted) {
            cookies.take(wanted).map_err(|error| refused("a cookie", error))?;
        }
    }
    Ok(())
}

/// Asks for the slice, or for everybody's: a thread inherits that of the one that makes it. Who is
/// neither SCHED_OTHER nor SCHED_BATCH has none, and is asked again when it is.
fn set_slice(new: &Attr, ground: &Ground) {
    let has_one = matches!(new.policy, Policy::Normal(_) | Policy::Batch(_));
    if has_one && !runyard::kernel::set_slice(new.slice.map(Slice::get)) && new.slice.is_some() {
        ground.say_that_slices_are_refused();
    }
}

/// The kernel takes a deadline task if it may run on all CPUs, and if all such tasks together leave the CPUs something.
fn set_deadline(Reservation { runtime, deadline, period }: Reservation) -> Result<(), String> {
    let what = || {
        let [runtime, deadline, period] = [runtime, deadline, period].map(|span| span.0 / 1_000);
        format!("SCHED_DEADLINE with {runtime} us by {deadline} us of {period} us")
    };
    let set = runyard::kernel::set_deadline(runtime, deadline, period);
    set.map_err(|error| refused(what(), error))
}

fn set_policy(policy: Policy) -> Result<(), String> {
    let wanted = match policy {
        Policy::Fifo(_) => ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
        Policy::RoundRobin(_) => {
            ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin)
        }
        Policy::Normal(_) => ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other),
        Policy::Batch(_) => ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch),
        Policy::Idle => ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle),
    };
    // The crate has numbers of its own for nice values, and says what they mean.
    let means = |priority: &ThreadPriority| {
        priority.to_posix(wanted).is_ok_and(|number| i64::from(number) == policy.priority())
    };
    let mut numbers = (u8::MIN..=u8::MAX).map_while(|n| ThreadPriorityValue::try_from(n).ok());
    let priority = numbers.find_map(|n| Some(ThreadPriority::Crossplatform(n)).filter(means));
    let priority = priority.expect("every priority and every nice value has a number");
    let what = || format!("{policy} {}", policy.priority());
    match set_thread_priority_and_policy(thread_native_id(), priority, wanted) {
        Ok(()) => Ok(()),
        Err(Error::OS(code)) => Err(refused(what(), std::io::Error::from_raw_os_error(code))),
        Err(error) => Err(refused(what(), error)),
    }
}

fn refused(what: impl Display, why: impl Display) -> String {
    format!("the kernel refuses {what}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::Nice;
    use runyard_engine::cpu::CpuSet;

    /// The slice of the calling thread in nanoseconds, if the kernel says it.
    fn slice_ns() -> Option<u64> {
        number_of(&std::fs::read_to_string("/proc/thread-self/sched").ok()?, "se.slice")
    }

    #[test]
    fn a_thread_has_the_slice_that_was_asked_for_where_the_kernel_takes_one() {
        let life = || {
            let everybodys = slice_ns();
            let asked = Slice::new(Nanos::from_micros(700));
            if !runyard::kernel::set_slice(asked.map(Slice::get)) || everybodys.is_none() {
                println!("skipped: the kernel takes no slices, or does not tell of them");
                return;
            }
            assert_eq!(slice_ns(), Some(700_000));
            set_policy(Policy::Batch(Nice::default())).expect("nobody needs a permission for it");
            assert_eq!(slice_ns(), Some(700_000), "it outlives the policy");
            let none = Attr::normal(CpuSet::first(1));
            set_slice(&none, &Ground::new(vec![0]));
            assert_eq!(slice_ns(), everybodys);
        };
        std::thread::spawn(life).join().expect("the thread lives");
    }
}
