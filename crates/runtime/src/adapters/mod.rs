//! Other crates on this runtime: hyper, and rayon's pools. Each is behind a cargo feature.

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "rayon")]
pub mod rayon;
