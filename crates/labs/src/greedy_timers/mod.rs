//! The greedy walk of timers on an idle CPU, the experiment of the patch (September 2011): what it does
//! to migrations, in the document's four cases.
//!
//! With slack a timer may run early, and the regular walk makes little of it: it stops at the first timer
//! whose time has not come, and on a busy CPU that is the next tick. So a timer waits until it must
//! interrupt somebody, and the task that it wakes has to go elsewhere. An idle CPU has the time: the
//! greedy walk runs there all that may be run, when it goes idle and when it is interrupted.
//!
//! What the document publishes is migrations in a minute, and which part of the timers only the greedy
//! walk ran. What it does not tell is assumed in `case` and varied in `guesses`. It hopes
//! that timers that are cancelled in time save wake-ups too; `cancelled` asks when that is so. All
//! of these are simulated; [`live()`] is on the CPUs that there are.

mod cancelled;
mod case;
mod guesses;
mod live;
mod simulated;
mod spread;

pub use live::live;
pub use simulated::simulated;
