//! The rules that hold the tree, and the checks that need more than one command line.
//!
//! [`tidy`] has the rules that no compiler knows. They run as tests (`xtask/tests/tidy.rs`), so `cargo test
//! --workspace` is enough to know that a change keeps them. The other modules are the commands of `cargo xtask`.
//! Nothing here is part of a user's build, and no crate depends on it.

pub mod book;
pub mod command;
pub mod cpu_time;
#[path = "../../crates/sim/tests/scenarios/dice.rs"]
mod dice;
#[path = "../../crates/sim/tests/scenarios/draw.rs"]
mod draw;
pub mod fidelity;
pub mod figures;
pub mod first_answer;
pub mod full;
pub mod fuzz;
pub mod instructions;
mod limits;
pub mod lines;
#[path = "../../crates/report/src/median.rs"]
pub mod median;
pub mod models;
mod packages;
pub mod pages;
pub mod pictures;
pub mod price;
pub mod python;
pub mod release;
pub mod replay;
pub mod rt_app;
pub mod same;
mod selftests;
pub mod siege;
#[path = "../../crates/hosts/src/stat.rs"]
mod stat;
pub mod tidy;
pub mod traces;
pub mod wide;
pub mod workspace;
