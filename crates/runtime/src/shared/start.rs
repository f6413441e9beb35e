//! The start of a runtime's threads.

use super::Shared;
use crate::crew::{keeper, maker};
use crate::driver;
use crate::mutex::guards;
use crate::observe::teller;
use crate::os;
use crate::os::refusal::Refusal;
use crate::os::sync::Arc;
use crate::stall;
use crate::trial::siege;
use std::thread;

impl Shared {
    /// Starts the teller, the driver, the first worker of each slot, its spares, the keeper and the maker.
    ///
    /// # Errors
    /// The refusal of the system. No thread is left then.
    pub(crate) fn start(self: &Arc<Shared>) -> Result<(), Refusal> {
        guards::enlist(self);
        let started = self.start_threads();
        if started.is_err() {
            self.shut_down();
        }
        started
    }

    fn start_threads(self: &Arc<Shared>) -> Result<(), Refusal> {
        if let Some(teller) = &self.scheduler.teller {
            teller.has_started(self.start_servant("runyard-teller", teller::run)?);
        }
        driver::start(self)?;
        if self.observation.stalls.is_some() {
            self.scheduler.crew.keep_servant(self.start_servant("runyard-stalls", stall::run)?);
        }
        for cpu in self.scheduler.machine.config().topology.iter() {
            self.start_worker(cpu, true)?;
        }
        for cpu in self.scheduler.machine.config().topology.iter() {
            for _ in 0..maker::SPARES {
                let id = self.start_worker(cpu, false)?;
                self.scheduler.crew.keep_spare(cpu, id);
            }
        }
        self.scheduler.crew.keep_servant(self.start_servant("runyard-maker", maker::run)?);
        if self.scheduler.crew.preemption.is_on {
            self.scheduler.crew.keep_servant(
                self.start_servant("runyard-keeper", |shared| keeper::run(&shared.scheduler))?,
            );
            if self.scheduler.crew.preemption.siege.is_some() {
                self.scheduler.crew.keep_servant(self.start_servant("runyard-siege", siege::run)?);
            }
            // A thread that starts allocates memory. Both threads are past that before the first task may be stopped.
            self.scheduler.crew.keeper.wait_until_both_watch();
        }
        Ok(())
    }

    pub(crate) fn start_servant(
        self: &Arc<Shared>,
        name: &str,
        body: fn(&Arc<Shared>),
    ) -> Result<thread::JoinHandle<()>, Refusal> {
        let shared = self.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            os::local::be_servant();
            body(&shared);
        });
        thread.map_err(Refusal::Thread)
    }
}
