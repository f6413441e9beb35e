//! The hosts that play scenarios on this machine's CPUs.
//!
//! [`live`] plays a scenario on the runyard runtime, in this process. [`linux`] plays it as kernel threads under the
//! kernel's own scheduler. Both share one interpreter of the tasks' programs ([`play`]). They differ in the clock, the
//! sleeps and the scheduler.
//!
//! Arrows between the files go down: the two hosts know the interpreter, and the interpreter knows neither. A host
//! returns a [`Failure`](runyard_outcome::Failure) where the input is wrong or the machine refuses.
//!
//! [`calibrate`] measures the costs of scheduling here, for simulated machines.
//!
//! Both hosts need Linux. On another system this crate compiles, and the hosts refuse. Three modules ask the kernel;
//! the folder `elsewhere` has their refusing counterparts.

pub mod calibrate;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/clock.rs")]
pub mod clock;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/cpus.rs")]
mod cpus;
pub mod ignored;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/linux.rs")]
pub mod linux;
pub mod live;
pub mod machine;
pub mod others;
pub mod play;
mod program;
mod stat;
pub mod sync;
