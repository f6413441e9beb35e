//! A small key-value server that speaks a part of Redis' protocol (RESP2: SET and GET), on tokio and on this runtime: a
//! task for each connection, and one map behind a lock. The servers differ in the line that starts a task.
//!
//! ```text
//! cargo run --profile dist -p runyard-libraries --example key_value [ROUNDS]
//! cargo run --profile dist -p runyard-libraries --example key_value serve runyard|tokio    # for redis-benchmark
//! ```
//!
//! Each server is a process of its own with two workers. Fifty clients in this process send one request each, and the
//! next one when the answer has come, for two seconds. The sides take turns within each round. The output has the
//! requests in a second and the CPU time of the server for each request: medians, and the ratios of the two sides round by
//! round, with their range.

use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, thread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::task::JoinSet;

/// With this allocator, the runtime preempts no task that holds the allocator's lock. Both sides use it.
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

const SIDES: [&str; 2] = ["tokio", "runyard"];
const WORKERS: usize = 2;
const CLIENTS: usize = 50;
const SPAN: Duration = Duration::from_secs(2);
const ROUNDS: usize = 9;

type Map = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

fn main() -> io::Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [serve, side] if serve == "serve" && side == "tokio" => {
            let mut builder = runtime::Builder::new_multi_thread();
            let tokio = builder.worker_threads(WORKERS).enable_all().build()?;
            tokio.block_on(serve_by(|connection| drop(tokio::spawn(connection))))
        }
        [serve, side] if serve == "serve" && side == "runyard" => {
            let runtime = runyard::Runtime::builder().workers(WORKERS).enable_tokio().build();
            runtime.block_on(serve_by(|connection| drop(runyard::spawn(connection))))
        }
        rounds => {
            let rounds = rounds.first().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
            compare(rounds)
        }
    }
}

/// Serves by tasks that `spawn` starts, until the parent closes the standard input.
async fn serve_by(
    spawn: impl Fn(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>),
) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    thread::spawn(|| {
        let _ = io::stdin().lines().count();
        // The last line is the CPU time.
        let used = clock_gettime(ClockId::ProcessCPUTime);
        println!("{}", used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64);
        std::process::exit(0);
    });
    let map = Map::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let map = map.clone();
        spawn(Box::pin(async move {
            // The client knows of an error of its connection.
            let _ = connection(stream, map).await;
        }));
    }
}

async fn connection(mut stream: TcpStream, map: Map) -> io::Result<()> {
    let (mut bytes, mut answers) = (Vec::new(), Vec::new());
    loop {
        while let Some((words, length)) = command(&bytes) {
            answer(&words, &map, &mut answers);
            bytes.drain(..length);
        }
        stream.write_all(&answers).await?;
        answers.clear();
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
}

fn answer(words: &[Vec<u8>], map: &Map, answers: &mut Vec<u8>) {
    let name = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
    match (&name[..], &words[1.min(words.len())..]) {
        (b"SET", [key, value, ..]) => {
            map.lock().expect("no task panics with it").insert(key.clone(), value.clone());
            answers.extend_from_slice(b"+OK\r\n");
        }
        (b"GET", [key]) => match map.lock().expect("no task panics with it").get(key) {
            Some(value) => {
                answers.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                answers.extend_from_slice(value);
                answers.extend_from_slice(b"\r\n");
            }
            None => answers.extend_from_slice(b"$-1\r\n"),
        },
        _ => answers.extend_from_slice(b"-ERR unknown command\r\n"),
    }
}

/// Returns the words of the first command, an array of strings, and its length; `None` if it is not there as a whole.
fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let line = bytes.get(*at..)?;
        let end = line.windows(2).position(|two| two == b"\r\n")?;
        *at += end + 2;
        std::str::from_utf8(line.get(1..end)?).ok()?.parse::<usize>().ok()
    };
    let mut words = Vec::new();
    for _ in 0..number(&mut at)? {
        let length = number(&mut at)?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn compare(rounds: usize) -> io::Result<()> {
    let mut measured = SIDES.map(|_| Vec::new());
    for _ in 0..rounds.max(1) {
        for (side, figures) in SIDES.into_iter().zip(&mut measured) {
            figures.push(measure(side)?);
        }
    }
    let [tokio, runyard] = measured;
    for (nth, name) in ["requests/s", "CPU time of a request, us"].into_iter().enumerate() {
        let of = |figures: &[[f64; 2]]| sorted(figures.iter().map(|figures| figures[nth]));
        let pairs = runyard.iter().zip(&tokio);
        let ratios = sorted(pairs.map(|(ours, theirs)| ours[nth] / theirs[nth]));
        let [ours, theirs, ratio] =
            [of(&runyard), of(&tokio), ratios.clone()].map(|list| list[list.len() / 2]);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        println!(
            "{name:<27} runyard {ours:.1}  tokio {theirs:.1}  ratio {ratio:.2} [{least:.2}-{most:.2}]"
        );
    }
    Ok(())
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// Returns the requests in a second, and the CPU time of the server for each, in microseconds.
fn measure(side: &str) -> io::Result<[f64; 2]> {
    let mut server = Command::new(env::current_exe()?)
        .args(["serve", side])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines();
    let mut number = || -> io::Result<u64> {
        let line = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        line.parse().map_err(io::Error::other)
    };
    let port = number()? as u16;
    let (answered, begin) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let clients = runtime::Builder::new_current_thread().enable_all().build()?;
    clients.block_on(async {
        let mut all = JoinSet::new();
        for nth in 0..CLIENTS {
            all.spawn(client(port, nth, begin + SPAN, answered.clone()));
        }
        all.join_all().await.into_iter().collect::<io::Result<()>>()
    })?;
    let (answered, took) = (answered.load(Ordering::Relaxed) as f64, begin.elapsed().as_secs_f64());
    drop(server.stdin.take());
    let used = number()? as f64;
    server.wait()?;
    Ok([answered / took, used / 1e3 / answered])
}

/// Sets and gets a key in turn until the time is over.
async fn client(port: u16, nth: usize, until: Instant, answered: Arc<AtomicU64>) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (mut set, mut get, mut bytes) = (Vec::new(), Vec::new(), [0; 64]);
    let key = format!("key:{nth:04}");
    write!(set, "*3\r\n$3\r\nSET\r\n$8\r\n{key}\r\n$3\r\nabc\r\n")?;
    write!(get, "*2\r\n$3\r\nGET\r\n$8\r\n{key}\r\n")?;
    while Instant::now() < until {
        for (request, expected) in [(&set, &b"+OK\r\n"[..]), (&get, b"$3\r\nabc\r\n")] {
            stream.write_all(request).await?;
            let there = &mut bytes[..expected.len()];
            stream.read_exact(there).await?;
            assert_eq!(there, expected, "the server answers what was asked");
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_when_it_is_there_as_a_whole() {
        let whole = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n*2\r\n";
        let words = [&b"SET"[..], b"k", b"vv"].map(<[u8]>::to_vec).to_vec();
        assert_eq!(command(whole), Some((words, whole.len() - 4)));
        for length in 0..whole.len() - 4 {
            assert_eq!(command(&whole[..length]), None);
        }
    }
}
