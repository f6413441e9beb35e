//! The options that all hosts share: the scenario, and replacements for parts of it.

use crate::log::LogFolder;
use crate::names::{FEATURES, KERNELS};
use crate::output::OutFile;
use crate::page::PageOptions;
use crate::trace::TraceOptions;
use crate::window::WindowOptions;
use clap::Args;
use runyard_engine::cpu::MAX_CPUS;
use runyard_engine::features::Switched;
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use runyard_hosts::machine;
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::TaskRows;
use runyard_workload::setting::Setting;
use runyard_workload::{DeadlinePolicy, MAX_TEXT, Overrides, Parsed, TOO_LONG, span};
use std::fs::File;
use std::io::{self, Read};

/// A scenario and the options of its run.
#[derive(Debug, Args)]
pub(crate) struct HostOptions {
    /// A file in rt-app's language, or `-` for standard input.
    pub(crate) scenario: String,
    /// The number of CPUs of the machine.
    #[arg(long, value_name = "N", value_parser = cpus)]
    cpus: Option<usize>,
    /// The topology of the CPUs: NODESxCORES or NODESxCORESxTHREADS.
    #[arg(long, value_name = "SHAPE")]
    topology: Option<Topology>,
    /// The kernel whose rules the machine follows, or an experiment, for the "before" of its document; sim and live
    /// only.
    #[arg(long, value_name = "NAME", value_parser = KERNELS)]
    kernel: Option<Model>,
    /// Turn a feature on, or off with NO_ before its name; sim and live only. Repeatable.
    #[arg(long, value_name = "[NO_]NAME", value_parser = FEATURES, hide_possible_values = true)]
    feature: Vec<Switched>,
    /// Replace a value of the scenario, as tasks.web.run=300 or scheduler.base_slice_us=3000; applied after --cpus,
    /// from left to right. Repeatable.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    settings: Vec<Setting>,
    /// Run SCHED_DEADLINE tasks as SCHED_FIFO tasks of priority 99, without a budget; otherwise linux passes them to
    /// the kernel, and sim and live refuse them.
    #[arg(long)]
    deadline_as_fifo: bool,
    /// The seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The length of the run: seconds, or a number and us, ms, s, m or h, as 1.5s.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    duration: Option<Nanos>,
    /// Print only the report, as JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// List every task; otherwise tasks of one name share a row, and of many rows only the busiest are shown.
    #[arg(long)]
    tasks: bool,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
    /// Write the counters of the run to FILE, in the format of /proc/schedstat that the kernel has.
    #[arg(long, value_name = "FILE")]
    pub(crate) schedstat: Option<OutFile>,
    /// Write rt-app's log of every task into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<LogFolder>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

impl HostOptions {
    /// Reads the scenario for a simulated machine; warnings go to standard error.
    pub(crate) fn read(&self) -> Result<Parsed, Failure> {
        self.read_over(&self.simulated())
    }

    /// Like [`read`](Self::read), for a report of a part of the run.
    pub(crate) fn read_part(&self, window: WindowOptions) -> Result<Parsed, Failure> {
        self.read_over(&window.over(self.simulated()))
    }

    /// Reads the scenario for this machine. It gets this number of CPUs, in place of the scenario's own.
    pub(crate) fn read_on(&self, cpus: usize) -> Result<Parsed, Failure> {
        let cpus = Some(cpus);
        self.read_over(&self.over(&Overrides { cpus, real_cores: true, ..Overrides::default() }))
    }

    /// Like [`read_on`](Self::read_on), for this machine's kernel.
    pub(crate) fn read_for_kernel(&self, cpus: usize) -> Result<Parsed, Failure> {
        let (cpus, deadline) = (Some(cpus), DeadlinePolicy::Native);
        // A valid `scheduler` is no error here, although it has no effect.
        let unless_said = Model::NEWEST;
        let over = Overrides { cpus, deadline, unless_said, ..Overrides::default() };
        self.read_over(&self.over(&Overrides { real_cores: true, ..over }))
    }

    /// The CPUs of this machine that the run uses. A topology has as many.
    pub(crate) fn cpus_here(&self) -> Result<Vec<usize>, Failure> {
        let mut cpus = machine::cpus()?;
        let there = cpus.len();
        if let Some(wanted) = self.cpus.filter(|&wanted| wanted > there) {
            return Err(Failure::input(format_args!(
                "--cpus {wanted}: there are {there} CPUs here"
            )));
        }
        cpus.truncate(self.cpus.unwrap_or(there));
        let here = cpus.len();
        match self.topology.filter(|shape| shape.cpus() != here) {
            None => Ok(cpus),
            Some(shape) => Err(Failure::input(format_args!(
                "--topology {shape}: {} CPUs, but the run has {here}",
                shape.cpus()
            ))),
        }
    }

    /// The rows for tasks in the text report.
    pub(crate) fn rows(&self) -> TaskRows {
        if self.tasks { TaskRows::Tasks } else { TaskRows::Names }
    }

    /// Whether a run is to write files.
    pub(crate) fn has_files(&self) -> bool {
        let given = self.trace.is_given() || self.page.is_given();
        given || self.log.is_some() || self.schedstat.is_some()
    }

    /// Whether features are switched.
    pub(crate) fn has_features(&self) -> bool {
        !self.feature.is_empty()
    }

    /// Whether a kernel is named.
    pub(crate) fn has_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// The replacements for parts of a scenario, for a simulated machine.
    pub(crate) fn simulated(&self) -> Overrides {
        let (cpus, unless_said) = (self.cpus, Model::NEWEST);
        self.over(&Overrides { cpus, unless_said, ..Overrides::default() })
    }

    /// The first given option that only fits a single run, or the output of a single run.
    pub(crate) fn unfit_for_several(&self) -> Option<&'static str> {
        let given = [
            (self.seed != 1, "--seed"),
            (self.json, "--json"),
            (self.log.is_some(), "--log"),
            (self.schedstat.is_some(), "--schedstat"),
            (self.trace.is_given(), "--trace"),
            (self.page.is_given(), "--html"),
        ];
        given.into_iter().find_map(|(given, option)| given.then_some(option))
    }

    /// Reads the scenario with these replacements.
    fn read_over(&self, over: &Overrides) -> Result<Parsed, Failure> {
        let text = scenario_text(&self.scenario)?;
        let parsed =
            runyard_workload::parse(&self.scenario, &text, over).map_err(Failure::input)?;
        for warning in &parsed.warnings {
            say(format_args!("warning: {warning}"));
        }
        Ok(parsed)
    }

    /// The replacements for parts of the scenario, with those of the host on top.
    fn over(&self, host: &Overrides) -> Overrides {
        Overrides {
            topology: self.topology,
            kernel: self.kernel,
            features: self.feature.clone(),
            settings: self.settings.clone(),
            duration: self.duration,
            deadline: if self.deadline_as_fifo { DeadlinePolicy::AsFifo } else { host.deadline },
            ..*host
        }
    }

    /// The scenario's name in the report: its file's name without the ending.
    pub(crate) fn name(&self) -> String {
        runyard_workload::name_of(&self.scenario)
    }
}

/// Opens a file, or standard input for `-`.
pub(crate) fn opened(file: &str) -> Result<Box<dyn Read>, Failure> {
    if file == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    match File::open(file) {
        Ok(opened) => Ok(Box::new(opened)),
        Err(error) => Err(Failure::input(format_args!("{}{error}", cannot_read(file)))),
    }
}

/// The bytes of a file, or of standard input for `-`.
pub(crate) fn bytes(file: &str) -> Result<Vec<u8>, Failure> {
    bytes_up_to(file, u64::MAX)
}

/// Like [`bytes`], up to this number of bytes.
fn bytes_up_to(file: &str, most: u64) -> Result<Vec<u8>, Failure> {
    let read = || {
        let mut bytes = Vec::new();
        if file == "-" {
            std::io::stdin().take(most).read_to_end(&mut bytes)?;
        } else {
            let file = File::open(file)?;
            let size = file.metadata()?.len().min(most);
            bytes.reserve_exact(size.try_into().unwrap_or_default());
            file.take(most).read_to_end(&mut bytes)?;
        }
        Ok::<_, io::Error>(bytes)
    };
    read().map_err(|error| Failure::input(format_args!("{}{error}", cannot_read(file))))
}

/// The beginning of the error for a file that cannot be read.
pub(crate) fn cannot_read(file: &str) -> String {
    format!("cannot read {file}: ")
}

/// The text of a scenario. A text that is too long is read only as far as needed to know this.
pub(crate) fn scenario_text(file: &str) -> Result<String, Failure> {
    let bytes = bytes_up_to(file, MAX_TEXT as u64 + 1)?;
    if bytes.len() > MAX_TEXT {
        return Err(Failure::input(format_args!("{file}:1:1: {TOO_LONG}")));
    }
    as_text(file, bytes)
}

/// Like [`bytes`], as text.
pub(crate) fn text(file: &str) -> Result<String, Failure> {
    as_text(file, bytes(file)?)
}

fn as_text(file: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = valid.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&valid[start..]).chars().count() + 1;
        Failure::input(format_args!("{file}:{line}:{column}: not UTF-8"))
    })
}

/// Reads a number of CPUs that a machine can have.
pub(crate) fn cpus(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_CPUS).contains(number));
    number.ok_or_else(|| format!("a machine has 1 to {MAX_CPUS} CPUs"))
}
