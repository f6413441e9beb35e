//! A runtime requests its CPU latency while it lives. If the request is refused, the runtime reports that, and
//! everything else works.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, spin, until};
use runyard::{Runtime, spawn, time};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::env;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{self, Command};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// An environment variable of a process that a test starts for one case only.
const REFUSED: &str = "RUNYARD_TEST_NO_FILES";

/// A lock for tests that read the effective latency, because another test's request would hide their own.
static LOOKING: Mutex<()> = Mutex::new(());

/// Returns a latency for this process, so long that it affects no other process. Other processes may request less
/// meanwhile, and hide it; none requests the same.
fn own_latency() -> Duration {
    Duration::from_micros(100_000_000 + u64::from(process::id()))
}

fn asking(latency: Duration) -> Runtime {
    Runtime::builder().workers(1).cpu_latency(latency).build()
}

/// Returns the lowest requested latency; `None` if it may not be read.
fn effective() -> Option<Duration> {
    let mut bytes = [0; 4];
    File::open(DEVICE).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    let micros = u64::try_from(i32::from_ne_bytes(bytes)).expect("a latency is not negative");
    Some(Duration::from_micros(micros))
}

#[test]
fn it_is_asked_for_while_the_runtime_lives() {
    ends(|| {
        let _one = LOOKING.lock().unwrap();
        let latency = own_latency();
        let runtime = asking(latency);
        assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
        let within = |effective| effective <= latency;
        assert!(effective().is_none_or(within), "no process asks for {latency:?}");
        drop(runtime);
        // A process that another test starts has every file of this one, until it executes another program.
        until(|| effective() != Some(latency));
    });
}

#[test]
fn a_runtime_that_its_own_task_drops_asks_until_that_ends() {
    ends(|| {
        let _one = LOOKING.lock().unwrap();
        let latency = own_latency();
        let runtime = asking(latency);
        let (hand, take) = channel::<Runtime>();
        let (tell, told) = channel();
        let task = runtime.spawn(async move {
            drop(take.recv().unwrap());
            spin(ms(20));
            tell.send(effective()).unwrap();
        });
        hand.send(runtime).unwrap();
        let seen = told.recv().unwrap();
        assert!(seen.is_none_or(|seen| seen <= latency), "{seen:?} while the task ran");
        drop(task);
        until(|| effective() != Some(latency));
    });
}

#[test]
fn where_it_is_refused_the_runtime_says_so_and_works() {
    if env::var_os(REFUSED).is_some() {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Nofile, none).unwrap();
        asking(Duration::ZERO).block_on(async {
            time::sleep(ms(1)).await;
            println!("{}", spawn(async { "it works" }).await.unwrap());
        });
        return;
    }
    let mut own = Command::new(env::current_exe().unwrap());
    let test = "where_it_is_refused_the_runtime_says_so_and_works";
    let ended = own.args(["--exact", test, "--nocapture"]).env(REFUSED, "").output().unwrap();
    let (out, said) = (String::from_utf8(ended.stdout), String::from_utf8(ended.stderr));
    let (out, said) = (out.unwrap(), said.unwrap());
    assert!(ended.status.success() && out.contains("it works"), "{out}\n{said}");
    assert_eq!(said.matches(DEVICE).count(), 1, "{said}");
}
