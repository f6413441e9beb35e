//! Measures whether one tenant of a web server can slow down the others.
//!
//! ```text
//! cargo run --profile dist -p runyard --example tenants [SECONDS [ROUNDS]]
//! ```
//!
//! The same hyper server runs on tokio and on Runyard, on two CPUs. Three tenants send requests of 300 us on average. A
//! fourth abuses the server: 20 times a second it sends a request of 200 ms, which is twice the capacity of the
//! machine. On Runyard each tenant is a task group, each request is a task in it, and the fourth tenant may use a tenth
//! of the machine. The cost of a request is unknown in advance, so neither server has a pool for expensive ones.
//!
//! The load comes from another process, on the same CPUs. Requests arrive at random, independently of the answers (an
//! open loop). The latency of each counts from the moment at which it was due. A request without an answer after ten
//! seconds counts as ten seconds. Each round has a turn without and a turn with abuse on both runtimes. A figure is the
//! median over the rounds, and a ratio is the median of the ratios within a round.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use runyard::{Allocator, Group, Limit, Runtime, Task, spawn};
use rustix::time::{ClockId, clock_gettime};
use smol_hyper::rt::FuturesIo;
use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc::unbounded_channel;

/// No task may be stopped while it holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

/// Set when the turn is over, so that computing tasks stop.
static OVER: AtomicBool = AtomicBool::new(false);

/// Number of well-behaved tenants, requests of each in a second, and CPU time of a request, on average and at most.
const GOOD: usize = 3;
const RATE: f64 = 150.0;
const MEAN_COST: Duration = Duration::from_micros(300);
const MAX_COST: Duration = Duration::from_millis(3);
/// The tenant that abuses the server.
const ABUSER: usize = GOOD;
const ABUSES: f64 = 20.0;
const ABUSE: Duration = Duration::from_millis(200);
/// The part of the machine that it may use, in per cent.
const LIMIT: f64 = 10.0;

/// Time after which a request is given up.
const PATIENCE: Duration = Duration::from_secs(10);
const WORKERS: usize = 2;
const SECONDS: f64 = 4.0;
const ROUNDS: u64 = 10;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let texts: Vec<_> = arguments.iter().map(String::as_str).collect();
    if let ["load", address, seconds, abuse, seed] = texts[..] {
        let seconds = seconds.parse().expect("seconds");
        let load = Load { seconds, abuse: abuse == "true", seed: seed.parse().expect("a seed") };
        let address = address.parse().expect("an address");
        let [p50, p99] = load.send(address);
        println!("{p50} {p99}");
        return;
    }
    let number = |nth: usize| texts.get(nth).map(|text| text.parse().expect("a number"));
    let (seconds, rounds) = (number(0).unwrap_or(SECONDS), number(1).map_or(ROUNDS, |n| n as u64));
    let turns: [Turn; 2] = [("tokio", on_tokio), ("runyard", on_runyard)];
    let mut hosts = turns.map(|turn| (turn, Vec::new()));
    for seed in 0..rounds.max(1) {
        for ((name, turn), all) in &mut hosts {
            let [without, with] = [false, true].map(|abuse| turn(&Load { seconds, abuse, seed }));
            eprintln!("{name}: p99 {:.2} ms, with abuse {:.2} ms", without[1], with[1]);
            all.push(Round { without, with });
        }
    }
    println!("tenants that behave, ms    p50     p99   with abuse: p50      p99   p99 over p99");
    for ((name, _), rounds) in hosts {
        let median = |figure: &dyn Fn(&Round) -> f64| {
            let mut all: Vec<_> = rounds.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            (all[all.len() / 2] + all[(all.len() - 1) / 2]) / 2.0
        };
        println!(
            "{name:<22} {:>7.2} {:>7.2} {:>17.2} {:>8.2} {:>14.2}",
            median(&|round| round.without[0]),
            median(&|round| round.without[1]),
            median(&|round| round.with[0]),
            median(&|round| round.with[1]),
            median(&|round| round.with[1] / round.without[1]),
        );
    }
}

/// The name of a runtime, and a turn on it.
type Turn = (&'static str, fn(&Load) -> [f64; 2]);

/// p50 and p99 of the well-behaved tenants, in ms.
struct Round {
    without: [f64; 2],
    with: [f64; 2],
}

/// The part of a server that differs between runtimes.
trait Host: Clone + Send + Sync + 'static {
    /// Computes the answer to a request of a tenant.
    fn compute(&self, tenant: usize, span: Duration) -> impl Future<Output = ()> + Send;
}

#[derive(Clone)]
struct Tokio;

impl Host for Tokio {
    async fn compute(&self, _: usize, span: Duration) {
        let _ = tokio::spawn(async move { compute(span) }).await;
    }
}

#[derive(Clone)]
struct Runyard(Arc<[Group]>);

impl Host for Runyard {
    async fn compute(&self, tenant: usize, span: Duration) {
        let request = Task::builder().group(&self.0[tenant]);
        let _ = request.spawn(async move { compute(span) }).await;
    }
}

/// Uses `span` of CPU time.
fn compute(span: Duration) {
    let cpu_time = || {
        let spec = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(spec.tv_sec as u64, spec.tv_nsec as u32)
    };
    let end = cpu_time() + span;
    let mut hash = 0_u64;
    while cpu_time() < end && !OVER.load(Ordering::Relaxed) {
        for step in 0..10_000_u64 {
            hash = black_box(hash.wrapping_mul(31).wrapping_add(step));
        }
    }
}

/// Answers `/TENANT/MICROSECONDS`.
async fn answer<H: Host>(
    host: H,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut parts = request.uri().path().split('/').skip(1).map(|part| part.parse::<u64>());
    if let (Some(Ok(tenant)), Some(Ok(micros))) = (parts.next(), parts.next()) {
        host.compute(tenant as usize, Duration::from_micros(micros)).await;
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"done\n"))))
}

/// Returns a listener on a free port.
fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    listener.set_nonblocking(true).expect("a socket need not block");
    let address = listener.local_addr().expect("it is bound");
    OVER.store(false, Ordering::Relaxed);
    (listener, address)
}

fn on_tokio(load: &Load) -> [f64; 2] {
    let (listener, address) = listener();
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).enable_all().build().expect("it has threads");
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("it listens");
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let service = service_fn(|request| answer(Tokio, request));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let figures = load.sent_by_another(address);
    OVER.store(true, Ordering::Relaxed);
    runtime.shutdown_timeout(PATIENCE);
    figures
}

fn on_runyard(load: &Load) -> [f64; 2] {
    let (listener, address) = listener();
    let runtime = Runtime::builder().workers(WORKERS).build();
    let tenants = (0..=ABUSER).map(|tenant| {
        let limit = (tenant == ABUSER).then(|| Limit::percent_of_machine(LIMIT));
        let group = runtime.group(format!("tenant {tenant}")).limit(limit);
        group.create().expect("there is room for some tenants")
    });
    let host = Runyard(tenants.collect());
    drop(runtime.spawn(async move {
        let listener = async_io::Async::new(listener).expect("it listens");
        while let Ok((stream, _)) = listener.accept().await {
            let host = host.clone();
            drop(spawn(async move {
                let service = service_fn(|request| answer(host.clone(), request));
                let stream = FuturesIo::new(stream);
                let _ = http1::Builder::new().serve_connection(stream, service).await;
            }));
        }
    }));
    let figures = load.sent_by_another(address);
    OVER.store(true, Ordering::Relaxed);
    drop(runtime);
    figures
}

/// The load of a turn.
struct Load {
    seconds: f64,
    abuse: bool,
    seed: u64,
}

/// A request that is due.
#[derive(Clone, Copy)]
struct Arrival {
    /// Time after the beginning.
    at: Duration,
    tenant: usize,
    cost: Duration,
}

impl Load {
    /// Lets another process send the load.
    fn sent_by_another(&self, address: SocketAddr) -> [f64; 2] {
        let me = std::env::current_exe().expect("this is a program");
        let arguments = [
            "load".to_owned(),
            address.to_string(),
            self.seconds.to_string(),
            self.abuse.to_string(),
            self.seed.to_string(),
        ];
        let output = Command::new(me).args(arguments).output().expect("the load can be sent");
        let text = String::from_utf8_lossy(&output.stdout);
        let figures: Vec<f64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        figures.try_into().unwrap_or_else(|_| panic!("no figures: {output:?}"))
    }

    /// Returns all requests, in the order in which they arrive. Apart from the abuse, they are the same with and
    /// without it.
    fn arrivals(&self) -> Vec<Arrival> {
        let mut all = Vec::new();
        for tenant in 0..GOOD + usize::from(self.abuse) {
            let mut draws = Pcg64Mcg::seed_from_u64(self.seed << 8 | tenant as u64);
            let mut uniform = || (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let mut exponential = |mean: f64| -mean * (1.0 - uniform()).ln();
            let rate = if tenant == ABUSER { ABUSES } else { RATE };
            let mut at = 0.0;
            while at < self.seconds {
                at += exponential(1.0 / rate);
                let cost =
                    Duration::from_secs_f64(exponential(MEAN_COST.as_secs_f64())).min(MAX_COST);
                let cost = if tenant == ABUSER { ABUSE } else { cost };
                all.push(Arrival { at: Duration::from_secs_f64(at), tenant, cost });
            }
        }
        all.sort_by_key(|arrival| arrival.at);
        all
    }

    /// Sends the load. Returns p50 and p99 of the well-behaved tenants, in ms.
    fn send(&self, address: SocketAddr) -> [f64; 2] {
        let arrivals = self.arrivals();
        let (tell, mut due) = unbounded_channel();
        let begin = Instant::now() + Duration::from_millis(100);
        // This clock is exact to some tens of microseconds, unlike tokio's timers.
        let clock = thread::spawn(move || {
            for arrival in arrivals {
                thread::sleep((begin + arrival.at).saturating_duration_since(Instant::now()));
                let _ = tell.send(arrival);
            }
        });
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("it has a thread");
        let pools: Arc<[Pool]> = (0..=ABUSER).map(|_| Pool::default()).collect();
        let mut latencies = runtime.block_on(async {
            let mut good = Vec::new();
            while let Some(arrival) = due.recv().await {
                let pools = pools.clone();
                let request = tokio::spawn(async move {
                    let answered = pools[arrival.tenant].ask(address, arrival);
                    let _ = tokio::time::timeout(PATIENCE, answered).await;
                    (begin + arrival.at).elapsed().min(PATIENCE)
                });
                if arrival.tenant != ABUSER {
                    good.push(request);
                }
            }
            let mut latencies = Vec::new();
            for request in good {
                latencies.push(request.await.expect("a request does not panic"));
            }
            latencies
        });
        clock.join().expect("the clock does not panic");
        latencies.sort();
        let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
        [50, 99].map(|percent| at(percent).as_secs_f64() * 1e3)
    }
}

/// The unused connections of a tenant.
#[derive(Default)]
struct Pool(Mutex<Vec<SendRequest<Empty<Bytes>>>>);

impl Pool {
    async fn ask(&self, address: SocketAddr, arrival: Arrival) -> Option<()> {
        let idle = self.0.lock().expect("no task panics under the lock").pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(address).await.ok()?;
                let (send, connection) = handshake(TokioIo::new(stream)).await.ok()?;
                tokio::spawn(connection);
                send
            }
        };
        connection.ready().await.ok()?;
        let path = format!("/{}/{}", arrival.tenant, arrival.cost.as_micros());
        let request = Request::get(path).header("host", "tenants").body(Empty::new()).ok()?;
        let answer = connection.send_request(request).await.ok()?;
        answer.into_body().collect().await.ok()?;
        self.0.lock().expect("no task panics under the lock").push(connection);
        Some(())
    }
}
