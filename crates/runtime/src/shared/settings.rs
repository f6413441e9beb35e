//! The settings of the state that a runtime shares, from its builder.

use super::cookies::NoCookies;
use crate::crew::ceiling;
use crate::crew::hooks::Hooks;
use crate::observe::Observer;
use crate::os;
use crate::os::sync::Arc;
use crate::stall::OnStall;
use runyard_engine::attr::LatencyNice;
use runyard_engine::features::Features;
use runyard_engine::kernel::Model;
use runyard_engine::tuned::Tuned;

/// Default number of task groups that fit into a runtime. A machine of a kernel has some hundred, and most of them
/// never run.
const MAX_GROUPS: usize = 256;

/// The settings of a runtime.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The number that the program asks for. Such workers run whatever the quota of the process is.
    pub(crate) workers: Option<usize>,
    pub(crate) pins: bool,
    /// Number of workers of each core, if cookies are kept; otherwise the reason why they are not.
    pub(crate) cores: Result<usize, NoCookies>,
    pub(crate) signal: i32,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) lowest_latency_nice: LatencyNice,
    pub(crate) max_groups: usize,
    pub(crate) max_threads: Option<usize>,
    pub(crate) hooks: Hooks,
    pub(crate) features: Features,
    pub(crate) model: Model,
    pub(crate) tuned: Tuned,
    pub(crate) siege: Option<u64>,
    /// Whether tasks run on the thread of `block_on`.
    pub(crate) single: bool,
    /// The seed, if the runtime runs in virtual time.
    pub(crate) paused: Option<u64>,
    pub(crate) statistics: bool,
    pub(crate) name: Option<String>,
    pub(crate) on_stall: Option<OnStall>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            workers: None,
            pins: false,
            cores: Err(NoCookies::NotAsked),
            signal: os::signal::USUAL,
            observer: None,
            lowest_latency_nice: LatencyNice::MIN,
            max_groups: MAX_GROUPS,
            max_threads: None,
            hooks: Hooks::default(),
            features: Features::of_runtime(),
            model: Model::default(),
            tuned: Tuned::default(),
            siege: None,
            single: false,
            paused: None,
            statistics: false,
            name: None,
            on_stall: None,
        }
    }
}

impl Settings {
    /// Returns the maximum number of threads of a runtime with `cpus` CPUs.
    pub(super) fn most_threads(&self, cpus: usize) -> usize {
        let asked = self.max_threads.unwrap_or_else(ceiling::of_this_process);
        asked.max(3 * cpus).min(ceiling::OF_LINUX)
    }
}
