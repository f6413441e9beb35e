//! The clients of the service, which measure it. They are plain threads of the same process.

use crate::orders::Failure;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The time between two orders.
const EVERY: Duration = Duration::from_millis(5);

/// The number of clients that request reports for a paying tenant. As many request them for a tenant on trial.
const REPORTERS: usize = 2;

const SECONDS: f64 = 3.0;

/// The measurements of the clients.
pub struct Measured {
    /// The times that orders took, counted from when they were due, in ascending order.
    pub orders: Vec<Duration>,
    /// The lateness of each heartbeat, in ascending order.
    pub beats: Vec<Duration>,
    /// The number of reports for paying tenants.
    pub nr_paid: usize,
    /// The number of reports for tenants on trial.
    pub nr_trial: usize,
}

/// The length of the run, and the function that receives the measurements.
pub struct Load {
    span: Duration,
    tell: Box<dyn FnOnce(&Measured) + Send>,
}

impl Load {
    pub fn new(span: Duration, tell: impl FnOnce(&Measured) + Send + 'static) -> Load {
        Load { span, tell: Box::new(tell) }
    }

    /// Makes a load that lasts for the seconds of the first argument and prints a table.
    pub fn from_arguments() -> Result<Load, Failure> {
        let seconds = env::args().nth(1).map_or(Ok(SECONDS), |text| text.parse())?;
        Ok(Load::new(Duration::try_from_secs_f64(seconds)?, print))
    }

    /// Starts the clients. Returns the channel for the heartbeat's measurements, and a future that is ready when the
    /// clients have ended.
    pub fn start(self, service: SocketAddr) -> (Sender<Duration>, impl Future<Output = ()> + Send) {
        let (beat, beats) = channel();
        let (end, ends) = oneshot::channel::<()>();
        thread::spawn(move || {
            (self.tell)(&run(service, self.span, &beats));
            drop(end);
        });
        let ends = async {
            let _ = ends.await;
        };
        (beat, ends)
    }
}

fn print(measured: &Measured) {
    println!("            p50 ms    p99 ms     latest");
    for (name, waited) in [("orders", &measured.orders), ("heartbeat", &measured.beats)] {
        let nth = |part| waited[((waited.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        println!("{name:<9} {:8.2}  {:8.2}   {:8.2}", nth(0.5), nth(0.99), nth(1.0));
    }
    println!(
        "reports: {} for paying tenants, {} for trial tenants",
        measured.nr_paid, measured.nr_trial
    );
}

fn run(service: SocketAddr, span: Duration, beats: &Receiver<Duration>) -> Measured {
    let until = Instant::now() + span;
    let (orders, nr_paid, nr_trial) = thread::scope(|scope| {
        let reporters = |tenant| {
            let all =
                [(); REPORTERS].map(|()| scope.spawn(move || reports(service, tenant, until)));
            move || all.map(|one| one.join().expect("reports are answered")).iter().sum()
        };
        let (paid, trial) = (reporters("paid"), reporters("trial"));
        (orders(service, until), paid(), trial())
    });
    let mut measured = Measured { orders, beats: beats.try_iter().collect(), nr_paid, nr_trial };
    measured.orders.sort();
    measured.beats.sort();
    measured
}

fn orders(service: SocketAddr, until: Instant) -> Vec<Duration> {
    let mut client = Client::connect(service, "paid");
    let mut waited = Vec::new();
    let mut due = Instant::now();
    while due < until {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.ask("POST", "/orders", "700");
        waited.push(due.elapsed());
        due += EVERY;
    }
    waited
}

fn reports(service: SocketAddr, tenant: &'static str, until: Instant) -> usize {
    let mut client = Client::connect(service, tenant);
    let mut answers = 0;
    while Instant::now() < until {
        client.ask("GET", "/report", "");
        answers += 1;
    }
    answers
}

/// A connection with one request at a time.
pub struct Client {
    stream: BufReader<TcpStream>,
    tenant: &'static str,
}

impl Client {
    pub fn connect(service: SocketAddr, tenant: &'static str) -> Client {
        let stream = TcpStream::connect(service).expect("the service listens");
        stream.set_nodelay(true).expect("it is a TCP connection");
        Client { stream: BufReader::new(stream), tenant }
    }

    /// Sends a request, and returns the body of the response.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let (tenant, length) = (self.tenant, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: here\r\ntenant: {tenant}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("the service reads");
        let status = self.line();
        let mut length = 0;
        loop {
            let line = self.line();
            match line.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().expect("a length"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the service answers");
        let body = String::from_utf8(body).expect("text");
        assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
        body
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the service answers");
        line.trim_end().to_owned()
    }
}
