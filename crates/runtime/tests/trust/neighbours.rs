//! Tasks that spend much time in the C library. `os/signal.rs` tests in which of its code a stop is safe, and `live
//! neighbours` measures how late other tasks are beside it.

use crate::child::within;
use crate::common::ms;
use runyard::{Runtime, spawn, yield_now};
use std::io::Write;

/// A task in the allocator, or in the library's lists of names and streams, holds locks there. If it were stopped with
/// one of those, it would block all the others at each of these turns.
#[test]
fn many_in_the_library_do_not_wait_for_each_other() {
    let name = "neighbours::many_in_the_library_do_not_wait_for_each_other";
    within(ms(60_000), name, || {
        let runtime = Runtime::builder().workers(1).siege(7).build();
        runtime.block_on(async {
            let tasks = (0..8_usize).map(|nth| {
                spawn(async move {
                    let mut sum = 0;
                    for round in 0..200 {
                        let much = vec![nth as u8; 1 << 18];
                        let names: Vec<_> = (0..50).map(|n| format!("{n} {round}")).collect();
                        print!("{}", if names.len() > 50 { "never" } else { "" });
                        std::io::stdout().flush().unwrap();
                        sum += much.len() + names.len();
                        yield_now().await;
                    }
                    sum
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                assert_eq!(task.await.unwrap(), 200 * ((1 << 18) + 50));
            }
        });
    });
}
