//! Threads on which tasks of a paused runtime are polled, and the baton between them and the clockwork.
//!
//! A poll that computes keeps its stack until its task has had the CPU time, so each poll needs its own thread. Such a
//! thread is a hand. An order gives the baton to a hand, and its report gives the baton back. Between the two the
//! clockwork waits. So only one thread of a paused runtime runs at any time, however the machine's kernel schedules
//! them.
//!
//! ```text
//!  clockwork   Poll or GoOn ->             waits for the report
//!  hand        waits for an order          -> Computes, and waits for GoOn;  -> Ended, and waits for Poll
//! ```

use crate::current::runtime::Entered;
use crate::os;
use crate::os::here::{self, Here};
use crate::os::sync::Arc;
use crate::os::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use crate::shared::Shared;
use crate::shared::paused::Host;
use crate::task::Cell;
use runyard_engine::time::Nanos;
use std::cell::RefCell;
use std::panic;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time without a report after which the clockwork reports the task that blocks in real time.
const PATIENCE: Duration = Duration::from_secs(10);

/// An order to a hand.
pub(crate) enum Order {
    Poll(Arc<Cell>),
    /// The task has had the CPU time that it asked for.
    GoOn,
}

/// The report with which a hand gives the baton back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The task needs `span` of CPU time before it goes on. `preemptible` says whether it may be preempted.
    Computes { span: Nanos, preemptible: bool },
    /// The poll is over.
    Ended,
}

/// One of the hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hand(usize);

/// All hands of a paused runtime.
pub(crate) struct Hands {
    shared: Arc<Shared>,
    all: Vec<Thread>,
    /// The hands that are in no poll.
    free: Vec<Hand>,
    report: Sender<Report>,
    reports: Receiver<Report>,
}

/// The clockwork's end of a hand.
struct Thread {
    orders: Sender<(Order, Here)>,
    thread: JoinHandle<()>,
}

/// The ends of the channels on a hand's own thread.
struct Own {
    orders: Receiver<(Order, Here)>,
    report: Sender<Report>,
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// The panic payload with which a computing task unwinds when its test is over.
struct Over;

impl Hands {
    pub(crate) fn new(shared: &Arc<Shared>) -> Hands {
        let (report, reports) = channel();
        Hands { shared: shared.clone(), all: Vec::new(), free: Vec::new(), report, reports }
    }

    /// Returns a hand that is in no poll.
    pub(crate) fn take(&mut self) -> Hand {
        self.free.pop().unwrap_or_else(|| self.start())
    }

    /// Takes back a hand whose poll is over.
    pub(crate) fn put(&mut self, hand: Hand) {
        self.free.push(hand);
    }

    fn start(&mut self) -> Hand {
        let (order, orders) = channel();
        let (shared, own) = (self.shared.clone(), Own { orders, report: self.report.clone() });
        let thread = thread::Builder::new().name("runyard-paused".to_owned());
        let thread = thread.spawn(move || live(&shared, own));
        let thread = thread.expect("the system starts threads for a test");
        self.all.push(Thread { orders: order, thread });
        Hand(self.all.len() - 1)
    }

    /// Gives the baton to a hand, for the task of `cell`, and waits until it comes back.
    pub(crate) fn order(&self, hand: Hand, order: Order, (cell, here): (&Cell, Here)) -> Report {
        let sent = self.all[hand.0].orders.send((order, here));
        sent.expect("a hand lives until the test is over");
        match self.reports.recv_timeout(PATIENCE) {
            Ok(report) => return report,
            Err(RecvTimeoutError::Timeout) => self.say_that_it_blocks(cell),
            Err(RecvTimeoutError::Disconnected) => unreachable!("one end is here"),
        }
        self.reports.recv().expect("one end is here")
    }

    fn say_that_it_blocks(&self, cell: &Cell) {
        let task =
            self.shared.scheduler.paused().map(|host| host.describe(cell)).unwrap_or_default();
        eprintln!(
            "runyard: {task} has been running for {PATIENCE:?} of real time in a test in virtual time. It may \
             block: virtual time does not advance for `std::thread::sleep`, for I/O, or for a lock of the standard \
             library that another task holds while it computes"
        );
    }

    /// Ends all threads. None is in a poll.
    pub(crate) fn end(self) {
        for Thread { orders, thread } in self.all {
            drop(orders);
            // A hand does not panic.
            let _ = thread.join();
        }
    }
}

/// Runs the thread of a hand.
fn live(shared: &Arc<Shared>, own: Own) {
    let _context = Entered::enter(shared);
    OWN.set(Some(own));
    while let Some(order) = next_order() {
        let Order::Poll(cell) = order else { unreachable!("the hand is in no poll") };
        crate::current::task::with_task(&cell, || os::future::run(os::future::Found::new(&cell)));
        drop(cell);
        report(Report::Ended);
    }
}

/// Waits for the baton. Returns none if the clockwork is gone.
fn next_order() -> Option<Order> {
    let (order, here) = OWN.with_borrow(|own| own.as_ref()?.orders.recv().ok())?;
    here::be(here);
    Some(order)
}

fn report(report: Report) {
    // If the receiver is gone, there is no next order either.
    OWN.with_borrow(|own| own.as_ref().map(|own| own.report.send(report)));
}

/// Returns whether the calling thread is a hand.
pub(crate) fn is_hand() -> bool {
    OWN.with_borrow(Option::is_some)
}

/// Lets the task of the calling hand compute for `span`. If the test ends meanwhile, it unwinds. If the test has
/// already ended, a destructor computes, and the call returns at once.
pub(crate) fn compute(host: Option<&Host>, span: Nanos) {
    let is_over = || host.is_none_or(Host::is_over);
    if is_over() {
        return;
    }
    report(Report::Computes { span, preemptible: here::may_be_preempted() });
    let has_baton = next_order().is_some();
    // A destructor that computes while the thread unwinds must not unwind as well.
    if (!has_baton || is_over()) && !thread::panicking() {
        panic::resume_unwind(Box::new(Over));
    }
}
