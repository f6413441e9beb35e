//! Channels: what is sent arrives once, in order, from each sender.

use super::all;
use crate::draws::Draws;
use runyard::{spawn, yield_now};
use tokio::sync::{broadcast, mpsc, oneshot};

/// A message: who sent it, and its number there.
type Message = (u64, u64);

/// Whether each of `senders` sent its numbers in order, `many` of them.
fn assert_in_order(got: &[Message], (senders, many): (u64, u64)) {
    for sender in 0..senders {
        let numbers = got.iter().filter(|message| message.0 == sender).map(|message| message.1);
        assert!(numbers.eq(0..many), "the messages of sender {sender} of {senders}, {many} each");
    }
    assert_eq!(got.len() as u64, senders * many, "nothing else arrives");
}

/// Bounded, of tokio.
pub async fn tokio_mpsc(mut draws: Draws) {
    let (senders, many) = (draws.within(1, 5), draws.within(1, 300));
    let (to, mut from) = mpsc::channel(draws.within(1, 16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move {
            for nth in 0..many {
                to.send((sender, nth)).await.expect("somebody receives");
            }
        })
    };
    let sending: Vec<_> = (0..senders).map(send).collect();
    drop(to);
    let received = spawn(async move {
        let mut got = Vec::new();
        while let Some(message) = from.recv().await {
            got.push(message);
        }
        got
    });
    all(sending).await;
    assert_in_order(&received.await.expect("it receives"), (senders, many));
}

/// To all receivers, of tokio.
pub async fn tokio_broadcast(mut draws: Draws) {
    let (receivers, many) = (draws.within(1, 6), draws.within(1, 200));
    let (to, _) = broadcast::channel(256);
    let receive = |_| {
        let mut from = to.subscribe();
        spawn(async move {
            let mut got = Vec::new();
            while let Ok(number) = from.recv().await {
                got.push(number);
            }
            got
        })
    };
    let receiving: Vec<_> = (0..receivers).map(receive).collect();
    for number in 0..many {
        to.send(number).expect("somebody receives");
        if number % 16 == 0 {
            yield_now().await;
        }
    }
    drop(to);
    for got in all(receiving).await {
        assert!(got.into_iter().eq(0..many), "everybody receives everything");
    }
}

/// One answer each, of tokio.
pub async fn tokio_oneshot(mut draws: Draws) {
    let many = draws.within(1, 64);
    let ask = |number: u64| {
        let (to, from) = oneshot::channel();
        spawn(async move { to.send(number * number).expect("somebody asked") });
        spawn(async move { (number, from.await.expect("somebody answers")) })
    };
    for (number, answer) in all((0..many).map(ask).collect::<Vec<_>>()).await {
        assert_eq!(answer, number * number);
    }
}

/// Of async-channel, with several receivers.
pub async fn async_channels(mut draws: Draws) {
    let (senders, many, receivers) = (draws.within(1, 5), draws.within(1, 300), draws.within(1, 4));
    let (to, from) = async_channel::bounded(draws.within(1, 16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move {
            for nth in 0..many {
                to.send((sender, nth)).await.expect("somebody receives");
            }
        })
    };
    let sending: Vec<_> = (0..senders).map(send).collect();
    drop(to);
    let receive = |_| {
        let from = from.clone();
        spawn(async move {
            let mut got = Vec::new();
            while let Ok(message) = from.recv().await {
                got.push(message);
            }
            got
        })
    };
    let receiving: Vec<_> = (0..receivers).map(receive).collect();
    all(sending).await;
    let mut got = all(receiving).await.concat();
    got.sort_unstable();
    assert_in_order(&got, (senders, many));
}

/// Of flume: sent by tasks that block in the kernel, received by one that awaits.
pub async fn flume_channels(mut draws: Draws) {
    let (senders, many) = (draws.within(1, 4), draws.within(1, 200));
    let (to, from) = flume::bounded(draws.within(1, 16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move {
            for nth in 0..many {
                match nth % 2 {
                    0 => to.send((sender, nth)).expect("somebody receives"),
                    _ => to.send_async((sender, nth)).await.expect("somebody receives"),
                }
            }
        })
    };
    let sending: Vec<_> = (0..senders).map(send).collect();
    drop(to);
    let mut got = Vec::new();
    while let Ok(message) = from.recv_async().await {
        got.push(message);
    }
    all(sending).await;
    assert_in_order(&got, (senders, many));
}
