//! The requests to the kernel for the calling thread, and the kernel's counts of it.
//!
//! The kernel's counts do not begin with the task: [`Counts::read`] is taken before a task starts, and subtracted at
//! the end. Two figures differ from the report's definition. A migration is any move between run queues, even of a
//! thread that did not run there. A yield counts as a loss of the CPU, so the preemptions of a task that yields are
//! unknown.

use super::cgroup::Stat;
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

/// The smallest timer slack that can be asked for; 0 asks for the default.
const LEAST_SLACK: NonZeroU64 = NonZeroU64::MIN;

/// The figures of a finished task, by the kernel and by the task itself.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) runtime: Nanos,
    /// `None`, here and below, if the kernel does not provide it.
    pub(super) wait: Option<Nanos>,
    pub(super) switches: Option<u64>,
    pub(super) preemptions: Option<u64>,
    pub(super) migrations: Option<u64>,
    pub(super) stats: TaskStats,
}

/// The results of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The end of the run.
    pub(super) end: Time,
    /// The figures of each task.
    pub(super) figures: Vec<Figures>,
    /// The effect of the limits on the scenario's groups; `None` if all tasks were in `/`.
    pub(super) limits: Option<Vec<Stat>>,
}

/// The kernel's counts of a thread.
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

    /// The figures of the calling thread since `self`; the task itself has collected `stats`. The thread was switched
    /// in as often as it was switched out: it executed then and it executes now.
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

/// Gives the calling thread the attributes `asked`: all of them, or those that differ from `was`.
pub(super) fn apply(asked: &Asked, was: Option<&Asked>, ground: &Ground) -> Result<(), String> {
    let (new, old) = (&asked.attr, was.map(|was| &was.attr));
    let regroups = old.is_none_or(|old| old.group != new.group);
    let reset = old.is_none_or(|old| old.affinity != new.affinity);
    // In the second version the group brings its cpuset along, which must have the CPUs before the task asks for them.
    if let Some(sets) = &ground.sets {
        if regroups {
            sets.enter(new.group).map_err(|why| refused("a cpuset", why))?;
        }
    } else if reset {
        set_affinity(new, ground)?;
    }
    if old.is_none_or(|old| old.slack != new.slack) {
        let slack = NonZeroU64::new(new.slack.0).unwrap_or(LEAST_SLACK);
        set_current_timer_slack(Some(slack)).map_err(|error| refused("a timer slack", error))?;
    }
    // A task that becomes real-time leaves its group before the change, and comes back if the kernel takes it. A task
    // that ceases to be real-time enters its group after the change.
    let is_real_time = |attr: &Attr| !attr.policy.class().is_fair();
    let leaves = is_real_time(new) && old.is_some_and(|old| !is_real_time(old));
    let changes = old.is_none_or(|old| is_real_time(old) != is_real_time(new));
    let enter = |group| match &ground.groups {
        Some(groups) => groups.enter(group),
        None => Ok(()),
    };
    if leaves {
        enter(None).map_err(|why| refused("the command's task group", why))?;
    }
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
    let taken = !is_real_time(new) || ground.takes_real_time();
    if (regroups || changes) && taken {
        match (enter(Some(new.group)), is_real_time(new)) {
            (Err(why), true) => ground.say_that_real_time_is_refused(&why),
            (entered, _) => entered.map_err(|why| refused("a task group", why))?,
        }
    }
    if ground.sets.is_some() && (regroups || changes || reset) {
        set_affinity(new, ground)?;
    }
    if let Some(cookies) = &ground.cookies {
        let wanted = cookies.wanted(new);
        if old.is_none_or(|old| cookies.wanted(old) != wanted) {
            cookies.take(wanted).map_err(|error| refused("a cookie", error))?;
        }
    }
    Ok(())
}

fn set_affinity(new: &Attr, ground: &Ground) -> Result<(), String> {
    let mut set = CpuSet::new();
    new.affinity.iter().for_each(|cpu| set.set(ground.cpus[cpu.index()]));
    sched_setaffinity(None, &set)
        .map_err(|error| refused(format_args!("CPUs {}", new.affinity), error))
}

/// Asks for the task's slice, or for the default: a thread inherits the slice of its creator. A task that is neither
/// SCHED_OTHER nor SCHED_BATCH has no slice; it asks again when its policy changes.
fn set_slice(new: &Attr, ground: &Ground) {
    let has_one = matches!(new.policy, Policy::Normal(_) | Policy::Batch(_));
    if has_one && !runyard::kernel::set_slice(new.slice.map(Slice::get)) && new.slice.is_some() {
        ground.say_that_slices_are_refused();
    }
}

/// The kernel accepts a deadline task if the task may run on all CPUs, and if all such tasks together leave the CPUs
/// some time.
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
    // The library has its own numbers for nice values; its conversion gives their meaning.
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

    /// The slice of the calling thread in nanoseconds, if the kernel provides it.
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
