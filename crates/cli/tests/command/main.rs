//! Tests of the command as scripts see it: arguments and files are the input, exit codes and two streams the output.

mod compare;
mod examples;
mod explain;
mod hosts;
mod import;
mod input;
mod interrupt;
mod json;
mod log;
mod options;
mod replay;
mod report;
mod reproduce;
mod rig;
mod rt_app;
mod schedstat;
mod settings;
mod shells;
mod streams;
mod sweep;
mod trace;
