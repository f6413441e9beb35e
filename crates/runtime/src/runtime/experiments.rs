//! What experiments switch in the scheduler. A program needs none of it, but for `EEVDF`, which some may want.
//!
//! Each of the scheduler's mechanisms is a [`Feature`]. Without one the scheduler does what it did before that mechanism
//! was known, which is what a measurement compares with.
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

/// What an experiment says of a runtime beside all else. Only a [`Builder`] is one.
pub trait Experiments: sealed::Sealed + Sized {
    /// Which of the scheduler's mechanisms are on; [`Features::of_runtime`] if not said. [`Feature::DelayDequeue`],
    /// [`Feature::FairServer`] and [`Feature::Pelt`] are off whatever is said.
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

    /// The kernel whose numbers hold, CFS's if not said; its features are not switched by that.
    #[must_use]
    fn kernel(self, model: Model) -> Self;

    /// Numbers of the scheduler that replace those of the kernel, none if not said. Every CPU is tickless and ticks at a
    /// moment of its own, whatever they say.
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
    /// `build` does, if the numbers contradict each other
    /// ([`Config::validate`](runyard_engine::config::Config::validate)).
    #[must_use]
    fn tuned(self, tuned: Tuned) -> Self;
}

impl Experiments for Builder {
    fn features(mut self, features: Features) -> Builder {
        self.features = features;
        self
    }

    fn kernel(mut self, model: Model) -> Builder {
        self.model = model;
        self
    }

    fn tuned(mut self, tuned: Tuned) -> Builder {
        self.tuned = tuned;
        self
    }
}
