//! Without the cargo feature `tokio` no runtime has a driver of tokio's.

use crate::maker::Refusal;
use crate::primitives::Arc;
use crate::shared::Shared;
use std::io;

/// Nothing can be asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {}

/// There is none.
#[derive(Debug, Default)]
pub(crate) struct Driver {}

/// Nothing was entered.
pub(crate) struct Entered;

impl Asked {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with a driver")]
    pub(crate) fn open(self) -> io::Result<Driver> {
        Ok(Driver {})
    }
}

#[expect(clippy::unused_self, reason = "as with a driver")]
impl Driver {
    pub(crate) fn enter_for_life(&self) {}

    pub(crate) fn enter(&self) -> Entered {
        Entered
    }

    pub(crate) fn is_here(&self) -> bool {
        false
    }

    pub(crate) fn say_if_tasks_escape(&self) {}

    pub(crate) fn end(&self) {}
}

/// There is no thread of it.
#[expect(clippy::unnecessary_wraps, reason = "as with a driver")]
pub(crate) fn start(_: &Arc<Shared>) -> Result<(), Refusal> {
    Ok(())
}
