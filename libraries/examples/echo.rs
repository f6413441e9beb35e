//! The cost of a message over a socket, and the lateness of a sleep of tokio's: on tokio, and on this runtime with each
//! of its drivers.
//!
//! ```text
//! cargo run --profile dist -p runyard-libraries --example echo [ROUNDS] [WORKERS]
//! ```
//!
//! One client sends 32 bytes over loopback, and waits for their echo: alone, and beside tasks that only yield. Then a
//! task sleeps for 5 ms repeatedly: alone, and beside two tasks that compute for 50 ms at a time. The runtimes take
//! turns within each round. Each runtime has two workers, or the given number. The output has the median, the minimum
//! and the maximum over the rounds of each round's figure, which is a median where nothing else is said.

use runyard::{Allocator, Runtime};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;

/// With this allocator, the runtime preempts no task that holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

const ROUNDS: usize = 10;
const BYTES: usize = 32;
const ECHOES: usize = 4_000;
const SLEEPS: usize = 50;
const SLEEP: Duration = Duration::from_millis(5);
const POLL: Duration = Duration::from_millis(50);

/// The tasks that only yield beside an echo: their number, and how long each computes before it yields.
const YIELDERS: [(usize, Duration); 3] =
    [(2, Duration::ZERO), (8, Duration::ZERO), (64, Duration::from_micros(20))];

/// The number of workers of each runtime.
fn workers() -> usize {
    std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// The runtime that runs the tasks, and its driver.
#[derive(Clone, Copy)]
enum Host {
    Tokio,
    Handle,
    Own,
}

const HOSTS: [(&str, Host); 3] =
    [("tokio", Host::Tokio), ("with a handle", Host::Handle), ("own driver", Host::Own)];

const MEASURES: [&str; 10] = [
    "echo, us",
    "beside 2 that yield, us",
    "99 % of these",
    "beside 8 that yield, us",
    "99 % of these",
    "beside 64 of 20 us, us",
    "99 % of these",
    "sleep alone, late by ms",
    "beside polls of 50 ms",
    "the latest of these",
];

fn main() -> io::Result<()> {
    let rounds = std::env::args().nth(1).map_or(ROUNDS, |text| text.parse().unwrap_or(ROUNDS));
    let mut all = [[(); MEASURES.len()]; HOSTS.len()].map(|host| host.map(|()| Vec::new()));
    for _ in 0..rounds.max(1) {
        for (nth, (_, host)) in HOSTS.into_iter().enumerate() {
            let measured = on(host)?;
            all[nth].iter_mut().zip(measured).for_each(|(figures, new)| figures.push(new));
        }
    }
    for (measure, name) in MEASURES.into_iter().enumerate() {
        print!("{name:<24}");
        for (nth, (host, _)) in HOSTS.into_iter().enumerate() {
            let figures = &mut all[nth][measure];
            let [least, middle, most] = [0.0, 0.5, 1.0].map(|part| at(figures, part));
            print!("  {host} {middle:.2} [{least:.2}-{most:.2}]");
        }
        println!();
    }
    Ok(())
}

/// Returns the figures of one round.
fn on(host: Host) -> io::Result<[f64; MEASURES.len()]> {
    let tokio =
        |workers| runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runyard = || Runtime::builder().workers(workers());
    match host {
        Host::Tokio => {
            let tokio = tokio(workers())?;
            let spawn = |task: Task| drop(tokio.spawn(task));
            Ok(measure(&spawn))
        }
        Host::Handle => {
            let driver = tokio(1)?;
            let runtime = runyard().tokio(driver.handle().clone()).build();
            let spawn = |task: Task| drop(runtime.spawn(task));
            Ok(measure(&spawn))
        }
        Host::Own => {
            let runtime = runyard().enable_tokio().build();
            let spawn = |task: Task| drop(runtime.spawn(task));
            Ok(measure(&spawn))
        }
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

fn measure(spawn: &dyn Fn(Task)) -> [f64; MEASURES.len()] {
    let mut echoes = run(spawn, echo());
    let [[two, two99], [eight, eight99], [many, many99]] = YIELDERS.map(|hogs| {
        let mut beside = run_beside(spawn, hogs, echo());
        [0.5, 0.99].map(|part| at(&mut beside, part))
    });
    let mut alone = run(spawn, sleeps());
    let mut beside = run_beside(spawn, (workers(), POLL), sleeps());
    let echo = at(&mut echoes, 0.5);
    let (sleep, late, latest) = (at(&mut alone, 0.5), at(&mut beside, 0.5), at(&mut beside, 1.0));
    [echo, two, two99, eight, eight99, many, many99, sleep, late, latest]
}

/// Runs a task beside a number of tasks that compute for so long at a time, and returns its result.
fn run_beside(
    spawn: &dyn Fn(Task),
    (hogs, poll): (usize, Duration),
    task: impl Future<Output = Vec<f64>> + Send + 'static,
) -> Vec<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..hogs {
        spawn(Box::pin(compute(poll, stop.clone())));
    }
    let figures = run(spawn, task);
    stop.store(true, Ordering::Relaxed);
    figures
}

/// Runs a task to its end, and returns its result.
fn run(spawn: &dyn Fn(Task), task: impl Future<Output = Vec<f64>> + Send + 'static) -> Vec<f64> {
    let (send, receive) = std::sync::mpsc::channel();
    spawn(Box::pin(async move { send.send(task.await).expect("`run` waits for it") }));
    receive.recv().expect("the task ends")
}

/// Returns the time that each echo took, in microseconds. The server is a task of its own.
async fn echo() -> Vec<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address);
    let (client, server) = tokio::join!(client, listener.accept());
    let (mut client, mut server) = (client.expect("it connects"), server.expect("it connects").0);
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a stream of TCP can do that");
    }
    let serves = async move {
        let mut bytes = [0; BYTES];
        while server.read_exact(&mut bytes).await.is_ok() {
            server.write_all(&bytes).await.expect("the client reads");
        }
    };
    let has_runyard = runyard::Handle::try_current().is_ok();
    if has_runyard {
        drop(runyard::spawn(serves));
    } else {
        drop(tokio::spawn(serves));
    }
    let mut took = Vec::with_capacity(ECHOES);
    let mut bytes = [7; BYTES];
    for _ in 0..ECHOES {
        let began = Instant::now();
        client.write_all(&bytes).await.expect("the server reads");
        client.read_exact(&mut bytes).await.expect("the server answers");
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    took
}

/// Returns the lateness of each sleep, in milliseconds.
async fn sleeps() -> Vec<f64> {
    let mut late = Vec::with_capacity(SLEEPS);
    for _ in 0..SLEEPS {
        let began = Instant::now();
        tokio::time::sleep(SLEEP).await;
        late.push((began.elapsed() - SLEEP).as_secs_f64() * 1e3);
    }
    late
}

/// Computes for `poll` at a time, until `stop` is set.
async fn compute(poll: Duration, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        if !poll.is_zero() {
            let began = Instant::now();
            while began.elapsed() < poll {
                std::hint::black_box(0);
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Sorts the figures, and returns the quantile `part`.
fn at(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[((figures.len() - 1) as f64 * part) as usize]
}
