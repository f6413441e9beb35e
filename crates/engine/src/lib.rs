//! The policy of the Linux scheduler as data structures.
pub mod attr;
pub mod cpu;
pub mod event;
pub mod features;
pub mod task;
pub mod time;
pub mod topology;
