//! Requests from outside: at its time, each posts a semaphore or starts a task, on behalf of no task and of no CPU.

use crate::calendar::Due;
use crate::program::{FIRST_CPU, Waiting};
use crate::sim::Sim;
use runyard_engine::event::What;
use runyard_workload::arrivals::Receiver;
use runyard_workload::objects::Sharing;
use runyard_workload::scenario::{ObjectId, SpecId};

impl Sim<'_> {
    /// Enters the next request of the arrivals with the number `nth` into the calendar, if there is one.
    pub(crate) fn enter_next_request(&mut self, nth: u32) {
        if let Some(at) = self.requests.next(nth) {
            self.calendar.enter(at, Due::Request(nth));
        }
    }

    /// Takes a request of the arrivals with the number `nth`, or refuses it.
    pub(crate) fn take_request(&mut self, nth: u32) {
        let spec = &self.scenario.arrivals[nth as usize];
        let refused = spec.bound.is_some_and(|bound| match spec.to {
            Receiver::Semaphore(semaphore) => self.objects.is_full(semaphore, bound),
            Receiver::Task(_) => self.requests.alive(nth) >= bound,
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
        self.requests.began(nth);
        self.spawn(task);
        self.begin(None, task, self.now);
    }
}
