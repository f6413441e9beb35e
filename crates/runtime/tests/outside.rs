//! The CPUs and the quota of the process change from outside, while the runtime runs.
//!
//! Each test runs in a process of its own, whose threads are bound and whose control group changes.

#[path = "trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use child::within;
use common::{ms, until};
use runyard::{Limit, Runtime, Task, time};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// The time in which a change is followed on a busy machine. Without load it is a second.
const FOLLOWED: Duration = Duration::from_secs(10);

/// The time for which a change is checked to last: some looks.
const LASTS: Duration = Duration::from_millis(2_500);

fn one_second() -> Duration {
    Duration::from_secs(1)
}

/// Returns the threads of this process whose names begin with `runyard-`, with their names.
fn threads() -> Vec<(Pid, String)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let tid = task.file_name().to_str()?.parse().ok()?;
        name.starts_with("runyard-").then(|| (Pid::from_raw(tid).unwrap(), name))
    });
    named.collect()
}

fn set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    set
}

/// Returns the CPUs on which a thread may run, or none if it has ended.
fn cpus_of(thread: Pid) -> Vec<usize> {
    let set = sched_getaffinity(Some(thread)).ok();
    let has = |&cpu: &usize| set.as_ref().is_some_and(|set| set.is_set(cpu));
    (0..CpuSet::MAX_CPU).filter(has).collect()
}

/// Binds all threads of this process as `taskset -ap` does.
fn taskset(cpus: &[usize]) {
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let tid = task.file_name().to_str().unwrap().parse().unwrap();
        // The thread may have ended.
        let _ = sched_setaffinity(Pid::from_raw(tid), &set(cpus));
    }
}

/// Tasks that sleep and compute: one for each affinity, and two that may run on all CPUs.
struct Load {
    over: Arc<AtomicBool>,
    tasks: Vec<runyard::JoinHandle<()>>,
}

impl Load {
    fn on(runtime: &Runtime, affinities: &[usize]) -> Load {
        let over = Arc::new(AtomicBool::new(false));
        let start = |nth: usize| {
            let told = over.clone();
            let affinity = affinities.get(nth).copied();
            let task = affinity.map_or_else(Task::builder, |cpu| Task::builder().affinity([cpu]));
            let computes = async move {
                while !told.load(Ordering::Relaxed) {
                    common::spin(ms(3));
                    time::sleep(ms(1)).await;
                }
            };
            task.spawn_on(computes, runtime.handle())
        };
        let tasks = (0..affinities.len() + 2).map(start).collect();
        Load { over, tasks }
    }

    fn ends(self, runtime: &Runtime) {
        self.over.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            for task in self.tasks {
                task.await.unwrap();
            }
        });
    }
}

/// Returns the machine's CPUs of two workers, if there are two.
fn two_cpus() -> Option<[usize; 2]> {
    let all = cpus_of(gettid());
    let two = all.first_chunk().copied();
    if two.is_none() {
        eprintln!("not tried: it takes two CPUs");
    }
    two
}

/// Returns the mask and the CPU of the runtime with which a task of this affinity runs.
fn a_task_of(runtime: &Runtime, cpu: usize) -> Vec<usize> {
    let task =
        Task::builder().affinity([cpu]).spawn_on(async { cpus_of(gettid()) }, runtime.handle());
    runtime.block_on(task).unwrap()
}

fn lasts(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LASTS;
    while Instant::now() < end {
        assert!(holds());
        std::thread::sleep(ms(5));
    }
}

fn follows_taskset(pins: bool) {
    let Some([one, other]) = two_cpus() else { return };
    let runtime = Runtime::builder().workers(2).pin_workers(pins).build();
    let capacity = runtime.capacity();
    assert!(capacity <= 2 * one_second());
    let load = Load::on(&runtime, &[0, 1]);
    std::thread::sleep(ms(50));
    for kept in [one, other] {
        taskset(&[kept]);
        let is_kept =
            || threads().iter().all(|&(thread, _)| [vec![kept], vec![]].contains(&cpus_of(thread)));
        until(|| runtime.capacity() == capacity.min(one_second()) && is_kept());
        lasts(is_kept);
        // The affinity of one of these tasks cannot hold.
        assert_eq!(a_task_of(&runtime, 0), [kept]);
        assert_eq!(a_task_of(&runtime, 1), [kept]);
    }
    taskset(&[one, other]);
    until(|| runtime.capacity() == capacity);
    until(|| a_task_of(&runtime, 1) == [other]);
    until(|| a_task_of(&runtime, 0) == [one]);
    load.ends(&runtime);
}

#[test]
fn affinities_act_within_what_taskset_allows_and_hold_again_after_it() {
    within(
        6 * FOLLOWED,
        "affinities_act_within_what_taskset_allows_and_hold_again_after_it",
        || {
            follows_taskset(false);
        },
    );
}

#[test]
fn pinned_workers_stay_within_what_taskset_allows() {
    within(6 * FOLLOWED, "pinned_workers_stay_within_what_taskset_allows", || {
        follows_taskset(true)
    });
}

#[test]
fn a_thread_that_was_bound_alone_is_left_alone() {
    within(6 * FOLLOWED, "a_thread_that_was_bound_alone_is_left_alone", || {
        let Some([one, other]) = two_cpus() else { return };
        let runtime = Runtime::builder().workers(2).build();
        let load = Load::on(&runtime, &[0]);
        std::thread::sleep(ms(50));
        let is_worker = |name: &str| !["maker", "keeper"].iter().any(|it| name.contains(it));
        let workers: Vec<_> = threads().into_iter().filter(|(_, name)| is_worker(name)).collect();
        let is_kept =
            || workers.iter().all(|&(thread, _)| [vec![other], vec![]].contains(&cpus_of(thread)));
        // A thread that was given this CPU at that very moment is not seen to be bound by others.
        until(|| {
            for &(thread, _) in &workers {
                let _ = sched_setaffinity(Some(thread), &set(&[other]));
            }
            std::thread::sleep(ms(50));
            is_kept()
        });
        lasts(is_kept);
        for (thread, _) in workers {
            let _ = sched_setaffinity(Some(thread), &set(&[one, other]));
        }
        until(|| a_task_of(&runtime, 0) == [one]);
        load.ends(&runtime);
    });
}

/// A control group of this process's own for CPU time, below the one where it is.
struct OwnGroup {
    before: PathBuf,
    folder: PathBuf,
}

impl OwnGroup {
    /// Makes the group with this quota in 100 ms and moves the process there. Returns the reason if it may not.
    fn enter(micros: i64) -> Result<OwnGroup, String> {
        let text = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers
                .split(',')
                .any(|it| it == "cpu")
                .then(|| path.trim_start_matches('/').to_owned())
        });
        let own = own.ok_or("there is no control group v1 of the CPU")?;
        let before = PathBuf::from("/sys/fs/cgroup/cpu").join(own);
        let folder = before.join(format!("runyard-test-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = OwnGroup { before, folder };
        group.set(micros);
        fs::write(group.folder.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        Ok(group)
    }

    /// Sets the quota in 100 ms; -1 is none.
    fn set(&self, micros: i64) {
        fs::write(self.folder.join("cpu.cfs_period_us"), "100000").unwrap();
        fs::write(self.folder.join("cpu.cfs_quota_us"), micros.to_string()).unwrap();
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns the runtime's CPUs on which tasks run within a tenth of a second.
fn cpus_in_use(runtime: &Runtime) -> usize {
    let end = Instant::now() + ms(100);
    let mut used = std::collections::BTreeSet::new();
    while Instant::now() < end {
        let cpus = runtime.snapshot().cpus;
        used.extend(cpus.iter().filter(|cpu| cpu.running.is_some()).map(|cpu| cpu.cpu));
        std::thread::sleep(ms(1));
    }
    used.len()
}

#[test]
fn workers_beyond_a_quota_sleep_and_come_back_unless_the_program_asked_for_them() {
    within(
        9 * FOLLOWED,
        "workers_beyond_a_quota_sleep_and_come_back_unless_the_program_asked_for_them",
        || {
            let Some(_) = two_cpus() else { return };
            let group = match OwnGroup::enter(200_000) {
                Ok(group) => group,
                Err(why) => return eprintln!("not tried: {why}"),
            };
            let usual = Runtime::new();
            let (slots, capacity) = (usual.snapshot().cpus.len(), usual.capacity());
            assert_eq!((slots, capacity), (2, 2 * one_second()));
            let (above, part) = (Limit::new(ms(60), ms(100)), Limit::percent_of_machine(50.0));
            let tenants = usual.group("tenants").limit(above).create().unwrap();
            let tenant = tenants.group("tenant").limit(part).create().unwrap();
            let tightest = || tenant.held_by().unwrap().name().to_owned();
            assert_eq!(tightest(), "tenants");
            let load = Load::on(&usual, &[0, 1]);
            group.set(150_000);
            until(|| usual.capacity() == one_second());
            until(|| cpus_in_use(&usual) == 1);
            assert_eq!(tightest(), "tenant", "half of one CPU is less than 60 ms of 100");
            let offline = |runtime: &Runtime| {
                runtime.snapshot().cpus.iter().filter(|cpu| !cpu.online).count()
            };
            assert_eq!(offline(&usual), 1);
            assert_eq!(usual.snapshot().quota.unwrap().stops(), None);
            group.set(50_000);
            until(|| usual.capacity() == one_second() / 2);
            let stopped = usual.snapshot();
            assert_eq!(stopped.quota.unwrap().stops(), Some(ms(50)));
            let said = "the kernel stops this process 50ms of each period";
            assert!(stopped.to_string().contains(said), "{stopped}");
            until(|| usual.snapshot().quota.unwrap().throttled.unwrap().nr_throttled > 0);
            group.set(-1);
            until(|| usual.capacity() == 2 * one_second());
            until(|| cpus_in_use(&usual) == 2);
            assert_eq!((offline(&usual), usual.snapshot().quota), (0, None));
            assert_eq!(tightest(), "tenants");
            load.ends(&usual);
            let asked = Runtime::builder().workers(2).build();
            let load = Load::on(&asked, &[0, 1]);
            group.set(150_000);
            until(|| asked.capacity() == one_second() * 3 / 2);
            until(|| cpus_in_use(&asked) == 2);
            load.ends(&asked);
        },
    );
}
