//! Traces: a run's events in the formats of other people's tools.
//!
//! Both formats show the run as the kernel's scheduler would: a CPU belongs to a task from the switch to it to the
//! switch from it. The scheduler's own work is a track of its own, so that the figures of a report follow from a trace:
//! a task's runtime is the time that it had a CPU that did not work for the scheduler. CI compares the two.
//!
//! A task is shown as a thread, numbered from 1 since 0 is the idle thread. A task group is shown as the process of its
//! tasks.
//!
//! ```text
//! events -> Scene (who runs, waits, sleeps) -> perfetto (.pftrace)
//!                                           -> ftrace   (.txt)
//! ```

mod cast;
mod ftrace;
mod kept;
mod pen;
mod perfetto;
mod scene;
mod schema;

pub use kept::Kept;

use crate::report::RunInfo;
use cast::Cast;
use pen::tell;
use runyard_engine::event::Event;
use runyard_engine::time::Time;
use std::io::{self, Write};
use std::path::Path;

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// [Perfetto](https://perfetto.dev)'s protocol buffers, `.pftrace`.
    Perfetto,
    /// The text of the kernel's own tracer, `.txt`.
    Ftrace,
}

impl TraceForm {
    /// The format for the ending of a file's name; `None` if no format has this ending.
    #[must_use]
    pub fn of(file: &Path) -> Option<TraceForm> {
        match file.extension()?.to_str()? {
            "pftrace" => Some(TraceForm::Perfetto),
            "txt" => Some(TraceForm::Ftrace),
            _ => None,
        }
    }

    /// Writes the trace of a run that ended at `end`. Its `events` are in order of time.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write<'e>(
        self,
        out: impl Write,
        info: &RunInfo,
        events: impl IntoIterator<Item = &'e Event>,
        end: Time,
    ) -> io::Result<()> {
        let cast = Cast::of(info);
        match self {
            TraceForm::Perfetto => tell(perfetto::Writer::new(out, cast)?, events, end),
            TraceForm::Ftrace => tell(ftrace::Writer::new(out, cast)?, events, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::schema::{Data, Kind, Trace};
    use super::*;
    use crate::groups::GroupInfo;
    use crate::report::Timed;
    use prost::Message;
    use runyard_engine::attr::{Cookie, GroupId};
    use runyard_engine::cpu::CpuId;
    use runyard_engine::event::What;
    use std::collections::BTreeMap;

    /// A run with throttled groups and forced idle times. On CPU 0 `/a` and `/a/b` are throttled, one within the
    /// other's time; `/a/b` and `/c|d` overlap in part. On CPU 1 `/a` is throttled meanwhile, until the run ends. CPU 0
    /// is forced idle by a cookie, then by another, then by a task without one.
    fn written(form: TraceForm) -> Vec<u8> {
        let (a, b, c) = (GroupId(1), GroupId(2), GroupId(3));
        let throttled = |group| What::Throttled { group };
        let forced = |cookie| What::ForcedIdle { cookie: Cookie::new(cookie) };
        let unthrottled = |group| What::Unthrottled { group };
        let events = [
            (10, 0, throttled(a)),
            (20, 0, throttled(b)),
            (25, 1, throttled(a)),
            (30, 0, throttled(c)),
            (40, 0, unthrottled(b)),
            (50, 0, unthrottled(c)),
            (60, 0, unthrottled(a)),
            (70, 0, throttled(a)),
            (70, 0, unthrottled(a)),
            (71, 0, forced(1)),
            (72, 0, forced(1)),
            (75, 0, forced(2)),
            (80, 0, What::Idle),
            (85, 0, forced(0)),
            (90, 0, What::Overhead),
            (95, 0, What::Timeline { change: 0 }),
        ];
        let events = events.map(|(at, cpu, what)| Event { at: Time(at), cpu: CpuId(cpu), what });
        let paths = ["/", "/a", "/a/b", "/c|d e"];
        let group = |path: &str| GroupInfo { path: path.to_owned(), ..GroupInfo::default() };
        let cookies = ["a", "b c"].map(str::to_owned).to_vec();
        let groups = paths.map(group).to_vec();
        let changes = vec![Timed { at: Time(0), change: "CPU 1 offline".to_owned() }];
        let info = RunInfo { groups, cookies, changes, cpus: 2, ..RunInfo::default() };
        let mut out = Vec::new();
        form.write(&mut out, &info, &events, Time(100)).expect("a vector takes all");
        out
    }

    /// The slices of each line of the picture: their beginnings and ends, and their names.
    fn slices() -> BTreeMap<String, Vec<(u64, Option<String>)>> {
        let trace = Trace::decode(&*written(TraceForm::Perfetto)).expect("a trace");
        let (mut names, mut slices) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for packet in trace.packet {
            match packet.data {
                Some(Data::TrackDescriptor(track)) => {
                    let former = names.insert(track.uuid, track.name.unwrap_or_default());
                    assert_eq!(former, None, "a track is declared once");
                }
                Some(Data::TrackEvent(event)) if event.kind != Some(Kind::Instant.into()) => {
                    assert_eq!(event.name.is_some(), event.kind == Some(Kind::SliceBegin.into()));
                    let track = names[&event.track_uuid].clone();
                    let at = packet.timestamp.expect("an event has its time");
                    slices.entry(track).or_default().push((at, event.name));
                }
                _ => {}
            }
        }
        slices
    }

    #[test]
    fn groups_are_throttled_beside_each_other() {
        let slices = slices();
        let lines = slices.keys().map(String::as_str).filter(|name| name.starts_with('/'));
        let lines: Vec<_> = lines.collect();
        let expected = ["/a on CPU 0", "/a on CPU 1", "/a/b on CPU 0", "/c|d e on CPU 0"];
        assert_eq!(lines, expected);
        let begins = |at, path: &str| (at, Some(path.to_owned()));
        let a = [begins(10, "/a"), (60, None), begins(70, "/a"), (70, None)];
        assert_eq!(slices["/a on CPU 0"], a);
        assert_eq!(slices["/a on CPU 1"], [begins(25, "/a")], "it lasts to the end");
        assert_eq!(slices["/a/b on CPU 0"], [begins(20, "/a/b"), (40, None)]);
        assert_eq!(slices["/c|d e on CPU 0"], [begins(30, "/c|d e"), (50, None)]);
    }

    #[test]
    fn forced_idle_times_are_slices_with_the_name_of_the_cookie() {
        let begins = |at, name: &str| (at, Some(name.to_owned()));
        let mut expected = vec![begins(71, "forced idle (a)"), (75, None)];
        expected.extend([begins(75, "forced idle (b c)"), (80, None)]);
        expected.extend([begins(85, "forced idle"), (90, None)]);
        // The scheduler's own work is on another track, which has the same name.
        expected.push(begins(90, "scheduler"));
        assert_eq!(slices()["CPU 0"], expected);
    }

    #[test]
    fn forced_idle_times_are_comments_of_a_trace_that_is_text() {
        let text = String::from_utf8(written(TraceForm::Ftrace)).expect("text");
        let told: Vec<_> = text.lines().filter(|line| line.contains("forced idle")).collect();
        let expected = [
            "# 0.000000071: CPU 0 is forced idle while its core runs tasks of cookie a",
            "# 0.000000075: CPU 0 is forced idle no longer",
            "# 0.000000075: CPU 0 is forced idle while its core runs tasks of cookie b c",
            "# 0.000000080: CPU 0 is forced idle no longer",
            "# 0.000000085: CPU 0 is forced idle while its core runs tasks without a cookie",
            "# 0.000000090: CPU 0 is forced idle no longer",
        ];
        assert_eq!(told, expected, "{text}");
    }

    #[test]
    fn a_change_of_the_timeline_is_a_comment() {
        let text = String::from_utf8(written(TraceForm::Ftrace)).expect("text");
        let found = text.lines().find(|line| line.contains("CPU 1 offline"));
        assert!(found.is_some_and(|line| line.ends_with(": print: CPU 1 offline")), "{text}");
    }

    #[test]
    fn a_counter_says_of_each_group_whether_it_is_throttled() {
        let text = String::from_utf8(written(TraceForm::Ftrace)).expect("text");
        let told = |group: &str| -> Vec<_> {
            let mark = format!(": tracing_mark_write: C|0|throttled_{group}|");
            text.lines().filter_map(|line| line.split_once(&mark)).map(|it| it.1).collect()
        };
        assert_eq!(told("CPU0_/a"), ["1", "0", "1", "0"], "{text}");
        assert_eq!(told("CPU1_/a"), ["1"], "{text}");
        assert_eq!(told("CPU0_/a/b"), ["1", "0"], "{text}");
        assert_eq!(told("CPU0_/c_d_e"), ["1", "0"], "{text}");
    }
}
