//! The clients of the service, which run in another process. Each is a thread with a connection. `wrk` saturates the
//! service over HTTP/1 and TLS, and the clients of `http2` over HTTP/2.

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

/// The number of requests for the quick route that are due in a second, and the number of connections for them.
const RATE: u32 = 300;
const CONNECTIONS: u32 = 16;

/// The number of clients that request the slow route continuously.
const SLOW_CLIENTS: usize = 4;

/// The protocol that a service and its clients speak.
#[derive(Clone, Copy, Debug)]
pub enum Wire {
    Http1,
    /// HTTP/1 over TLS.
    #[cfg(feature = "rustls")]
    Tls,
    /// HTTP/2 with prior knowledge, without TLS.
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

/// The address, protocol and certificate of a service, as its clients need them.
pub struct Service {
    pub address: SocketAddr,
    pub wire: Wire,
    /// The certificate of the service. It is empty without TLS.
    pub certificate: Vec<u8>,
}

/// A connection with one request at a time.
pub trait Client: Send {
    /// Sends a request, and returns the body of the response.
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

/// The quantiles of the time that a quick request takes, in microseconds.
pub struct Quick {
    pub p50: f64,
    pub p99: f64,
}

/// Requests the quick route at a fixed rate, however late the responses are. A request whose turn comes only after the
/// end of `span` is not sent, and counts with its wait so far.
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

/// The clients that request the slow route continuously.
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
            // The thread ends with the service at the latest.
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && client.ask("/slow").is_ok() {
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(Background { answers, stop })
    }

    /// Returns the number of responses so far, and the time of the count.
    pub fn answered(&self) -> (usize, Instant) {
        (self.answers.load(Ordering::Relaxed), Instant::now())
    }

    /// Returns the number of responses in a second since an earlier count.
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

/// Returns the highest number of quick requests that the service answers in a second.
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
    Ok(rate.ok_or_else(|| format!("wrk printed no rate: {said}"))?.trim().parse()?)
}

/// Opens `connections` connections, and sends one quick request over each of them.
pub fn hold(service: &Service, connections: usize) -> Result<Vec<Box<dyn Client>>, Failure> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut client = service.connect()?;
        client.ask("/quick")?;
        held.push(client);
    }
    Ok(held)
}
