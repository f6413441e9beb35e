//! The results of a run: its report on standard output, and the requested files.
//!
//! The files are opened before the run, so that no run is lost to a mistake in a name. The report is written first when
//! the run is over: a full disk then loses only its own file.

use crate::log::Log;
use crate::options::HostOptions;
use crate::output::{self, OpenFile, OutFile};
use crate::progress;
use crate::trace::Tracing;
use runyard_engine::kernel::Kernel;
use runyard_engine::time::Time;
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::html::{self, Run};
use runyard_report::{
    Checks, Collector, Kept, Report, RunInfo, SchedstatVersion, Stretches, Totals, render,
};
use std::io::Write;

/// The destinations of a run's results.
#[derive(Debug)]
pub(crate) struct Outputs<'h> {
    host: &'h HostOptions,
    trace: Option<Tracing>,
    page: Option<OpenFile>,
    schedstat: Option<OpenFile>,
}

/// A finished run that has events.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) info: RunInfo,
    pub(crate) totals: Totals,
    pub(crate) end: Time,
    /// The kernel whose rules the machine followed.
    pub(crate) kernel: Kernel,
    /// All events, if a trace is wanted.
    pub(crate) kept: Option<Kept>,
}

/// Reports the work that a run left undone.
pub(crate) fn tell_what_is_left(left: &[String]) {
    left.iter().for_each(|line| say(format_args!("warning: {line}")));
}

impl<'h> Outputs<'h> {
    /// Opens the files that `host` asks for.
    pub(crate) fn open(host: &'h HostOptions) -> Result<Outputs<'h>, Failure> {
        if let Some(log) = &host.log {
            log.prepare()?;
        }
        let schedstat = host.schedstat.as_ref().map(OutFile::open).transpose()?;
        Ok(Outputs { host, trace: host.trace.open()?, page: host.page.open()?, schedstat })
    }

    /// A store for events, if a trace is wanted.
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.trace.as_ref().map(|_| Kept::default())
    }

    /// Whether an output shows everything that is known of a run: the JSON, or a page.
    pub(crate) fn tell_all(&self) -> bool {
        self.host.json || self.page.is_some()
    }

    /// The file of the counters of `/proc/schedstat`, if it is asked for. It is taken out.
    pub(crate) fn take_schedstat(&mut self) -> Option<OpenFile> {
        self.schedstat.take()
    }

    /// The collector of the events of a run on these CPUs. It keeps what the outputs show.
    pub(crate) fn collector(&self, topology: Topology) -> Collector {
        let collector = match (self.page.is_some(), self.host.json) {
            (true, _) => Collector::with_timeline(),
            (false, true) => Collector::with_history(),
            (false, false) => Collector::default(),
        };
        match self.schedstat {
            Some(_) => collector.with_schedstat(topology),
            None => collector,
        }
    }

    /// Shows a run that has events.
    pub(crate) fn finish(
        mut self,
        ended: Ended,
        checks: Checks,
        log: Log<'_>,
    ) -> Result<(), Failure> {
        let Ended { info, totals, end, kernel, kept } = ended;
        let shown = self.page.as_ref().map(|_| progress::of("packing the timeline"));
        let stretches = Stretches::new(&totals, &info.tasks, info.cpus);
        drop(shown);
        if let Some(file) = self.take_schedstat() {
            let text = totals.schedstat(SchedstatVersion::of(kernel)).expect("it was kept");
            file.write(|out| out.write_all(text.as_bytes()))?;
        }
        let traced = self.trace.take().zip(kept).map(|traced| (traced, info.clone()));
        self.show(&Report::new(info, &totals), stretches.as_ref(), checks, log)?;
        match traced {
            Some(((trace, kept), info)) => {
                let _shown = progress::of("writing the trace");
                trace.write(&info, &kept, end)
            }
            None => Ok(()),
        }
    }

    /// Shows the report of a run, and its other outputs.
    pub(crate) fn show(
        self,
        report: &Report,
        stretches: Option<&Stretches>,
        checks: Checks,
        log: Log<'_>,
    ) -> Result<(), Failure> {
        output::report(|out| match self.host.json {
            true => report.write_json(out),
            false => out.write_all(render(report, checks, self.host.rows()).as_bytes()),
        })?;
        if let Some(page) = self.page {
            page.write(|out| out.write_all(html::page(Run { report, stretches }).as_bytes()))?;
        }
        self.host.log.as_ref().map_or(Ok(()), |folder| folder.write(log, report))
    }
}
