//! tokio's sockets, timers and files.

use super::{PATIENCE, all};
use crate::draws::Draws;
use runyard::spawn;
use std::future::pending;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{env, process};
use tokio::fs;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Accepts `connections` connections, and sends their data back.
async fn give_back(listener: TcpListener, connections: u64) {
    let mut giving = Vec::new();
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        giving.push(spawn(async move {
            let (mut from, mut to) = stream.split();
            copy(&mut from, &mut to).await.expect("the client does not reset it")
        }));
    }
    all(giving).await;
}

/// Sends data and receives its echo, `many` times. Some reads time out before; such a read has consumed no data.
async fn talk(address: SocketAddr, mut draws: Draws, many: u64) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    for _ in 0..many {
        if draws.below(4) == 0 {
            let pause = Duration::from_micros(draws.below(2_000));
            let nothing = timeout(pause, stream.read(&mut [0; 8])).await;
            assert!(nothing.is_err(), "nothing was sent");
        }
        let length = draws.within(1, 4_000);
        let said = draws.bytes(length);
        stream.write_all(&said).await.expect("it is open");
        let mut heard = vec![0; said.len()];
        let hears = timeout(PATIENCE, stream.read_exact(&mut heard)).await;
        hears.expect("it answers").expect("it is open");
        assert!(heard == said, "what was said comes back");
    }
    stream.shutdown().await.expect("it is open");
    assert_eq!(stream.read(&mut [0; 8]).await.expect("it is open"), 0, "nothing is left");
}

/// Echoes data over TCP.
pub async fn echo(mut draws: Draws) {
    let (clients, many) = (draws.within(1, 6), draws.within(1, 16));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let gives = spawn(give_back(listener, clients));
    let talk = |_| spawn(talk(address, Draws::new(draws.number(), 0), many));
    all((0..clients).map(talk).collect::<Vec<_>>()).await;
    gives.await.expect("it gives back");
}

/// Waits for timers. No timer expires early, and each of them expires.
pub async fn timers(mut draws: Draws) {
    let tasks = draws.within(1, 12);
    let wait = |_| {
        let (pause, kind) = (Duration::from_micros(draws.below(4_000)), draws.below(4));
        spawn(async move {
            let began = Instant::now();
            match kind {
                0 => sleep(pause).await,
                1 => assert!(timeout(pause, pending::<()>()).await.is_err(), "nothing is ready"),
                2 => {
                    timeout(PATIENCE, sleep(pause)).await.expect("the first of two timers");
                }
                _ => {
                    let mut ticks = interval(pause.max(Duration::from_micros(1)) / 2);
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    for _ in 0..3 {
                        ticks.tick().await;
                    }
                }
            }
            assert!(began.elapsed() >= pause, "{:?}, not {pause:?}", began.elapsed());
        })
    };
    all((0..tasks).map(wait).collect::<Vec<_>>()).await;
}

/// Writes files and reads them again, on tokio's threads.
pub async fn files(mut draws: Draws) {
    let tasks = draws.within(1, 5);
    let turn = |nth: u64| {
        let (seed, length) = (draws.number(), draws.within(1, 20_000));
        spawn(async move {
            let bytes = Draws::new(seed, 0).bytes(length);
            let path = env::temp_dir().join(format!("runyard-siege-{}-{nth}", process::id()));
            fs::write(&path, &bytes).await.expect("the disk takes it");
            let mut file = fs::OpenOptions::new().read(true).append(true).open(&path).await;
            let file = file.as_mut().expect("it is there");
            file.write_all(&bytes).await.expect("the disk takes it");
            file.flush().await.expect("the disk takes it");
            let read = fs::read(&path).await.expect("it is there");
            fs::remove_file(&path).await.expect("it is there");
            assert!(read == bytes.repeat(2), "what was written is read again");
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}
