//! Requests from outside: at its time, each posts a semaphore or starts a task, on behalf of no task and of no CPU.

use crate::calendar::Due;
use crate::program::{FIRST_CPU, Waiting};
use crate::sim::Sim;
use runyard_engine::event::What;
use runyard_workload::arrivals::{Arrivals, ArrivalsSpec, Receiver};
use runyard_workload::objects::Sharing;
use runyard_workload::scenario::{ObjectId, SpecId};

/// The state of all arrivals.
#[derive(Debug)]
pub(crate) struct Requests<'s> {
    times: Vec<Arrivals<'s>>,
    /// The number of arrivals of which another request comes.
    left: usize,
    /// For each of the arrivals, the number of tasks that it started and that have not ended.
    alive: Vec<u32>,
}

impl<'s> Requests<'s> {
    pub(crate) fn new(arrivals: &'s [ArrivalsSpec], seed: u64) -> Requests<'s> {
        let times = |(nth, spec): (u32, &'s ArrivalsSpec)| Arrivals::new(&spec.times, nth, seed);
        Requests {
            times: (0..).zip(arrivals).map(times).collect(),
            left: arrivals.len(),
            alive: vec![0; arrivals.len()],
        }
    }

    /// Returns whether there will be another request.
    pub(crate) fn come(&self) -> bool {
        self.left > 0
    }

    /// Notes the end of a task that the arrivals with this number started.
    pub(crate) fn ended(&mut self, nth: u32) {
        self.alive[nth as usize] -= 1;
    }
}

impl Sim<'_> {
    /// Enters the next request of the arrivals with the number `nth` into the calendar, if there is one.
    pub(crate) fn enter_next_request(&mut self, nth: u32) {
        match self.requests.times[nth as usize].next() {
            Some(at) => self.calendar.enter(at, Due::Request(nth)),
            None => self.requests.left -= 1,
        }
    }

    /// Takes a request of the arrivals with the number `nth`, or refuses it.
    pub(crate) fn take_request(&mut self, nth: u32) {
        let spec = &self.scenario.arrivals[nth as usize];
        let refused = spec.bound.is_some_and(|bound| match spec.to {
            Receiver::Semaphore(semaphore) => self.objects.is_full(semaphore, bound),
            Receiver::Task(_) => self.requests.alive[nth as usize] >= bound,
        });
        self.tell(FIRST_CPU, What::Arrived { arrivals: nth, refused });
        match spec.to {
            _ if refused => {}
            Receiver::Semaphore(semaphore) => self.post_from_outside(semaphore),
            Receiver::Task(task) => self.start_request(task, nth),
        }
        self.enter_next_request(nth);
    }

    fn post_from_outside(&mut self, semaphore: ObjectId) {
        self.watch.note_objects();
        if let Some(task) = self.raise(semaphore) {
            self.tasks[task.index()].waiting = Waiting::Nothing;
            self.wake(None, task, self.now, None);
        }
    }

    fn start_request(&mut self, id: SpecId, nth: u32) {
        let attr = self.scenario.tasks[id.0 as usize].first_attr(&self.cpusets);
        let Some(task) = self.create_next(id, attr, self.now) else { return };
        self.tasks[task.index()].request_of = Some(nth);
        self.requests.alive[nth as usize] += 1;
        self.spawn(task);
        self.begin(None, task, self.now);
    }
}
