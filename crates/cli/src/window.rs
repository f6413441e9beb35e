//! The options of a part of the run.

use clap::Args;
use runyard_engine::time::Nanos;
use runyard_workload::{Overrides, Window, moment};

/// The part of the run that the report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct WindowOptions {
    /// Count only from this moment of the run on, as 30s; what is before takes place all the same
    #[arg(long, value_name = "TIME", value_parser = moment, visible_alias = "warmup")]
    from: Option<Nanos>,
    /// End the run, and the report, at this moment
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Nanos>,
}

impl WindowOptions {
    pub(crate) fn window(self) -> Window {
        Window { from: self.from, until: self.until }
    }

    /// Whether one of them is given.
    pub(crate) fn is_given(self) -> bool {
        self.window() != Window::default()
    }

    /// The replacements with these options. What they do not say is as it is.
    pub(crate) fn over(self, over: Overrides) -> Overrides {
        let Window { from, until } = over.window;
        Overrides {
            window: Window { from: self.from.or(from), until: self.until.or(until) },
            ..over
        }
    }
}
