//! The machine: one lock for each CPU's run queue, and published state that CPUs read without locks.
//!
//! At most one run-queue lock is held at a time. Under it, at most one leaf lock is taken: that of a task's control
//! cell, of a group's pools, or of the host in an effect that says so. In machines with cookies, the lock of a core is
//! taken around a switch, before any of these (`beside`). So there is no lock order between CPUs to violate, and a host
//! may be preempted between any two calls. A task that changes CPU is between queues for a moment. The call that
//! carries it owns it, and no other thread sees it. Each CPU's knowledge of other CPUs is stale. Three rules make this
//! sufficient:
//!
//! - **Publish, then look.** A CPU that has a real-time task to push publishes that, fences, and looks for a CPU that
//!   runs a less important task (`Cpus::push`). A CPU that comes to run a less important task publishes that,
//!   fences, and looks for CPUs with tasks to pull (`Cpus::pull`). Of the two, the CPU with the second fence sees
//!   the other; both may act. So every change of a run queue is published before its lock is released
//!   (`OneCpu::change`), and its caller reacts after that (`Cpus::react`).
//! - **Offer, may be refused.** A choice made on stale hints is checked under the lock of the chosen CPU. A refused
//!   task is sent to another CPU, at most `MAX_REFUSALS` times. Then it returns to the CPU that it came from, which
//!   looks once more.
//! - **Hints never decide alone.** They only select the CPUs to examine.
//!
//! Effects on other CPUs go to the host through [`Effects`], in order.
//!
//! Access is layered. [`Sight`] is what every CPU sees of the machine without a lock. [`OneCpu`] is a run queue behind
//! its lock, and publishes the changes made under it. [`Cpus`] moves tasks between run queues. [`Machine`] has the calls
//! of hosts, in the files `schedule`, `beside`, `batch`, `expire`, `wake`, `change`, `limits`, `hotplug`, `usage`,
//! `watch` and `check`, and alone takes the locks of cores.

pub use crate::batch::Loan;
pub use crate::cpu::{OneCpu, Unshared};
pub use crate::cpus::Cpus;
pub use crate::host::{Controlled, Effects, Moving, TaskOf, Work, apply_pending};
pub use crate::sight::Sight;

use crate::cores::Decisions;
use crate::groups::GroupTable;
use crate::sync::Arc;
use runyard_engine::config::{BadConfig, Config};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::group::Groups;
use runyard_engine::limits::bandwidth::Control;
use runyard_engine::run_queue::{Meter, Room};
use runyard_engine::spec::GroupSpec;

/// The machine, with all its CPUs. See the module's documentation.
#[derive(Debug)]
pub struct Machine<W> {
    pub(crate) cpus: Cpus<W>,
    /// The last decisions of the cores, in machines with core scheduling.
    pub(crate) decisions: Option<Decisions>,
}

impl<W: Controlled> Machine<W> {
    /// Returns a machine of idle CPUs, all online.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    ///
    /// # Panics
    /// If `groups` does not start with the root or a parent does not precede its children.
    pub fn new(config: Config, groups: &[GroupSpec]) -> Result<Machine<W>, BadConfig> {
        Machine::with_room(config, groups, 0)
    }

    /// Does the same as [`Machine::new`], with room for groups to be added later.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    ///
    /// # Panics
    /// As [`Machine::new`].
    pub fn with_room(
        config: Config,
        specs: &[GroupSpec],
        room: usize,
    ) -> Result<Machine<W>, BadConfig> {
        config.validate()?;
        let (topology, features) = (config.topology, config.features);
        let n = topology.cpus();
        let (slice, interleaves) = (config.bandwidth_slice, config.rules.interleaves_periods);
        let control = Control { slice, interleaves };
        let groups = GroupTable::new(specs, room, n)
            .heeding(features.has(Feature::HardLimits), features.has(Feature::RuntimeShare))
            .by_bandwidth(features.has(Feature::CfsBandwidth).then_some(control));
        let groups = if room > 0 { groups.with_room_for_limits() } else { groups };
        groups.set_limits(specs, n);
        let decisions = config.cookies.then(|| Decisions::new(topology)).flatten();
        Ok(Machine { cpus: Cpus::new(Arc::new(config), Arc::new(groups)), decisions })
    }

    /// Limits the charge of tasks to the CPU time that `meter` reports, from now on.
    pub fn charge_by(&self, meter: &Arc<dyn Meter>) {
        self.cpus.all().for_each(|cpu| cpu.lock().rq.charge_by(meter.clone()));
    }

    /// Returns what every CPU sees of the machine without a lock.
    #[must_use]
    pub fn sight(&self) -> &Sight {
        &self.cpus.sight
    }

    /// Returns one of the CPUs.
    #[inline]
    #[must_use]
    pub fn cpu(&self, cpu: CpuId) -> OneCpu<'_, W> {
        self.cpus.of(cpu)
    }

    /// Returns the CPUs, between which tasks move.
    #[must_use]
    pub fn cpus(&self) -> &Cpus<W> {
        &self.cpus
    }

    /// Returns one of the CPUs, for a caller that shares the machine with no other thread.
    ///
    /// # Panics
    /// If a thread panicked while it held the lock of the CPU.
    pub fn unshared(&mut self, cpu: CpuId) -> Unshared<'_, W> {
        self.cpus.unshared(cpu)
    }

    /// Returns the groups.
    #[must_use]
    pub fn groups(&self) -> &GroupTable {
        &self.cpus.sight.groups
    }

    /// Returns the configuration of the machine.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.cpus.sight.config
    }

    /// Returns the CPUs of the machine.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.cpus.sight.all
    }

    /// Reserves memory on each CPU for `len` tasks and group queues. Up to that number, [`Machine::wake`],
    /// [`Machine::schedule`] and [`Machine::expire`] do not allocate.
    pub fn reserve(&self, len: usize) {
        self.cpus.all().for_each(|cpu| cpu.lock().rq.reserve(len));
        let depth = self.groups().count();
        self.decisions.iter().for_each(|decisions| decisions.reserve(depth));
    }

    /// Returns memory for `len` tasks and group queues on one CPU.
    #[must_use]
    pub fn room(&self, len: usize) -> Room<W> {
        Room::new(len, self.cpus.sight.has(Feature::Eevdf), self.decisions.is_some())
    }
}
