//! The command as scripts see it: arguments and files in, exit codes and two streams out.

mod compare;
mod explain;
mod hosts;
mod import;
mod input;
mod interrupt;
mod json;
mod log;
mod options;
mod report;
mod reproduce;
mod rig;
mod rt_app;
mod settings;
mod shells;
mod streams;
mod sweep;
mod trace;
