//! A mix of everything for a given time: long polls, allocation storms, panics, timers, aborts, locks, blocking calls,
//! changes of policy, affinity and task group, groups that come and go with changing limits, tasks that spawn tasks,
//! and spurious signals. Every spawned task ends, every message arrives, and no thread is left.
//!
//! `RUNYARD_SOAK_SECONDS` is the duration, by default 3. `RUNYARD_SOAK_SEED` repeats the random choices of a run, but
//! not the machine's timing.
//!
//! The binary has the system's allocator, so threads are stopped inside it.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{cpus_of_two, ms, spin, threads, under_a_storm, until, workers};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use runyard::{
    Group, JoinHandle, Limit, Nice, Policy, RtPrio, Runtime, Task, TaskBuilder, blocking, spawn,
    sync, time, yield_now,
};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// Number of tasks that the soak runs at a time.
const AT_ONCE: usize = 64;

/// The state that the tasks of a soak share.
#[derive(Debug, Default)]
struct World {
    /// Number of tasks that were spawned. `ended` counts the tasks without a remaining owner.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Tokens that were put into the purse, less those taken out of it.
    purse: Mutex<u64>,
    put: AtomicU64,
    taken: AtomicU64,
    /// The current groups.
    groups: Mutex<Vec<Group>>,
    /// A count under the runtime's own mutex, and its expected value.
    counted: sync::Mutex<u64>,
    counts: AtomicU64,
}

impl World {
    fn group(&self, draws: &mut Draws) -> Option<Group> {
        let groups = self.groups.lock().unwrap();
        groups.get(draws.below(6) as usize).cloned()
    }
}

/// Counts the end of a task, however it ends.
struct Alive(Arc<World>);

impl Alive {
    fn new(world: &Arc<World>) -> Alive {
        world.begun.fetch_add(1, Ordering::Relaxed);
        Alive(world.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// The random choices, for a runtime with so many CPUs.
struct Draws(Pcg64Mcg, u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn micros(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound))
    }

    fn cpu(&mut self) -> usize {
        self.below(self.1) as usize
    }

    fn policy(&mut self) -> Policy {
        let prio = RtPrio::new(1 + self.below(99) as i64).unwrap();
        let nice = Nice::new(self.below(40) as i64 - 20).unwrap();
        match self.below(10) {
            0 => Policy::Fifo(prio),
            1 => Policy::RoundRobin(prio),
            2 => Policy::Batch(nice),
            3 => Policy::Idle,
            _ => Policy::Normal(nice),
        }
    }

    fn builder(&mut self) -> TaskBuilder {
        let builder = Task::builder().policy(self.policy());
        match self.below(4) {
            0 => builder.affinity([self.cpu()]),
            _ => builder,
        }
    }

    fn fork(&mut self) -> Draws {
        Draws(Pcg64Mcg::seed_from_u64(self.0.next_u64()), self.1)
    }
}

/// Runs one task's life: a few random actions. The future is boxed because a life may contain lives.
fn live(world: Arc<World>, draws: Draws, depth: u32) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(deeds(world, draws, depth))
}

async fn deeds(world: Arc<World>, mut draws: Draws, depth: u32) {
    let _alive = Alive::new(&world);
    for _ in 0..1 + draws.below(6) {
        match draws.below(16) {
            0 | 1 => spin(draws.micros(3_000)),
            2 => allocate(&mut draws),
            3 => time::sleep(draws.micros(3_000)).slack(draws.micros(500)).await,
            4 => yield_now().await,
            5 => blocking(|| thread::sleep(draws.micros(1_000))),
            6 => thread::sleep(draws.micros(4_000)),
            7 => put(&world, &mut draws),
            8 => take(&world),
            9 => Task::current().set_policy(draws.policy()),
            10 => Task::current().set_affinity([draws.cpu(), draws.cpu()]),
            11 => Task::current().set_group(world.group(&mut draws).as_ref()),
            12 => {
                let mut counted = world.counted.lock().await;
                world.counts.fetch_add(1, Ordering::Relaxed);
                *counted += 1;
                spin(draws.micros(300));
                if draws.below(2) == 0 {
                    yield_now().await;
                }
            }
            13 => {
                let mut counted = world.counted.blocking_lock();
                world.counts.fetch_add(1, Ordering::Relaxed);
                *counted += 1;
            }
            _ if depth < 3 => {
                let child = live(world.clone(), draws.fork(), depth + 1);
                let child = draws.builder().spawn(child);
                match draws.below(3) {
                    0 => child.abort(),
                    1 => drop(child.await),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    assert!(draws.below(8) > 0, "on purpose");
}

fn allocate(draws: &mut Draws) {
    let mut kept = BTreeMap::new();
    for _ in 0..draws.below(2_000) {
        kept.insert(draws.below(500), vec![1_u8; draws.below(3_000) as usize]);
    }
    assert!(kept.values().flatten().all(|&byte| byte == 1));
}

/// Holds a lock for longer than a program should.
fn put(world: &World, draws: &mut Draws) {
    let mut purse = world.purse.lock().unwrap();
    spin(draws.micros(200));
    *purse += 1;
    world.put.fetch_add(1, Ordering::Relaxed);
}

fn take(world: &World) {
    let mut purse = world.purse.lock().unwrap();
    if *purse > 0 {
        *purse -= 1;
        world.taken.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs two tasks that wake each other. If a wake-up is lost, they never end.
async fn ping_pong(rounds: u64) -> u64 {
    let (there, back) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    let (ring, hear) = (there.clone(), back.clone());
    let partner = spawn(async move {
        for _ in 0..rounds {
            ring.heard().await;
            hear.ring();
        }
    });
    for _ in 0..rounds {
        there.ring();
        back.heard().await;
    }
    partner.await.unwrap();
    rounds
}

/// A bell: each ring wakes one wait.
#[derive(Debug, Default)]
struct Bell {
    state: Mutex<(bool, Option<std::task::Waker>)>,
}

impl Bell {
    fn ring(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(std::task::Waker::wake);
    }

    async fn heard(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.state.lock().unwrap();
            if std::mem::take(&mut state.0) {
                return std::task::Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            std::task::Poll::Pending
        })
        .await;
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("it is a number"))
}

/// Creates and drops nested groups, and changes their limits.
fn regroup(runtime: &Runtime, world: &World, draws: &mut Draws) {
    let limit = |draws: &mut Draws| {
        let period = 10 + draws.below(40);
        (draws.below(3) > 0).then(|| Limit::new(ms(period / 3 + draws.below(20)), ms(period)))
    };
    let made = match world.group(draws) {
        Some(above) => above.group("below"),
        None => runtime.group("above"),
    };
    let made = made.weight(2 + draws.below(2_000) as u32).limit(limit(draws)).create();
    let gone = {
        let mut groups = world.groups.lock().unwrap();
        groups.extend(made);
        (groups.len() > 4).then(|| groups.remove(draws.below(4) as usize))
    };
    drop(gone);
    if let Some(group) = world.group(draws) {
        group.set_limit(limit(draws)).unwrap();
    }
}

/// Keeps [`AT_ONCE`] lives running until `end`. Returns how many ended normally, by a panic, or by an abort.
async fn soak(world: Arc<World>, mut draws: Draws, end: Instant) -> (u64, [u64; 3]) {
    let (mut spawned, mut ends) = (0, [0; 3]);
    let mut going = VecDeque::new();
    while Instant::now() < end || !going.is_empty() {
        if Instant::now() < end && going.len() < AT_ONCE {
            let life = live(world.clone(), draws.fork(), 0);
            let task: JoinHandle<()> = draws.builder().spawn(life);
            if draws.below(10) == 0 {
                task.abort();
            }
            spawned += 1;
            going.push_back(task);
            continue;
        }
        let first = going.pop_front().expect("some are going");
        match first.await {
            Ok(()) => ends[0] += 1,
            Err(error) if error.is_panic() => ends[1] += 1,
            Err(_) => ends[2] += 1,
        }
    }
    (spawned, ends)
}

#[test]
fn everything_at_once() {
    let seconds = number("RUNYARD_SOAK_SECONDS", 3);
    let seed = number("RUNYARD_SOAK_SEED", std::process::id().into());
    println!("RUNYARD_SOAK_SECONDS={seconds} RUNYARD_SOAK_SEED={seed}");
    // A hundred backtraces a second would hide all other output.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("on purpose") {
            eprintln!("{panic}");
        }
    }));
    let world = Arc::new(World::default());
    let end = Instant::now() + Duration::from_secs(seconds);
    let (runtime, cpus) = (workers(2), cpus_of_two() as u64);
    let soaked = || {
        runtime.block_on(async {
            let draws = Draws(Pcg64Mcg::seed_from_u64(seed), cpus);
            let lives = spawn(soak(world.clone(), draws, end));
            let mut pings = 0;
            let mut draws = Draws(Pcg64Mcg::seed_from_u64(!seed), cpus);
            while Instant::now() < end {
                regroup(&runtime, &world, &mut draws);
                pings += spawn(ping_pong(100)).await.unwrap();
                time::sleep(ms(1)).await;
            }
            assert!(pings > 0);
            lives.await.unwrap()
        })
    };
    let (spawned, ends) = under_a_storm(soaked);
    println!(
        "{spawned} tasks: {ends:?} ended well, in panic, aborted; {} threads",
        threads().len()
    );
    drop(runtime);

    assert_eq!(spawned, ends.iter().sum::<u64>(), "spawned = finished + aborted");
    assert!(ends.iter().all(|&ended| ended > 0), "all of it happened: {ends:?}");
    let (begun, ended) = (world.begun.load(Ordering::Relaxed), world.ended.load(Ordering::Relaxed));
    assert_eq!(begun, ended, "whatever began has ended");
    let [put, taken] = [&world.put, &world.taken].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(put - taken, *world.purse.lock().unwrap(), "nothing is lost under the lock");
    let counted = *world.counted.try_lock().expect("the mutex is not locked");
    assert_eq!(counted, world.counts.load(Ordering::Relaxed), "nor under the other");
    // A joined thread has ended for its waiter before it disappears from /proc.
    until(|| threads().is_empty());
}
