//! Properties that tasks and phases have in common, stored once.

use crate::scenario::Properties;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

/// The scheduling properties that a thread or a phase requests. Many request the same ones; a clone takes no memory
/// until it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(Arc<Properties>);

/// No property is requested.
impl Default for Asked {
    fn default() -> Asked {
        static NOTHING: LazyLock<Asked> = LazyLock::new(|| Properties::default().into());
        NOTHING.clone()
    }
}

impl From<Properties> for Asked {
    fn from(properties: Properties) -> Asked {
        Asked(Arc::new(properties))
    }
}

impl Deref for Asked {
    type Target = Properties;

    fn deref(&self) -> &Properties {
        &self.0
    }
}

impl DerefMut for Asked {
    fn deref_mut(&mut self) -> &mut Properties {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::time::Nanos;

    #[test]
    fn a_change_is_ones_own() {
        let one = Asked::default();
        let mut other = one.clone();
        assert!(Arc::ptr_eq(&one.0, &other.0));
        other.slack = Some(Nanos(1));
        assert_eq!((one.slack, other.slack), (None, Some(Nanos(1))));
    }
}
