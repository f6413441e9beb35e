//! The names of tasks, task groups and cookies in traces.

use crate::cookies;
use crate::names::printable;
use crate::report::RunInfo;
use runyard_engine::attr::{Cookie, GroupId, Policy};
use runyard_engine::task::TaskId;

/// The kernel's number of nice 0, and of SCHED_IDLE (`DEFAULT_PRIO`).
pub(super) const DEFAULT_PRIO: i32 = 120;
/// The kernel's number of no real-time priority (`MAX_RT_PRIO - 1`); higher ones are below it.
const LAST_RT_PRIO: i32 = 99;

/// The process number of the root group; those of other groups follow. No thread has such a number, since it is the
/// kernel's limit (`PID_MAX_LIMIT`).
const FIRST_PROCESS: i32 = 1 << 22;

/// The tasks, task groups and cookies of a run.
#[derive(Debug)]
pub(super) struct Cast {
    /// The scenario's name.
    pub(super) run: String,
    members: Vec<Member>,
    groups: Vec<String>,
    cookies: Vec<String>,
    changes: Vec<String>,
}

#[derive(Clone, Debug)]
struct Member {
    name: String,
    prio: i32,
    group: GroupId,
}

impl Cast {
    pub(super) fn of(info: &RunInfo) -> Cast {
        let len = info.tasks.iter().map(|task| task.id.index() + 1).max().unwrap_or(0);
        let nobody = Member { name: String::new(), prio: DEFAULT_PRIO, group: GroupId::ROOT };
        let mut members = vec![nobody; len];
        for task in &info.tasks {
            members[task.id.index()] = Member {
                name: printable(&task.name),
                prio: kernel_prio(task.policy),
                group: task.group,
            };
        }
        let groups = info.groups.iter().map(|group| printable(&group.path)).collect();
        let cookies = info.cookies.iter().map(|name| printable(name)).collect();
        let changes = info.changes.iter().map(|it| printable(&it.change)).collect();
        Cast { run: printable(&info.scenario), members, groups, cookies, changes }
    }

    /// Changes a task's policy.
    pub(super) fn change(&mut self, task: TaskId, policy: Policy) {
        if let Some(member) = self.members.get_mut(task.index()) {
            member.prio = kernel_prio(policy);
        }
    }

    /// The tasks of the run's scenario.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        (0..).map(TaskId).zip(&self.members).filter(|(_, it)| !it.name.is_empty()).map(|(id, _)| id)
    }

    /// The name of a task. A task that the run does not know has its number as name.
    pub(super) fn name(&self, task: TaskId) -> String {
        match self.members.get(task.index()) {
            Some(member) if !member.name.is_empty() => member.name.clone(),
            _ => format!("task-{}", task.0),
        }
    }

    /// The kernel's number of a task's priority.
    pub(super) fn prio(&self, task: TaskId) -> i32 {
        self.members.get(task.index()).map_or(DEFAULT_PRIO, |member| member.prio)
    }

    /// The process that represents a task's group.
    pub(super) fn process_of(&self, task: TaskId) -> i32 {
        process(self.members.get(task.index()).map_or(GroupId::ROOT, |member| member.group))
    }

    /// The processes with their names: those of the groups; `/` has the scenario's name.
    pub(super) fn processes(&self) -> impl Iterator<Item = (i32, String)> {
        let name = |path: &String| match path.as_str() {
            "/" => self.run.clone(),
            _ => path.clone(),
        };
        (0..).zip(&self.groups).map(move |(nth, path)| (process(GroupId(nth)), name(path)))
    }

    /// The path of a task group.
    pub(super) fn group(&self, group: GroupId) -> &str {
        self.groups.get(group.index()).map_or("/", String::as_str)
    }

    /// A change of the timeline in words.
    pub(super) fn change_in_words(&self, nth: u32) -> &str {
        self.changes.get(nth as usize).map_or("a change of the timeline", String::as_str)
    }

    /// The name of a cookie.
    pub(super) fn cookie(&self, cookie: Option<Cookie>) -> Option<String> {
        cookies::name(&self.cookies, cookie)
    }
}

/// The number of the thread that represents a task.
pub(super) fn tid(task: TaskId) -> i64 {
    task.0.cast_signed() + 1
}

fn process(group: GroupId) -> i32 {
    FIRST_PROCESS + group.index() as i32
}

/// The number of a policy in the kernel's events (`task_struct.prio`).
fn kernel_prio(policy: Policy) -> i32 {
    match policy {
        Policy::Fifo(prio) | Policy::RoundRobin(prio) => LAST_RT_PRIO - i32::from(prio.get()),
        Policy::Normal(_) | Policy::Batch(_) | Policy::Idle => {
            DEFAULT_PRIO + policy.priority() as i32
        }
    }
}
