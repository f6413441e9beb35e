//! tracing: a subscriber that locks standard output for each line. The siege's standard output is `/dev/null`.

use super::all;
use crate::draws::Draws;
use runyard::{spawn, yield_now};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// The sum of all fields `number` that the layer has received.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// A layer that adds up the numbers of this program's events.
struct Sum;

impl<S: tracing::Subscriber> Layer<S> for Sum {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == module_path!() {
            event.record(&mut Sum);
        }
    }
}

impl Visit for Sum {
    fn record_u64(&mut self, _: &Field, value: u64) {
        SEEN.fetch_add(value, Ordering::SeqCst);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Logs lines within spans. The layer receives every number once.
pub async fn lines(mut draws: Draws) {
    static ONCE: Once = Once::new();
    // Libraries log many more events at lower levels.
    let subscriber = || tracing_subscriber::registry().with(LevelFilter::INFO).with(fmt::layer());
    ONCE.call_once(|| subscriber().with(Sum).init());
    let (tasks, many) = (draws.within(1, 6), draws.within(1, 60));
    let before = SEEN.load(Ordering::SeqCst);
    let tell = |nth: u64| {
        spawn(async move {
            for number in 0..many {
                {
                    let _span = tracing::info_span!("task", nth).entered();
                    tracing::info!(number, "a line of some length, as programs write them");
                    println!("a line of its own {number}");
                }
                if number % 8 == 0 {
                    yield_now().await;
                }
            }
        })
    };
    all((0..tasks).map(tell).collect::<Vec<_>>()).await;
    let seen = SEEN.load(Ordering::SeqCst) - before;
    assert_eq!(seen, tasks * (0..many).sum::<u64>(), "the subscriber sees each event once");
}
