//! The loop that runs tasks on the calling thread.

use super::main::Main;
use super::work::Work;
use crate::current::task::with_task;
use crate::current::turn;
use crate::driver::budget;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, lock};
use crate::os::thread::Tid;
use crate::shared::Shared;
use crate::task::{Cell, Job};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Prev, Released, Switch};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};

/// The only CPU of the runtime.
const CPU: CpuId = CpuId(0);

/// How often the loop looks at what the process may use, and says what is to be said.
const CARES_EVERY: Nanos = Nanos::from_millis(1_000);

/// The state of the loop between two tasks.
#[derive(Debug)]
pub(super) struct State {
    /// How the task before left the CPU.
    prev: Prev<Job>,
    /// That task.
    curr: Option<TaskId>,
    /// Its cell, if it is over.
    over: Option<Arc<Cell>>,
    cares_at: Time,
    /// The [mark](crate::current::caller::mark) and the number of the thread that had the state last. To ask for the number
    /// is a system call.
    thread: (usize, Tid),
}

impl State {
    /// The state of a runtime that has run no task.
    pub(super) fn new() -> State {
        let cares_at = os::thread::now() + CARES_EVERY;
        State { prev: Prev::Idle, curr: None, over: None, cares_at, thread: (0, Tid(0)) }
    }

    /// Returns the state on the calling thread, which has this mark.
    pub(super) fn on(mut self, mark: usize) -> State {
        if self.thread.0 != mark {
            self.thread = (mark, os::thread::current());
        }
        self
    }

    /// Returns the thread that had the state last.
    pub(super) fn thread(&self) -> Tid {
        self.thread.1
    }
}

/// The goal of the loop.
pub(super) enum Until<'a> {
    /// The main future is ready.
    Main(Main<'a>),
    /// The tasks are over, or nothing can run and the time is over.
    Tasks { are_over: &'a dyn Fn() -> bool, deadline: Option<Time> },
}

impl Until<'_> {
    fn is_reached(&self) -> bool {
        match self {
            Until::Main(main) => main.is_over(),
            Until::Tasks { are_over, .. } => are_over(),
        }
    }

    /// Returns the time until which the loop waits for work at most.
    fn deadline(&self) -> Option<Time> {
        match *self {
            Until::Main(_) => None,
            Until::Tasks { deadline, .. } => deadline,
        }
    }
}

/// Runs tasks until the goal is reached. Returns the state for the next call.
pub(super) fn run(
    work: &Work,
    shared: &Arc<Shared>,
    mut state: State,
    until: &mut Until<'_>,
) -> State {
    let mut is_idle = false;
    while !until.is_reached() {
        let now = os::thread::now();
        if now >= state.cares_at {
            state.cares_at = now + CARES_EVERY;
            care(shared);
        }
        work.asks();
        match without_preemption(|| next(shared, now, &mut state, is_idle)) {
            Some((id, job)) => {
                state.curr = Some(id);
                is_idle = false;
                poll(shared, &mut state, (now, job.cell), until);
            }
            None if without_preemption(|| shared.expire(os::thread::now(), CPU, true)) => {}
            // A task was woken between the end of its poll and the decision.
            None if work.is_there() || until.is_reached() => {}
            None => {
                shared.scheduler.tell(CPU, || What::Idle);
                if !wait(work, shared, until.deadline()) {
                    break;
                }
                is_idle = true;
            }
        }
    }
    state
}

/// Reports how the last task left the CPU, and returns the next one.
fn next(
    shared: &Arc<Shared>,
    now: Time,
    state: &mut State,
    is_idle: bool,
) -> Option<(TaskId, Job)> {
    let Shared { scheduler, registry, .. } = &**shared;
    scheduler.tell(CPU, || What::Overhead);
    shared.expire(now, CPU, is_idle);
    let prev = std::mem::replace(&mut state.prev, Prev::Idle);
    let Switch { next, released } = scheduler.decide(now, CPU, prev, state.curr.take());
    match released {
        Some((task, Released::Exited)) => {
            let cell = state.over.take().expect("a poll that has just ended left its cell");
            registry.ended(task, cell);
        }
        Some((task, _)) => scheduler.park_blocked(task),
        None => {}
    }
    let (id, job) = next?;
    scheduler.tell(CPU, || What::Exec { task: id, policy: lock(&job.cell.asked).policy });
    Some((id, job))
}

/// Polls a task, or the main future in the place of its stand-in.
fn poll(shared: &Shared, state: &mut State, (now, cell): (Time, Arc<Cell>), until: &mut Until<'_>) {
    turn::begin(now);
    budget::begin_poll();
    with_task(&cell, || match until {
        Until::Main(main) if main.is(&cell) => main.poll(),
        _ => os::future::run(os::future::Found::new(&cell)),
    });
    if let Until::Main(main) = until
        && main.is_over()
    {
        // A child of fork may be here: the code behind `block_on` is its own.
    } else {
        os::fork::end_child();
    }
    if let Some(stalls) = &shared.observation.stalls {
        stalls.look_back(&cell, os::thread::now().since(now));
    }
    (state.prev, state.over) = Cell::leave_poll(cell);
}

/// Waits until there may be work. Returns `false` if the time is over.
fn wait(work: &Work, shared: &Shared, deadline: Option<Time>) -> bool {
    if deadline.is_some_and(|deadline| os::thread::now() >= deadline) {
        return false;
    }
    let next = shared.scheduler.machine().sight().next_expiry(CPU);
    work.wait([next, deadline].into_iter().flatten().min());
    true
}

/// Does what the maker does in other runtimes: follows what the process may use, and says what is to be said.
fn care(shared: &Shared) {
    shared.follow_outside();
    shared.scheduler.teller().into_iter().for_each(Teller::say_if_it_loses);
    shared.scheduler.driver().say_if_tasks_escape();
}

#[cfg(test)]
mod tests {
    use crate::Builder;

    /// Between two calls the machine counts the last stand-in as running. Nobody pays for that time.
    #[test]
    fn nothing_is_charged_between_two_calls() {
        let runtime = Builder::new_current_thread().build();
        let task = runtime.spawn(std::future::pending::<()>());
        runtime.block_on(async { crate::yield_now().await });
        std::thread::sleep(std::time::Duration::from_millis(30));
        runtime.block_on(async {});
        assert!(task.task().usage().used < std::time::Duration::from_millis(10));
    }
}
