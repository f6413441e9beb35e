//! The workload language.
pub mod draw;
pub mod scenario;
