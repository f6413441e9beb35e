//! An axum service beside slow requests, under load from another process: on tokio as careful teams run it, and on this runtime.
//!
//! ```text
//! cargo build --release -p runyard-libraries --example loads
//! LOADS=target/release/examples/loads
//! $LOADS beside 3 >> loads.txt    # beside four clients of the slow route
//! $LOADS alone 3 >> loads.txt     # the quick route alone
//! $LOADS idle 3 >> loads.txt      # 1,000 connections that say nothing
//! $LOADS table < loads.txt
//! ```
//!
//! The quick route answers with a little JSON. The slow one takes 50 ms of CPU time. Each side is a process of its own, and
//! sides take turns within each round. An open loop asks for the quick route 300 times a second over 16 connections: each
//! request counts from when it was due, answered or not. Then `wrk` asks as often as it is answered. One round of `beside` takes a minute.

mod clients;
mod serve;
mod table;

use clients::{Background, Quick, hold, open_loop, saturate};
use runyard::Allocator;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serve::{SIDES, Side, serve};
use std::error::Error;
use std::future::pending;
use std::io::{BufRead, BufReader, Read, stdin};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs, process, thread};

/// Nobody is to be stopped with the allocator's lock. All sides have it.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: loads beside ROUNDS | alone ROUNDS | idle ROUNDS | table | serve SIDE";

/// For how long each load is measured, and how long it has to get going.
const SPAN: Duration = Duration::from_secs(4);
const WARM_UP: Duration = Duration::from_millis(500);

/// How many connections are idle, and for how long.
const IDLE: usize = 1_000;
const IDLE_SPAN: Duration = Duration::from_secs(8);

/// How many connections saturate the quick route alone, and beside the slow one.
const MANY: usize = 64;
const FEW: usize = 16;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["table"] => table::print(stdin().lock()),
        ["serve", side] => of_side(side).and_then(be_side),
        [what, rounds] => {
            rounds.parse().map_err(Failure::from).and_then(|rounds| run(what, rounds))
        }
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

/// Measures every side once a round. Each figure is a line of the output: its load, its side, its name, and itself.
fn run(what: &str, rounds: usize) -> Result<(), Failure> {
    let (measure, sides): (Measure, _) = match what {
        "beside" => (beside, &SIDES[..]),
        "alone" => (alone, &[Side::Tokio, Side::Runyard][..]),
        "idle" => (idle, &[Side::Tokio, Side::Runyard][..]),
        _ => return Err(USAGE.into()),
    };
    for round in 0..rounds {
        // Nobody always comes after the same side.
        for nth in 0..sides.len() {
            let side = sides[(nth + round) % sides.len()];
            for (name, figure) in measure(&Server::start(side)?)? {
                println!("{what},{},{name},{figure:.3}", side.name());
            }
        }
    }
    Ok(())
}

/// Figures with their names.
type Figures = Vec<(&'static str, f64)>;

type Measure = fn(&Server) -> Result<Figures, Failure>;

fn beside(server: &Server) -> Result<Figures, Failure> {
    let slow = Background::start(server.address)?;
    thread::sleep(WARM_UP);
    let began = slow.answered();
    let quick = open_loop(server.address, SPAN)?;
    let beside_open_loop = slow.rate_since(began);
    let began = slow.answered();
    let saturated = saturate(server.address, FEW, SPAN)?;
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
    let Quick { p50, p99 } = open_loop(server.address, SPAN)?;
    let saturated = saturate(server.address, MANY, SPAN)?;
    Ok(vec![("p50 us", p50), ("p99 us", p99), ("saturated/s", saturated)])
}

/// How much of a CPU the process takes, in per cent.
fn idle(server: &Server) -> Result<Figures, Failure> {
    let connections = hold(server.address, IDLE)?;
    thread::sleep(WARM_UP);
    let began = server.cpu_time()?;
    thread::sleep(IDLE_SPAN);
    let used = server.cpu_time()? - began;
    drop(connections);
    Ok(vec![("CPU %", 100.0 * used.as_secs_f64() / IDLE_SPAN.as_secs_f64())])
}

/// A process that is a side. It ends when this is dropped, and when this process ends.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(side: Side) -> Result<Server, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["serve", side.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("the side has an output")?;
        BufReader::new(output).read_line(&mut line)?;
        Ok(Server { process, address: line.trim().parse()? })
    }

    /// The CPU time of all its threads that still live.
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
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn of_side(name: &str) -> Result<Side, Failure> {
    let found = SIDES.into_iter().find(|side| side.name() == name);
    found.ok_or_else(|| format!("there is no side {name:?}").into())
}

/// Serves until the process that started this one ends.
fn be_side(side: Side) -> Result<(), Failure> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    serve(side, listener, pending())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clients::Client;
    use tokio::sync::oneshot;

    #[test]
    fn every_side_answers_on_both_routes() {
        for side in SIDES {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (end, ends) = oneshot::channel::<()>();
            let ends = async { drop(ends.await) };
            let serves = thread::spawn(move || serve(side, listener, ends).unwrap());
            for (path, answer) in [("/quick", "[1,2,3]"), ("/slow", "computed")] {
                let mut client = Client::connect(address).unwrap();
                assert_eq!(client.ask(path).unwrap(), answer, "{}", side.name());
            }
            end.send(()).unwrap();
            serves.join().unwrap();
        }
    }
}
