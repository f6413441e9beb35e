//! The options of the command line, which take precedence over the file, and the treatment of SCHED_DEADLINE.

use crate::setting::Setting;
use runyard_engine::features::Switched;
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;

/// The options of the command line, which take precedence over the file. They are applied before the scenario is
/// checked. So a task pinned to CPU 12 is an error only if the resulting machine has no such CPU.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The number of CPUs. A topology of that size stays. Otherwise all CPUs are on one node.
    pub cpus: Option<usize>,
    /// The shape of the machine, and with it the number of CPUs.
    pub topology: Option<Topology>,
    /// The model of the machine, which replaces that of the file.
    pub kernel: Option<Model>,
    /// The model of the machine if neither the file nor the command line gives one.
    pub unless_said: Model,
    /// Feature switches, applied after those of the file.
    pub features: Vec<Switched>,
    /// The duration of the run.
    pub duration: Option<Nanos>,
    /// The part of the run that the simulator's reports count.
    pub window: Window,
    /// The treatment of SCHED_DEADLINE.
    pub deadline: DeadlinePolicy,
    /// Values that replace the file's, in this order, after [`Overrides::cpus`] and before the scenario is checked.
    pub settings: Vec<Setting>,
    /// Whether the run uses real cores, for any machine in the file. In that case there is no warning that the
    /// simulated cores have too few threads for cookies.
    pub real_cores: bool,
}

/// A part of a run. The run before it takes place, but does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its beginning, counted from the run's, and before the run's end. Without one it is the run's beginning.
    pub from: Option<Nanos>,
    /// Its end, at which the run ends, within the duration. Without one it is the run's end.
    pub until: Option<Nanos>,
}

/// The treatment of the policy SCHED_DEADLINE, which the engine does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadlinePolicy {
    /// A scenario with this policy is refused.
    #[default]
    Refused,
    /// The policy becomes SCHED_FIFO of the highest priority, without a budget.
    AsFifo,
    /// The host has the policy. Its tasks have a [`Reservation`](crate::scenario::Reservation).
    Native,
}
