//! An axum service beside slow requests, under load from another process. It runs on tokio, in the ways that careful
//! teams use, and on this runtime.
//!
//! ```text
//! cargo build --profile dist -p runyard-libraries --example loads
//! LOADS=target/dist/examples/loads
//! $LOADS beside 3 >> loads.txt    # beside four clients of the slow route
//! $LOADS alone 3 >> loads.txt     # the quick route alone; with `http2` or `tls` after the rounds, by these
//! $LOADS idle 3 >> loads.txt      # 1,000 connections that say nothing
//! $LOADS table < loads.txt
//! ```
//!
//! The quick route answers with a little JSON. The slow route takes 50 ms of CPU time. Each side is a process of its
//! own, and the sides take turns within each round. An open loop requests the quick route 300 times a second over 16
//! connections. Each request counts from the time at which it was due, whether or not it was answered. Then `wrk` sends
//! a request as soon as the previous one is answered. One round of `beside` takes a minute.
//!
//! TLS needs the feature `rustls`. `wrk` does not speak HTTP/2. So hyper's client sends the requests over HTTP/2, from
//! two threads as `wrk` does.

mod clients;
mod http2;
mod serve;
mod table;
#[cfg(feature = "rustls")]
mod tls;

use clients::{Background, Quick, Service, Wire, hold, open_loop, saturate};
use runyard::Allocator;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serve::{SIDES, Side, open, serve};
use std::error::Error;
use std::future::pending;
use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs, process, thread};

/// With this allocator, the runtime preempts no task that holds the allocator's lock. All sides use it.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: loads beside ROUNDS | alone ROUNDS [http1 | tls | http2] | idle ROUNDS | table | serve SIDE WIRE";

/// The length of each measurement, and of the warm-up before it.
const SPAN: Duration = Duration::from_secs(4);
const WARM_UP: Duration = Duration::from_millis(500);

/// The number of idle connections, and the time for which they are idle.
const IDLE: usize = 1_000;
const IDLE_SPAN: Duration = Duration::from_secs(8);

/// The number of connections that saturate the quick route alone, and beside the slow route.
const MANY: usize = 64;
const FEW: usize = 16;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["table"] => table::print(stdin().lock()),
        ["serve", side, wire] => be_side(side, wire),
        ["alone", rounds, wire] => run("alone", rounds, wire),
        [what, rounds] => run(what, rounds, Wire::Http1.name()),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loads: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures every side once a round. Each line of the output is one figure: its load, its side, its name and its value.
fn run(what: &str, rounds: &str, wire: &str) -> Result<(), Failure> {
    let (rounds, wire): (usize, _) = (rounds.parse()?, Wire::named(wire)?);
    let load = match wire {
        Wire::Http1 => what.to_owned(),
        _ => format!("{what} {}", wire.name()),
    };
    let (measure, sides): (Measure, _) = match what {
        "beside" => (beside, &SIDES[..]),
        "alone" => (alone, &[Side::Tokio, Side::Runyard][..]),
        "idle" => (idle, &[Side::Tokio, Side::Runyard][..]),
        _ => return Err(USAGE.into()),
    };
    for round in 0..rounds {
        // Each round begins with another side, so no side always runs first.
        for nth in 0..sides.len() {
            let side = sides[(nth + round) % sides.len()];
            for (name, figure) in measure(&Server::start(side, wire)?)? {
                println!("{load},{},{name},{figure:.3}", side.name());
            }
        }
    }
    Ok(())
}

/// Pairs of a name and a figure.
type Figures = Vec<(&'static str, f64)>;

type Measure = fn(&Server) -> Result<Figures, Failure>;

fn beside(server: &Server) -> Result<Figures, Failure> {
    let slow = Background::start(&server.service)?;
    thread::sleep(WARM_UP);
    let began = slow.answered();
    let quick = open_loop(&server.service, SPAN)?;
    let beside_open_loop = slow.rate_since(began);
    let began = slow.answered();
    let saturated = saturate(&server.service, FEW, SPAN)?;
    let slow_saturated = slow.rate_since(began);
    let Quick { p50, p99 } = quick;
    Ok(vec![
        ("p50 us", p50),
        ("p99 us", p99),
        ("slow/s", beside_open_loop),
        ("saturated/s", saturated),
        ("slow/s saturated", slow_saturated),
    ])
}

fn alone(server: &Server) -> Result<Figures, Failure> {
    let Quick { p50, p99 } = open_loop(&server.service, SPAN)?;
    let saturated = saturate(&server.service, MANY, SPAN)?;
    Ok(vec![("p50 us", p50), ("p99 us", p99), ("saturated/s", saturated)])
}

/// Returns the share of a CPU that the process uses, in per cent.
fn idle(server: &Server) -> Result<Figures, Failure> {
    let connections = hold(&server.service, IDLE)?;
    thread::sleep(WARM_UP);
    let began = server.cpu_time()?;
    thread::sleep(IDLE_SPAN);
    let used = server.cpu_time()? - began;
    drop(connections);
    Ok(vec![("CPU %", 100.0 * used.as_secs_f64() / IDLE_SPAN.as_secs_f64())])
}

/// The process of one side. It ends when this value is dropped, and when the measuring process ends.
struct Server {
    process: Child,
    service: Service,
}

impl Server {
    fn start(side: Side, wire: Wire) -> Result<Server, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command
            .args(["serve", side.name(), wire.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("the side has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let (address, certificate) =
            line.trim_end_matches('\n').split_once(' ').ok_or("the side printed no address")?;
        let byte = |nth| u8::from_str_radix(&certificate[nth..nth + 2], 16);
        let certificate = (0..certificate.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
        let service = Service { address: address.parse()?, wire, certificate };
        Ok(Server { process, service })
    }

    /// Returns the CPU time of all live threads of the process.
    fn cpu_time(&self) -> Result<Duration, Failure> {
        let mut used = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let line = fs::read_to_string(thread?.path().join("schedstat"))?;
            used += line.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(used))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn of_side(name: &str) -> Result<Side, Failure> {
    let found = SIDES.into_iter().find(|side| side.name() == name);
    found.ok_or_else(|| format!("there is no side {name:?}").into())
}

/// Serves until the process that started this one ends.
fn be_side(side: &str, wire: &str) -> Result<(), Failure> {
    let (side, wire) = (of_side(side)?, Wire::named(wire)?);
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let (entrance, service) = open(wire)?;
    let certificate: String =
        service.certificate.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{} {certificate}", service.address);
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    serve(side, entrance, pending())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn every_side_answers_on_both_routes_over_each_wire() {
        let wires = ["http1", "http2", "tls"].into_iter().filter_map(|name| Wire::named(name).ok());
        for (side, wire) in wires.flat_map(|wire| SIDES.map(|side| (side, wire))) {
            let (entrance, service) = open(wire).unwrap();
            let (end, ends) = oneshot::channel::<()>();
            let ends = async { drop(ends.await) };
            let serves = thread::spawn(move || serve(side, entrance, ends).unwrap());
            for (path, answer) in [("/quick", "[1,2,3]"), ("/slow", "computed")] {
                let mut client = service.connect().unwrap();
                assert_eq!(client.ask(path).unwrap(), answer, "{} {wire:?}", side.name());
                assert!(client.ask("/no-such").is_err());
            }
            end.send(()).unwrap();
            serves.join().unwrap();
        }
    }
}
