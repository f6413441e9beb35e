//! Parameters of a machine that its user set: they replace those of its kernel.

use crate::config::Config;

/// Values for fields of a [`Config`].
///
/// ```
/// use runyard_engine::config::Config;
/// use runyard_engine::time::Nanos;
/// use runyard_engine::topology::Topology;
/// use runyard_engine::tuned::Tuned;
///
/// let mut tuned = Tuned::default();
/// tuned.add(|config, ms| config.rr_slice = Nanos::from_millis(ms.unsigned_abs()), 20);
/// let mut config = Config::new(Topology::flat(1).unwrap());
/// tuned.apply(&mut config);
/// assert_eq!(config.rr_slice, Nanos::from_millis(20));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tuned(Vec<(Set, i64)>);

/// A function that stores a value in its field.
pub type Set = fn(&mut Config, i64);

impl Tuned {
    /// Adds a value, with the function that stores it. A later one for the same field wins.
    pub fn add(&mut self, set: Set, value: i64) {
        self.0.push((set, value));
    }

    /// Stores each value in its field.
    pub fn apply(&self, config: &mut Config) {
        self.0.iter().for_each(|&(set, value)| set(config, value));
    }

    /// Returns whether no value was set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
