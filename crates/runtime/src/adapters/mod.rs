//! Other crates on this runtime: tokio's driver, hyper, and rayon's pools. Each is behind a cargo feature.

#[cfg(feature = "tokio")]
pub(crate) mod driver;
#[cfg(not(feature = "tokio"))]
#[path = "driver/absent.rs"]
pub(crate) mod driver;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "rayon")]
pub mod rayon;
