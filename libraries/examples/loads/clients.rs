//! Clients of the service, in another process than that. Each is a thread with a connection; those that saturate it are `wrk`'s,
//! but over HTTP/2.

#[cfg(feature = "rustls")]
use crate::tls;
use crate::{Failure, http2};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How many requests for the quick route are due in a second, and over how many connections.
const RATE: u32 = 300;
const CONNECTIONS: u32 = 16;

/// How many clients always wait for a slow request.
const SLOW_CLIENTS: usize = 4;

/// The protocol that a service and its clients speak.
#[derive(Clone, Copy, Debug)]
pub enum Wire {
    Http1,
    /// HTTP/1 over TLS.
    #[cfg(feature = "rustls")]
    Tls,
    /// With prior knowledge, in the clear.
    Http2,
}

impl Wire {
    pub fn named(name: &str) -> Result<Wire, Failure> {
        match name {
            "http1" => Ok(Wire::Http1),
            #[cfg(feature = "rustls")]
            "tls" => Ok(Wire::Tls),
            #[cfg(not(feature = "rustls"))]
            "tls" => Err("TLS needs the feature `rustls`".into()),
            "http2" => Ok(Wire::Http2),
            _ => Err(format!("there is no wire {name:?}: http1, tls, http2").into()),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Wire::Http1 => "http1",
            #[cfg(feature = "rustls")]
            Wire::Tls => "tls",
            Wire::Http2 => "http2",
        }
    }
}

/// A service, as its clients know it.
pub struct Service {
    pub address: SocketAddr,
    pub wire: Wire,
    /// That of the service, if it has one.
    pub certificate: Vec<u8>,
}

/// A connection, over which one request follows the other.
pub trait Client: Send {
    /// The body of the answer.
    fn ask(&mut self, path: &str) -> Result<String, Failure>;
}

impl Service {
    pub fn connect(&self) -> Result<Box<dyn Client>, Failure> {
        let stream = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        Ok(match self.wire {
            Wire::Http1 => Box::new(Http1(BufReader::new(stream()?))),
            #[cfg(feature = "rustls")]
            Wire::Tls => {
                Box::new(Http1(BufReader::new(tls::secure(stream()?, &self.certificate)?)))
            }
            Wire::Http2 => Box::new(http2::Blocking::connect(self.address)?),
        })
    }
}

struct Http1<S>(BufReader<S>);

impl<S: Read + Write + Send> Client for Http1<S> {
    fn ask(&mut self, path: &str) -> Result<String, Failure> {
        let Http1(stream) = self;
        let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes())?;
        let mut is_well = false;
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse()?,
                None if line.starts_with("HTTP/1.1 200") => is_well = true,
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let body = String::from_utf8(body)?;
        if is_well { Ok(body) } else { Err(body.into()) }
    }
}

/// How long a quick request takes, in microseconds.
pub struct Quick {
    pub p50: f64,
    pub p99: f64,
}

/// Asks for the quick route as often as it is due, however late the answers are. A request that is not answered in time
/// counts with what it has waited.
pub fn open_loop(service: &Service, span: Duration) -> Result<Quick, Failure> {
    let every = Duration::from_secs(1) / RATE;
    let connections = hold(service, CONNECTIONS as usize)?;
    let begin = Instant::now() + Duration::from_millis(10);
    let clients: Vec<JoinHandle<Result<Vec<Duration>, Failure>>> = (0..CONNECTIONS)
        .zip(connections)
        .map(|(nth, mut client)| {
            thread::spawn(move || {
                let mut waited = Vec::new();
                let mut due = begin + every * nth;
                while due < begin + span {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    if Instant::now() < begin + span {
                        client.ask("/quick")?;
                    }
                    waited.push(due.elapsed());
                    due += every * CONNECTIONS;
                }
                Ok(waited)
            })
        })
        .collect();
    let mut waited = Vec::new();
    for client in clients {
        waited.extend(client.join().map_err(|_| "a client panicked")??);
    }
    waited.sort();
    let at = |part| waited[((waited.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    Ok(Quick { p50: at(0.5), p99: at(0.99) })
}

/// Clients that always wait for a slow request.
pub struct Background {
    answers: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Background {
    pub fn start(service: &Service) -> Result<Background, Failure> {
        let (answers, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for _ in 0..SLOW_CLIENTS {
            let mut client = service.connect()?;
            let (answers, stop) = (answers.clone(), stop.clone());
            // It ends with the service.
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && client.ask("/slow").is_ok() {
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(Background { answers, stop })
    }

    /// How many were answered, and when that was counted.
    pub fn answered(&self) -> (usize, Instant) {
        (self.answers.load(Ordering::Relaxed), Instant::now())
    }

    /// How many were answered in a second since then.
    pub fn rate_since(&self, (before, then): (usize, Instant)) -> f64 {
        let (now, instant) = self.answered();
        (now - before) as f64 / (instant - then).as_secs_f64()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How many quick requests are answered in a second, at the most.
pub fn saturate(service: &Service, connections: usize, span: Duration) -> Result<f64, Failure> {
    let scheme = match service.wire {
        Wire::Http1 => "http",
        #[cfg(feature = "rustls")]
        Wire::Tls => "https",
        Wire::Http2 => return http2::saturate(service.address, connections, span),
    };
    let mut wrk = Command::new("wrk");
    wrk.arg(format!("-c{connections}")).arg(format!("-d{}s", span.as_secs()));
    let done =
        wrk.arg(format!("{scheme}://{}/quick", service.address)).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| format!("wrk does not start: {error}"))?;
    let said = String::from_utf8(done.stdout)?;
    let rate = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    Ok(rate.ok_or_else(|| format!("wrk says no rate: {said}"))?.trim().parse()?)
}

/// So many connections, each of which has asked once.
pub fn hold(service: &Service, connections: usize) -> Result<Vec<Box<dyn Client>>, Failure> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut client = service.connect()?;
        client.ask("/quick")?;
        held.push(client);
    }
    Ok(held)
}
