//! A program of many parts: a print shop, where orders of several customers are checked, rendered and delivered.
//!
//! Orders come through a channel. A pool of workers takes them, one for each place in a `JoinSet`. Rendering computes,
//! so it runs in `spawn_blocking`. A delivery may fail or take too long, so it has a timeout and is retried. A clerk
//! counts the orders, in a ledger behind a mutex, and a reporter reads it at intervals. The shop closes gracefully: a
//! worker with an order finishes it, and an idle worker ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::rt::sync::Mutex;
use super::rt::time::{MissedTickBehavior, interval, sleep, timeout};
use super::rt::{self, JoinHandle, JoinSet, spawn, spawn_blocking};

/// Number of orders in work at a time.
const PLACES: usize = 8;
/// Number of orders that can wait for a place.
const QUEUE: usize = 16;
const CUSTOMERS: u64 = 5;
const ORDERS: u64 = 20;
/// Time limit of a delivery. `TRIES` is the number of attempts.
const PATIENCE: Duration = Duration::from_millis(40);
const TRIES: u32 = 4;
/// Interval of the reporter.
const REPORT: Duration = Duration::from_millis(10);
/// Time for which the shop waits for its tasks when it closes.
const CLOSING: Duration = Duration::from_secs(60);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// An order of a customer, and the channel for its result.
#[derive(Debug)]
struct Order {
    customer: u64,
    number: u64,
    pages: u64,
    done: oneshot::Sender<Result<Receipt, Refused>>,
}

/// The result of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Receipt {
    number: u64,
    checksum: u64,
    tries: u32,
}

/// The reason why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refused {
    Empty,
    Crashed(String),
    Undeliverable,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Empty => f.write_str("an order without pages"),
            Refused::Crashed(why) => write!(f, "the renderer crashed: {why}"),
            Refused::Undeliverable => write!(f, "not delivered in {TRIES} tries"),
        }
    }
}

impl std::error::Error for Refused {}

/// The finished work of a customer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    delivered: u64,
    refused: u64,
    pages: u64,
    tries: u32,
}

type Ledger = Arc<Mutex<BTreeMap<u64, Account>>>;

/// Computes without an await.
fn render(number: u64, pages: u64) -> u64 {
    assert!(number % 50 != 33, "page {pages} of order {number} is torn");
    (0..pages * 2_000).fold(number, |sum, page| sum.rotate_left(5) ^ page.wrapping_mul(0x9e37_79b9))
}

/// Is sometimes late, and sometimes fails, depending on the number.
async fn carry(number: u64, attempt: u32) -> Result<(), Refused> {
    match (number + u64::from(attempt)) % 7 {
        0 => sleep(10 * PATIENCE).await,
        1 => return Err(Refused::Undeliverable),
        way => sleep(Duration::from_millis(way)).await,
    }
    Ok(())
}

/// Tries to deliver until it works. Returns the number of attempts.
async fn deliver(number: u64) -> Result<u32, Refused> {
    for attempt in 1..=TRIES {
        match timeout(PATIENCE, carry(number, attempt)).await {
            Ok(Ok(())) => return Ok(attempt),
            Ok(Err(_)) | Err(_) => sleep(Duration::from_millis(u64::from(attempt))).await,
        }
    }
    Err(Refused::Undeliverable)
}

async fn make(number: u64, pages: u64) -> Result<Receipt, Refused> {
    if pages == 0 {
        return Err(Refused::Empty);
    }
    let rendered = spawn_blocking(move || render(number, pages)).await;
    let checksum = rendered.map_err(|error| match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            Refused::Crashed(text.unwrap_or_default())
        }
        Err(error) => Refused::Crashed(error.to_string()),
    })?;
    let tries = deliver(number).await?;
    Ok(Receipt { number, checksum, tries })
}

async fn handle(order: Order, ledger: Ledger) -> u64 {
    let Order { customer, number, pages, done } = order;
    let made = make(number, pages).await;
    {
        let mut ledger = ledger.lock().await;
        let account = ledger.entry(customer).or_default();
        match &made {
            Ok(receipt) => {
                account.delivered += 1;
                account.pages += pages;
                account.tries += receipt.tries;
            }
            Err(_) => account.refused += 1,
        }
    }
    // A customer that has gone home needs no receipt.
    let _ = done.send(made);
    number
}

/// Takes orders until the shop closes and no order is left. Returns their number.
async fn foreman(
    mut orders: mpsc::Receiver<Order>,
    ledger: Ledger,
    mut closes: watch::Receiver<bool>,
) -> Result<usize, Error> {
    let (mut places, mut taken) = (JoinSet::new(), 0);
    loop {
        tokio::select! {
            biased;
            Some(ended) = places.join_next() => {
                ended?;
            }
            order = orders.recv(), if places.len() < PLACES => match order {
                Some(order) => {
                    taken += 1;
                    places.spawn(handle(order, ledger.clone()));
                }
                None => break,
            },
            changed = closes.changed() => {
                changed?;
                orders.close();
            }
        }
    }
    while let Some(ended) = places.join_next().await {
        ended?;
    }
    Ok(taken)
}

/// Places orders one after the other, and waits for each.
async fn customer(
    id: u64,
    shop: mpsc::Sender<Order>,
) -> Result<Vec<Result<Receipt, Refused>>, Error> {
    let mut got = Vec::new();
    for nth in 0..ORDERS {
        let number = id * ORDERS + nth;
        let (done, receipt) = oneshot::channel();
        let pages = number % 9;
        shop.send(Order { customer: id, number, pages, done }).await?;
        got.push(receipt.await?);
    }
    Ok(got)
}

/// Reads the ledger until the shop is closed. Returns the number of readings, and the maximum seen.
async fn reporter(ledger: Ledger, mut closed: watch::Receiver<bool>) -> (u32, u64) {
    let mut looks = interval(REPORT);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut seen = (0, 0);
    loop {
        tokio::select! {
            biased;
            _ = looks.tick() => {
                let delivered = ledger.lock().await.values().map(|it| it.delivered).sum::<u64>();
                assert!(delivered >= seen.1, "deliveries only increase");
                seen = (seen.0 + 1, delivered);
            }
            _ = closed.changed() => return seen,
        }
    }
}

/// The tasks of a shop that is open.
struct Shop {
    door: mpsc::Sender<Order>,
    ledger: Ledger,
    closes: watch::Sender<bool>,
    foreman: JoinHandle<Result<usize, Error>>,
    reporter: JoinHandle<(u32, u64)>,
}

impl Shop {
    fn open() -> Shop {
        let (door, orders) = mpsc::channel(QUEUE);
        let (closes, closing) = watch::channel(false);
        let ledger = Ledger::default();
        Shop {
            door,
            foreman: spawn(foreman(orders, ledger.clone(), closing.clone())),
            reporter: spawn(reporter(ledger.clone(), closing)),
            ledger,
            closes,
        }
    }

    /// Closes the shop: it accepts no more orders, and finishes the others. Returns the number of orders, and the
    /// account of each customer.
    async fn close(self) -> Result<(usize, BTreeMap<u64, Account>), Error> {
        let Shop { door, ledger, closes, foreman, reporter } = self;
        drop(door);
        closes.send(true)?;
        let taken = timeout(CLOSING, foreman).await???;
        let (looks, seen) = timeout(CLOSING, reporter).await??;
        let ledger = ledger.lock().await.clone();
        let delivered = ledger.values().map(|it| it.delivered).sum::<u64>();
        assert!(seen <= delivered, "{looks} looks saw more than there is");
        Ok((taken, ledger))
    }
}

#[rt::test]
async fn every_customer_is_served_or_refused() -> Result<(), Error> {
    let shop = Shop::open();
    let mut customers = JoinSet::new();
    for id in 0..CUSTOMERS {
        customers.spawn(customer(id, shop.door.clone()));
    }
    let mut refused = 0;
    while let Some(ended) = customers.join_next().await {
        let refusals = ended??.into_iter().filter_map(Result::err);
        refused += refusals.filter(|refusal| !refusal.to_string().is_empty()).count();
    }
    let (taken, ledger) = shop.close().await?;
    assert_eq!(taken as u64, CUSTOMERS * ORDERS);
    assert_eq!(ledger.values().map(|account| account.refused).sum::<u64>(), refused as u64);
    for Account { delivered, refused, pages, tries } in ledger.into_values() {
        assert_eq!(delivered + refused, ORDERS);
        assert!(pages >= delivered && u64::from(tries) >= delivered);
    }
    Ok(())
}

fn order(number: u64, pages: u64) -> (Order, oneshot::Receiver<Result<Receipt, Refused>>) {
    let (done, receipt) = oneshot::channel();
    (Order { customer: 0, number, pages, done }, receipt)
}

#[rt::test]
async fn an_order_is_delivered_and_counted() -> Result<(), Error> {
    let shop = Shop::open();
    let (order, receipt) = order(3, 2);
    shop.door.send(order).await?;
    assert_eq!(receipt.await??.tries, 1);
    let (taken, ledger) = shop.close().await?;
    let account = Account { delivered: 1, pages: 2, tries: 1, ..Account::default() };
    assert_eq!((taken, ledger), (1, BTreeMap::from([(0, account)])));
    Ok(())
}

#[rt::test]
async fn a_renderer_that_crashes_costs_one_order() -> Result<(), Error> {
    let shop = Shop::open();
    let ((torn, told), (good, receipt)) = (order(33, 1), order(34, 1));
    shop.door.send(torn).await?;
    shop.door.send(good).await?;
    let crashed = Refused::Crashed("page 1 of order 33 is torn".to_owned());
    assert_eq!(told.await?, Err(crashed));
    assert_eq!(receipt.await??.number, 34);
    assert_eq!(shop.close().await?.0, 2);
    Ok(())
}

#[rt::test]
async fn what_was_ordered_is_done_when_the_shop_closes() -> Result<(), Error> {
    let shop = Shop::open();
    let mut receipts = Vec::new();
    for number in [2, 6, 9] {
        let (order, receipt) = order(number, 1);
        shop.door.send(order).await?;
        receipts.push(receipt);
    }
    assert_eq!(shop.close().await?.0, 3);
    for receipt in receipts {
        assert!(receipt.await?.is_ok());
    }
    Ok(())
}

#[rt::test]
async fn a_handler_that_is_aborted_tells_nobody() {
    let (order, receipt) = order(0, 1);
    let handler = spawn(handle(order, Ledger::default()));
    handler.abort();
    assert!(handler.await.unwrap_err().is_cancelled());
    assert!(receipt.await.is_err());
}
