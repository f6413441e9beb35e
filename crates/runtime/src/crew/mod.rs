//! The threads of a runtime: the table of its workers, the threads that serve them, and the ways in which workers come
//! to slots.

pub(crate) mod ceiling;
pub(crate) mod crowd;
pub(crate) mod foreign;
pub(crate) mod homes;
pub(crate) mod hooks;
pub(crate) mod host_cpus;
pub(crate) mod keeper;
pub(crate) mod kick;
pub(crate) mod maker;
pub(crate) mod members;
pub(crate) mod meter;
pub(crate) mod relief;
pub(crate) mod rescue;
pub(crate) mod slotless;
pub(crate) mod spares;
pub(crate) mod standing;
pub(crate) mod threads;
