//! Switches of the scheduler for experiments. A program needs none of them, though some may want `EEVDF`.
//!
//! Each of the scheduler's mechanisms is a [`Feature`]. Without one, the scheduler behaves as it did before that
//! mechanism existed, which gives a measurement its baseline.
//!
//! ```
//! use runyard::Runtime;
//! use runyard::experiments::{Experiments, Feature, Features};
//!
//! let features = Features::of_runtime().without(Feature::RtPull);
//! let runtime = Runtime::builder().features(features).build();
//! assert_eq!(runtime.block_on(async { runyard::spawn(async { 7 }).await.unwrap() }), 7);
//! ```

use crate::runtime::Builder;
pub use runyard_engine::features::{Feature, Features, Switched};
pub use runyard_engine::kernel::{Kernel, Model};
pub use runyard_engine::tuned::Tuned;

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::runtime::Builder {}
}

/// Settings of a runtime that only experiments need. Only [`Builder`] implements it.
pub trait Experiments: sealed::Sealed + Sized {
    /// Sets which of the scheduler's mechanisms are on. The default is [`Features::of_runtime`].
    /// [`Feature::CfsBandwidth`], [`Feature::DelayDequeue`], [`Feature::FairServer`] and
    /// [`Feature::Pelt`] are always off.
    ///
    /// ```
    /// use runyard::Runtime;
    /// use runyard::experiments::{Experiments, Feature, Features};
    ///
    /// let eevdf = Features::of_runtime().with(Feature::Eevdf);
    /// let runtime = Runtime::builder().features(eevdf).build();
    /// # drop(runtime);
    /// ```
    #[must_use]
    fn features(self, features: Features) -> Self;

    /// Sets the kernel whose parameters hold. The default is CFS's. This does not switch the features of that kernel.
    #[must_use]
    fn kernel(self, model: Model) -> Self;

    /// Replaces parameters of that kernel. By default none is replaced. Every CPU is tickless and has its own tick
    /// phase, whatever `config` contains.
    ///
    /// ```
    /// use runyard::Runtime;
    /// use runyard::experiments::{Experiments, Tuned};
    /// use runyard_engine::time::Nanos;
    ///
    /// let mut tuned = Tuned::default();
    /// tuned.add(|config, us| config.latency = Nanos::from_micros(us.unsigned_abs()), 3_000);
    /// let runtime = Runtime::builder().tuned(tuned).build();
    /// # drop(runtime);
    /// ```
    ///
    /// # Panics
    /// `build` panics if the parameters contradict each other
    /// ([`Config::validate`](runyard_engine::config::Config::validate)).
    #[must_use]
    fn tuned(self, tuned: Tuned) -> Self;
}

impl Experiments for Builder {
    fn features(mut self, features: Features) -> Builder {
        self.settings.features = features;
        self
    }

    fn kernel(mut self, model: Model) -> Builder {
        self.settings.model = model;
        self
    }

    fn tuned(mut self, tuned: Tuned) -> Builder {
        self.settings.tuned = tuned;
        self
    }
}
