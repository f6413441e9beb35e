//! Work of the C library and the kernel for a task: child processes of each kind, names of hosts, and signal masks.

use super::all;
use crate::draws::Draws;
use nix::sys::signal::SigSet;
use runyard::trial::{Birth, before_exec, exit_at_once, fork, status_of};
use runyard::{blocking, spawn};
use std::io::{Read, Write};
use std::net::ToSocketAddrs;
use std::process::{Command, Stdio};

/// Starts children that copy their input to their output.
pub async fn children(mut draws: Draws) {
    let tasks = draws.within(1, 4);
    let turn = |_| {
        let (number, length) = (draws.number(), draws.within(1, 200));
        spawn(async move {
            let text = format!("{number} ").repeat(length as usize);
            let mut child = Command::new("cat")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("there is a program `cat`");
            // The text fits into a pipe, so neither process waits for the other.
            child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
            let mut said = String::new();
            child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("it writes");
            assert!(child.wait().expect("it ends").success());
            assert!(said == text, "a child gives back what it was told");
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Calls `getaddrinfo`, which needs no network for this name.
pub async fn names(mut draws: Draws) {
    let tasks = draws.within(1, 6);
    let turn = |_| {
        let port = draws.within(1, 60_000) as u16;
        spawn(async move {
            let found = ("localhost", port).to_socket_addrs().expect("the host has a name");
            let found: Vec<_> = found.collect();
            let ours = |at: &std::net::SocketAddr| at.port() == port && at.ip().is_loopback();
            assert!(!found.is_empty() && found.iter().all(ours), "{found:?}");
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Computes and allocates a little. Returns the same number always.
fn sum() -> i32 {
    (0..50).map(|nth| vec![1_i32; nth].iter().sum::<i32>()).sum::<i32>() % 101
}

/// Makes children by fork that compute, allocate and exit.
pub async fn forks(mut draws: Draws) {
    let tasks = draws.within(1, 3);
    let turn = |_| {
        let waits = draws.within(0, 1) == 1;
        spawn(async move {
            let child = || match fork(Birth::Fork) {
                None => exit_at_once(sum()),
                Some(child) => status_of(child),
            };
            let status = if waits { blocking(child) } else { child() };
            assert_eq!(status, sum(), "a child computes as its parent does");
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Starts programs with code before their exec that computes and allocates.
pub async fn hooks(mut draws: Draws) {
    let tasks = draws.within(1, 3);
    let turn = |_| {
        spawn(async move {
            let mut command = Command::new("true");
            before_exec(&mut command, || assert_eq!(sum(), sum()));
            assert!(command.status().expect("it starts").success());
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Blocks all signals in polls that compute, and mostly leaves them blocked.
pub async fn deaf(mut draws: Draws) {
    let tasks = draws.within(1, 3);
    let turn = |_| {
        let (rounds, mends) = (draws.within(1, 400), draws.within(0, 3) == 0);
        spawn(async move {
            let before = SigSet::thread_get_mask().expect("a thread has a mask");
            SigSet::all().thread_block().expect("a thread may block signals");
            assert!((0..rounds).all(|_| sum() == sum()));
            if mends {
                before.thread_set_mask().expect("a thread may unblock signals");
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}
