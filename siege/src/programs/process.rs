//! Work of the C library and the kernel for a task: child processes, and names of hosts.

use super::all;
use crate::draws::Draws;
use runyard::spawn;
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
