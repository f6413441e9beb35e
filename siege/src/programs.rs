//! The programs. Each uses other people's code inside tasks in a small way, and checks its results.

mod channels;
mod compute;
mod concurrent;
mod database;
mod futures;
mod locks;
mod log;
mod net;
mod outside;
mod pools;
mod process;
mod sql;
mod threads;
mod tls;
mod web;

pub use threads::is_on_purpose;

use crate::draws::Draws;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The timeout of the libraries. It is longer than the watchdog's deadline, as the watchdog reports more about a hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// The work of a round. It panics if a result is wrong.
pub type Round = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A program: its name, its needs, and its rounds.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether it needs a driver of tokio's.
    pub needs_driver: bool,
    /// Makes a round, which takes some milliseconds on an idle machine.
    pub round: fn(Draws) -> Round,
}

/// Declares a program by the async function of its round.
macro_rules! program {
    ($family:ident :: $round:ident) => {
        Program { needs_driver: false, ..program!($family::$round, with a driver) }
    };
    ($family:ident :: $round:ident, with a driver) => {
        Program {
            name: stringify!($round),
            needs_driver: true,
            round: |draws| Box::pin($family::$round(draws)),
        }
    };
}

/// All programs.
pub const PROGRAMS: &[Program] = &[
    program!(futures::shared),
    program!(futures::unordered),
    program!(channels::tokio_mpsc),
    program!(channels::tokio_broadcast),
    program!(channels::tokio_oneshot),
    program!(channels::async_channels),
    program!(channels::flume_channels),
    program!(locks::tokio_mutex),
    program!(locks::tokio_notify),
    program!(locks::events),
    program!(locks::parking),
    program!(locks::dash),
    program!(concurrent::channel),
    program!(concurrent::epochs),
    program!(concurrent::deques),
    program!(pools::global_pool),
    program!(pools::own_pool),
    program!(log::lines),
    program!(compute::patterns),
    program!(compute::json),
    program!(compute::compression),
    program!(sql::own_database),
    program!(sql::shared_database),
    program!(database::pooled, with a driver),
    program!(tls::handshake),
    program!(tls::streams, with a driver),
    program!(net::echo, with a driver),
    program!(net::timers, with a driver),
    program!(net::files, with a driver),
    program!(web::asked_by_hyper, with a driver),
    program!(web::asked_by_reqwest, with a driver),
    program!(process::children),
    program!(process::names),
    program!(process::forks),
    program!(process::hooks),
    program!(process::deaf),
    program!(outside::masks),
    program!(outside::quotas),
    program!(outside::storms),
    program!(outside::coroutines),
    program!(threads::destructors),
    program!(threads::panics),
    program!(threads::libraries),
];

/// Waits for all of these tasks, and returns their results. It panics if one of them has panicked.
async fn all<T>(tasks: impl IntoIterator<Item = runyard::JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap_or_else(|error| panic!("a task of the round: {error}")));
    }
    results
}
