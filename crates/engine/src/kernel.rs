//! The kernels by name. A kernel is a value: its features, its rules and its numbers. It is not
//! another path of the engine: each value is read where a decision is made.
//!
//! Each choice cites the file and the function of the release, below `kernel/sched/`. The features
//! of each kernel are in the entries of the [features](crate::features). The whole table is in
//! `docs/design/kernels.md`, with the mechanisms that are not modelled.
//!
//! The founding documents have models of their own, named by their experiments: a machine without
//! the mechanism of the document, and with what that mechanism replaced. None of these is a whole
//! kernel.

use crate::config::Config;
use crate::features::{Entry, Feature, Features, Position};
pub use crate::release::{Experiment, Kernel};
use crate::rules::FairRules;
use crate::topology::Topology;
use std::fmt;
use std::str::FromStr;

impl Kernel {
    /// Returns the kernels that were released, from the oldest to the newest: all but the starting
    /// points of the experiments.
    ///
    /// ```
    /// use runyard_engine::kernel::Kernel;
    ///
    /// assert_eq!(Kernel::released().next(), Some(Kernel::V6_1));
    /// ```
    pub fn released() -> impl DoubleEndedIterator<Item = Kernel> {
        Kernel::ALL.into_iter().filter(|kernel| kernel.release().is_some())
    }

    /// Returns the named kernel with the rules of this very release, in the form of `uname -r`; else
    /// the newest named one of that series or an older one; the oldest, if all are newer. Returns
    /// `None` if the text is no release of Linux.
    ///
    /// ```
    /// use runyard_engine::kernel::Kernel;
    ///
    /// assert_eq!(Kernel::nearest("6.18.15+deb13-amd64"), Some(Kernel::V6_18_15));
    /// assert_eq!(Kernel::nearest("6.18.44-cloud"), Some(Kernel::V6_18));
    /// assert_eq!(Kernel::nearest("6.11.0"), Some(Kernel::V6_6));
    /// ```
    #[must_use]
    pub fn nearest(release: &str) -> Option<Kernel> {
        let number = |text: &str| {
            let mut parts = text.split(|c: char| !c.is_ascii_digit());
            Some((parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
        };
        let series = number(release)?;
        let end = release.find(|c: char| !c.is_ascii_digit() && c != '.');
        let very = Some(&release[..end.unwrap_or(release.len())]);
        let nearest = Kernel::released().find(|kernel| kernel.release() == very);
        let mut newest_first = Kernel::released().rev();
        nearest
            .or_else(|| newest_first.find(|kernel| number(kernel.name()) <= Some(series)))
            .or_else(|| Kernel::released().next())
    }

    /// Returns the features. Those of an experiment are the default ones without its mechanism, and
    /// with what the mechanism replaced.
    fn features(self) -> Features {
        let named = |entry: &Entry| entry.kernels.contains(&self);
        match self {
            Kernel::Experiment(experiment) => Features::of(|entry| {
                named(entry) || entry.default == Position::On && entry.document != Some(experiment)
            }),
            _ => Features::of(named),
        }
    }

    /// Returns whether real-time tasks are throttled even without groups: through 6.11
    /// (`update_curr_rt`, `rt.c`).
    fn always_throttles_rt(self) -> bool {
        !matches!(self, Kernel::V6_12 | Kernel::V6_18_15 | Kernel::V6_18)
    }

    /// Returns the base slice before it grows with the machine, in nanoseconds
    /// (`sysctl_sched_base_slice`, `fair.c`). It is 0.75 ms in 6.6 and in 6.12.0, and 0.70 ms after
    /// a change that was back-ported to 6.12. EEVDF with the rules of another kernel has the newer
    /// value.
    fn base_slice(self) -> u64 {
        match self {
            Kernel::V6_6 => 750_000,
            _ => 700_000,
        }
    }
}

impl Experiment {
    /// Returns the features that its document adds.
    pub fn mechanism(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(move |it| it.entry().document == Some(self))
    }

    /// Returns the starting point of the document: the [default model](Model::default) without its
    /// mechanism, and with what the mechanism replaced.
    #[must_use]
    pub fn before(self) -> Model {
        Model::named(Kernel::Experiment(self))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that no kernel has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKernel(pub String);

impl fmt::Display for UnknownKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown kernel {:?}; known are {}",
            self.0,
            Kernel::ALL.map(Kernel::name).join(", ")
        )?;
        write!(f, ", and each of the first five with {WITH_FOUNDING:?} behind it")
    }
}

impl std::error::Error for UnknownKernel {}

impl FromStr for Kernel {
    type Err = UnknownKernel;

    fn from_str(text: &str) -> Result<Kernel, UnknownKernel> {
        let named = Kernel::ALL.into_iter().find(|kernel| kernel.name() == text);
        named.ok_or_else(|| UnknownKernel(text.to_owned()))
    }
}

/// The subject of a simulation: a kernel, unchanged or with the founding mechanisms that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The kernel.
    pub kernel: Kernel,
    /// Whether the founding mechanisms are added.
    pub founding: bool,
}

/// CFS with the founding mechanisms: the model of the runtime, and of the founding experiments.
impl Default for Model {
    fn default() -> Model {
        Model { kernel: Kernel::V6_1, founding: true }
    }
}

/// The suffix of a kernel's name if it has the founding mechanisms.
const WITH_FOUNDING: &str = " + founding";

impl Model {
    /// The newest kernel with the founding mechanisms: the default of simulations.
    pub const NEWEST: Model = Model { kernel: Kernel::V6_18, founding: true };

    /// Returns an unchanged kernel.
    #[must_use]
    pub fn named(kernel: Kernel) -> Model {
        Model { kernel, founding: false }
    }

    /// Returns its features before any switch is set.
    ///
    /// ```
    /// use runyard_engine::features::{Feature, Features};
    /// use runyard_engine::kernel::{Kernel, Model};
    ///
    /// assert_eq!(Model::default().features(), Features::default());
    /// assert!(!Model::named(Kernel::V6_18).features().has(Feature::LatencyNice));
    /// ```
    #[must_use]
    pub fn features(self) -> Features {
        match self {
            // If EEVDF is turned on here, it is that of the runtime.
            Model { kernel: Kernel::V6_1, founding: true } => Features::default(),
            Model { kernel, founding: true } => {
                let founding = Feature::ALL.into_iter().filter(|it| it.entry().is_founding());
                founding.fold(kernel.features(), Features::with)
            }
            Model { kernel, founding: false } => kernel.features(),
        }
    }

    /// Returns the rules of its fair class.
    #[must_use]
    pub fn rules(self) -> FairRules {
        match self.kernel {
            Kernel::V6_1 if !self.founding => FairRules::V6_1,
            Kernel::V6_1 | Kernel::Experiment(_) => FairRules::RUNYARD,
            Kernel::V6_6 => FairRules::V6_6,
            Kernel::V6_12 => FairRules::V6_12,
            Kernel::V6_18_15 => FairRules::V6_18_15,
            Kernel::V6_18 => FairRules::V6_18,
        }
    }

    /// Returns its features, its rules and its numbers, for a machine of this size.
    #[must_use]
    pub fn config(self, topology: Topology) -> Config {
        let config = Config::new(topology);
        let base_slice = config.scaled(self.kernel.base_slice());
        let rt_runtime = config.rt_runtime.filter(|_| self.kernel.always_throttles_rt());
        Config { features: self.features(), rules: self.rules(), base_slice, rt_runtime, ..config }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kernel, if self.founding { WITH_FOUNDING } else { "" })
    }
}

/// Parses the displayed form.
impl FromStr for Model {
    type Err = UnknownKernel;

    fn from_str(text: &str) -> Result<Model, UnknownKernel> {
        let (name, founding) =
            text.strip_suffix(WITH_FOUNDING).map_or((text, false), |name| (name, true));
        let kernel: Kernel = name.parse()?;
        // An experiment's model lacks one of the founding mechanisms.
        match founding && kernel.release().is_none() {
            true => Err(UnknownKernel(text.to_owned())),
            false => Ok(Model { kernel, founding }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;

    fn eight() -> Topology {
        Topology::flat(8).unwrap()
    }

    #[test]
    fn the_default_is_the_configuration_that_every_machine_had() {
        assert_eq!(Model::default().config(eight()), Config::new(eight()));
    }

    #[test]
    fn an_experiment_is_the_default_without_its_mechanism() {
        for kernel in Kernel::ALL {
            let Kernel::Experiment(experiment) = kernel else { continue };
            let before = experiment.before().config(eight());
            // What the mechanism replaced: the balance of real-time tasks was removed for push and
            // pull.
            let replaced = Feature::ALL.into_iter().filter(|it| it.entry().kernels == [kernel]);
            let replaced: Vec<_> = replaced.collect();
            let expected: &[_] = match experiment {
                Experiment::RtMigrate => &[Feature::RtBalance],
                _ => &[],
            };
            assert_eq!(replaced, expected, "{kernel}");
            let features = replaced.into_iter().fold(before.features, Features::without);
            let features = experiment.mechanism().fold(features, Features::with);
            assert_eq!(Config { features, ..before }, Config::new(eight()), "{kernel}");
            assert_ne!(before.features, features, "{kernel}");
        }
    }

    #[test]
    fn only_the_kernel_before_push_and_pull_balances_real_time_tasks() {
        for kernel in Kernel::ALL {
            for founding in [false, true] {
                let features = Model { kernel, founding }.features();
                let before = kernel == Kernel::Experiment(Experiment::RtMigrate);
                assert_eq!(features.has(Feature::RtBalance), before, "{kernel}");
                assert!(!features.has(Feature::RtWakeElsewhere), "{kernel}");
            }
        }
        assert!(!Features::default().has(Feature::RtBalance));
    }

    /// The features of every kernel here: real-time balance, a balance of fair tasks, limits of
    /// groups with slices of a budget (`cfs_bandwidth`), averages of load (`pelt.c`), and a search
    /// for idle CPUs that depends on them.
    const COMMON: [Feature; 9] = [
        Feature::RtPush,
        Feature::RtPull,
        Feature::LoadBalance,
        Feature::BalanceByRoom,
        Feature::WakeupPreemption,
        Feature::HardLimits,
        Feature::CfsBandwidth,
        Feature::Pelt,
        Feature::SisUtil,
    ];

    /// The founding mechanisms that no kernel has. Those of the other founding documents came into
    /// the kernel.
    const FOUNDING: [Feature; 6] = [
        Feature::RuntimeShare,
        Feature::RtPushPastStuck,
        Feature::IdleLoadBalance,
        Feature::LatencyNice,
        Feature::GreedyTimers,
        Feature::CoreLatency,
    ];

    #[test]
    fn a_named_kernel_has_no_founding_mechanism_that_it_lacked() {
        for kernel in Kernel::released() {
            let has = |feature: &Feature| Model::named(kernel).features().has(*feature);
            assert!(!FOUNDING.iter().any(has) && COMMON.iter().all(has), "{kernel}");
            assert_ne!(has(&Feature::Eevdf), has(&Feature::GentleFairSleepers), "{kernel}");
            assert_eq!(has(&Feature::Eevdf), has(&Feature::RunToParity), "{kernel}");
            assert_ne!(has(&Feature::NiRandom), kernel == Kernel::V6_6, "{kernel}");
            let of_6_12 = kernel >= Kernel::V6_12;
            for feature in [
                Feature::PreemptShort,
                Feature::PlaceRelDeadline,
                Feature::DelayDequeue,
                Feature::FairServer,
            ] {
                assert_eq!(has(&feature), of_6_12, "{kernel} {feature:?}");
            }
            for founding in [false, true] {
                let throttles = Model { kernel, founding }.config(eight()).rt_runtime.is_some();
                assert_eq!(throttles, !of_6_12, "{kernel}");
            }
            let founding = Model { kernel, founding: true }.features();
            assert!(FOUNDING.iter().all(|&feature| founding.has(feature)), "{kernel}");
            assert_eq!(
                founding.has(Feature::Pelt),
                kernel > Kernel::V6_1,
                "CFS + founding: runtime"
            );
        }
    }

    #[test]
    fn base_slices_grow_with_the_machine() {
        let slice = |kernel: &str| Model::named(kernel.parse().unwrap()).config(eight()).base_slice;
        assert_eq!(slice("6.6"), Nanos::from_micros(3_000));
        assert_eq!(slice("6.12"), Nanos::from_micros(2_800));
        assert_eq!(slice("6.18"), Nanos::from_micros(2_800));
    }

    #[test]
    fn a_release_has_a_nearest_kernel() {
        let nearest = |release| Kernel::nearest(release).map(Kernel::name);
        let pairs = [
            ("6.18.44-fc-v657", "6.18"),
            ("6.17.1", "6.12"),
            ("6.6.0", "6.6"),
            ("5.10.0-8-amd64", "6.1"),
            ("7.0-rc1", "6.18"),
        ];
        for (release, name) in pairs {
            assert_eq!(nearest(release), Some(name), "{release}");
        }
        assert_eq!([nearest(""), nearest("Darwin"), nearest("6")], [None; 3]);
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for kernel in Kernel::ALL {
            for founding in [false, true] {
                let model = Model { kernel, founding };
                let is_one = !founding || kernel.release().is_some();
                assert_eq!(model.to_string().parse().ok(), is_one.then_some(model));
            }
        }
        let error = "6.13".parse::<Kernel>().unwrap_err();
        assert!(error.to_string().contains("6.12, 6.18.15, 6.18, rt-migrate"), "{error}");
    }
}
