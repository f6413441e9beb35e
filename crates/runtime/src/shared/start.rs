//! The start of a runtime's threads.

use super::Shared;
use crate::crew::{keeper, maker};
use crate::current::runtime::Entered;
use crate::mutex::guards;
use crate::os;
use crate::os::refusal::Refusal;
use crate::os::sync::Arc;
use crate::trial::siege;
use std::thread;

impl Shared {
    /// Starts the teller, the driver, the first worker of each slot, its spares, the keeper and the maker. Where tasks run on
    /// the thread of `block_on`, these are only the first two.
    ///
    /// # Errors
    /// The refusal of the system. No thread is left then.
    pub(crate) fn start(self: &Arc<Shared>) -> Result<(), Refusal> {
        guards::enlist(self.number, Arc::downgrade(self));
        let started = self.start_threads();
        if started.is_err() {
            self.shut_down();
        }
        started
    }

    fn start_threads(self: &Arc<Shared>) -> Result<(), Refusal> {
        if let Some(teller) = &self.scheduler.teller {
            let tells = |shared: &Arc<Shared>| {
                let _context = Entered::enter(shared);
                shared.scheduler.teller.as_ref().expect("there is an observer").live();
            };
            teller.has_started(self.start_servant("runyard-teller", tells)?);
        }
        self.scheduler.driver.start(|name| {
            self.start_servant(name, |shared| {
                // Tasks of `tokio::spawn` run here, and they may spawn tasks.
                let _context = Entered::enter(shared);
                shared.scheduler.driver.run(&shared.scheduler);
            })
        })?;
        let crew = &self.scheduler.crew;
        if self.scheduler.single().is_some() {
            return Ok(());
        }
        if self.observation.stalls.is_some() {
            let watches = |shared: &Arc<Shared>| {
                let _context = Entered::enter(shared);
                let stalls = shared.observation.stalls.as_ref().expect("there is a callback");
                stalls.live(&shared.scheduler.crew);
            };
            crew.keep_servant(self.start_servant("runyard-stalls", watches)?);
        }
        for cpu in self.scheduler.machine.config().topology.iter() {
            self.start_worker(cpu, true)?;
        }
        for cpu in self.scheduler.machine.config().topology.iter() {
            for _ in 0..maker::SPARES {
                let id = self.start_worker(cpu, false)?;
                crew.keep_spare(cpu, id);
            }
        }
        crew.keep_servant(self.start_servant("runyard-maker", maker::run)?);
        if crew.preemption().is_on {
            crew.keep_servant(
                self.start_servant("runyard-keeper", |shared| keeper::run(&shared.scheduler))?,
            );
            if crew.preemption().siege.is_some() {
                crew.keep_servant(self.start_servant("runyard-siege", |shared| {
                    siege::run(&shared.scheduler, &shared.registry);
                })?);
            }
            // A thread that starts allocates memory. Both threads are past that before the first task may be stopped.
            crew.keeper().wait_until_both_watch();
        }
        Ok(())
    }

    fn start_servant(
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
