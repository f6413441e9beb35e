//! Channels. Each message arrives once, and the messages of each sender arrive in order.

use super::all;
use crate::draws::Draws;
use runyard::{spawn, yield_now};
use tokio::sync::{broadcast, mpsc, oneshot};

/// A message: the number of its sender, and its own number at that sender.
type Message = (u64, u64);

/// Checks that each of `senders` senders sent the numbers below `many` in order.
fn assert_in_order(got: &[Message], (senders, many): (u64, u64)) {
    for sender in 0..senders {
        let numbers = got.iter().filter(|message| message.0 == sender).map(|message| message.1);
        assert!(numbers.eq(0..many), "the messages of sender {sender} of {senders}, {many} each");
    }
    assert_eq!(got.len() as u64, senders * many, "nothing else arrives");
}

/// Sends over a bounded channel of tokio's.
pub async fn tokio_mpsc(mut draws: Draws) {
    let (senders, many) = (draws.within(1, 5), draws.within(1, 300));
    let (to, mut from) = mpsc::channel(draws.within(1, 16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move {
            for nth in 0..many {
                to.send((sender, nth)).await.expect("a task receives");
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

/// Sends over a broadcast channel of tokio's. Each receiver gets all messages.
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
        to.send(number).expect("a task receives");
        if number % 16 == 0 {
            yield_now().await;
        }
    }
    drop(to);
    for got in all(receiving).await {
        assert!(got.into_iter().eq(0..many), "each task receives every number");
    }
}

/// Sends one answer over each of many oneshot channels of tokio's.
pub async fn tokio_oneshot(mut draws: Draws) {
    let many = draws.within(1, 64);
    let ask = |number: u64| {
        let (to, from) = oneshot::channel();
        spawn(async move { to.send(number * number).expect("a task asked") });
        spawn(async move { (number, from.await.expect("a task answers")) })
    };
    for (number, answer) in all((0..many).map(ask).collect::<Vec<_>>()).await {
        assert_eq!(answer, number * number);
    }
}

/// Sends over a channel of async-channel's with several receivers.
pub async fn async_channels(mut draws: Draws) {
    let (senders, many, receivers) = (draws.within(1, 5), draws.within(1, 300), draws.within(1, 4));
    let (to, from) = async_channel::bounded(draws.within(1, 16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move {
            for nth in 0..many {
                to.send((sender, nth)).await.expect("a task receives");
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

/// Sends over a channel of flume's. Half of the sends block in the kernel, and the receiver awaits.
pub async fn flume_channels(mut draws: Draws) {
    let (senders, many) = (draws.within(1, 4), draws.within(1, 200));
    let (to, from) = flume::bounded(draws.within(1, 16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move {
            for nth in 0..many {
                match nth % 2 {
                    0 => to.send((sender, nth)).expect("a task receives"),
                    _ => to.send_async((sender, nth)).await.expect("a task receives"),
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
