//! No bell exists here: only the driver's own thread drives.

use runyard_engine::time::Time;
use std::convert::Infallible;
use std::io;
use std::task::Context;
use tokio::runtime::Handle;

/// A bell, of which none is ever made.
#[derive(Debug)]
pub(crate) struct Bell(Infallible);

impl Bell {
    /// Refuses always.
    pub(crate) fn new(_handle: &Handle) -> io::Result<Bell> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn ring(&self) {
        match self.0 {}
    }

    pub(crate) fn wait_until<R>(&self, _at: Option<Time>, _wait: impl FnOnce() -> R) -> R {
        match self.0 {}
    }

    pub(crate) fn listen(&self, _cx: &mut Context<'_>) -> bool {
        match self.0 {}
    }
}
