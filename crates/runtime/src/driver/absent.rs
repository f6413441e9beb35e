//! Without the cargo feature `tokio` no runtime has a driver of tokio's.

/// Nothing can be asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked;

/// There is none.
#[derive(Debug)]
pub(crate) struct Driver;

/// Nothing was entered.
pub(crate) struct Entered;

impl Driver {
    pub(crate) fn new(_: Asked) -> Driver {
        Driver
    }

    #[expect(clippy::unused_self, reason = "as the driver that there is")]
    pub(crate) fn enter_for_life(&self) {}

    #[expect(clippy::unused_self, reason = "as the driver that there is")]
    pub(crate) fn enter(&self) -> Entered {
        Entered
    }
}
