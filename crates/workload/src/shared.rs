//! Properties that tasks and phases have in common, kept once.

use crate::scenario::Properties;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

/// What a thread or a phase asks of the scheduler. Many ask the same; a clone takes no memory until it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(Arc<Properties>);

/// Nothing is asked for.
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
