//! The copies of tokens that wait in objects: in a semaphore or a pipe, from the task that puts a message to the task that
//! takes it.
//!
//! An object has *units*: the posts of a semaphore, the bytes of a pipe. Units are taken in the order in which they were
//! put. A pipe serves the waiting tasks in their order too. A semaphore may choose another one, so its units wait until
//! the chosen task is woken.
//!
//! Invariant: units wait, or tasks do, but not both.

use super::tokens::TokenCopy;
use runyard_engine::task::TaskId;
use std::collections::VecDeque;

/// The messages of one object.
#[derive(Debug)]
pub(super) struct Messages {
    /// Whether waiting tasks are served in their order.
    ordered: bool,
    free: VecDeque<Message>,
    waiting: VecDeque<Taker>,
    /// The messages for waiting tasks that have not gone on.
    given: VecDeque<Given>,
}

#[derive(Debug)]
struct Message {
    units: u64,
    load: Vec<TokenCopy>,
}

/// A task that waits for units.
#[derive(Debug)]
struct Taker {
    task: TaskId,
    units: u64,
    load: Vec<TokenCopy>,
}

#[derive(Debug)]
struct Given {
    /// The task, unless the semaphore chooses it.
    to: Option<TaskId>,
    /// The task that posted the semaphore; `None` for an arrival.
    by: Option<TaskId>,
    load: Vec<TokenCopy>,
}

impl Messages {
    pub(super) fn new(ordered: bool) -> Messages {
        let (free, waiting, given) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Messages { ordered, free, waiting, given }
    }

    /// Puts units with these copies of tokens. Calls `copied` for each copy of which a part is taken and a part stays.
    pub(super) fn put(
        &mut self,
        by: Option<TaskId>,
        (units, load): (u64, Vec<TokenCopy>),
        copied: &mut dyn FnMut(&TokenCopy),
    ) {
        if !self.ordered && self.waiting.len() > self.given.len() {
            return self.given.push_back(Given { to: None, by, load });
        }
        match self.free.back_mut() {
            Some(last) if load.is_empty() && last.load.is_empty() => last.units += units,
            _ => self.free.push_back(Message { units, load }),
        }
        if self.ordered {
            self.flow(copied);
        }
    }

    /// Takes units for a task. Returns the copies of tokens that come with them, or `None` if the task waits.
    pub(super) fn take(
        &mut self,
        (task, units): (TaskId, u64),
        copied: &mut dyn FnMut(&TokenCopy),
    ) -> Option<Vec<TokenCopy>> {
        if !self.ordered && !self.free.is_empty() {
            return Some(self.take_unit());
        }
        self.waiting.push_back(Taker { task, units, load: Vec::new() });
        if self.ordered {
            self.flow(copied);
        }
        let has = self.given.iter().any(|given| given.to == Some(task));
        if has { self.resolve(task, None) } else { None }
    }

    /// Takes the first unit. Several units in one message have no copies of tokens.
    fn take_unit(&mut self) -> Vec<TokenCopy> {
        let Some(first) = self.free.front_mut() else { return Vec::new() };
        first.units -= 1;
        let load = std::mem::take(&mut first.load);
        if first.units == 0 {
            self.free.pop_front();
        }
        load
    }

    /// Returns what a waiting task was given that goes on. It was woken by the task `by`, or by an arrival, if that is known.
    pub(super) fn resolve(
        &mut self,
        task: TaskId,
        by: Option<Option<TaskId>>,
    ) -> Option<Vec<TokenCopy>> {
        let is_for = |given: &Given| match given.to {
            Some(to) => to == task,
            None => by.is_none_or(|by| by == given.by),
        };
        let at = self.given.iter().position(is_for)?;
        self.waiting.retain(|taker| taker.task != task);
        self.given.remove(at).map(|given| given.load)
    }

    /// Removes a task that ends. Returns the copies that it has taken.
    pub(super) fn forget(&mut self, task: TaskId) -> Vec<TokenCopy> {
        let at = self.waiting.iter().position(|taker| taker.task == task);
        at.and_then(|at| self.waiting.remove(at)).map_or_else(Vec::new, |taker| taker.load)
    }

    /// Moves units to the waiting tasks.
    fn flow(&mut self, copied: &mut dyn FnMut(&TokenCopy)) {
        while let (Some(message), Some(taker)) = (self.free.front_mut(), self.waiting.front_mut()) {
            let moved = message.units.min(taker.units);
            (message.units, taker.units) = (message.units - moved, taker.units - moved);
            if message.units == 0 {
                taker.load.append(&mut message.load);
                self.free.pop_front();
            } else {
                message.load.iter().for_each(&mut *copied);
                taker.load.extend(message.load.iter().cloned());
            }
            if taker.units == 0 {
                let Taker { task, load, .. } = self.waiting.pop_front().expect("there is one");
                self.given.push_back(Given { to: Some(task), by: None, load });
            }
        }
    }

    /// The copies of tokens here.
    pub(super) fn copies(&self) -> impl Iterator<Item = &TokenCopy> {
        let free = self.free.iter().flat_map(|it| &it.load);
        let waiting = self.waiting.iter().flat_map(|it| &it.load);
        free.chain(waiting).chain(self.given.iter().flat_map(|it| &it.load))
    }
}
