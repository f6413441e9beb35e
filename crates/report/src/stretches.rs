//! The timeline of a run in the form for a page: every span of every lane, in a few bits each.
//!
//! Spans are written in columns, since values within a column are alike: the occupant of each span, and the lengths of
//! idle spans, of the scheduler's and of the tasks', as numbers of seven bits a byte. The columns are deflated, and
//! written in base64. A browser undoes both without help (`DecompressionStream`), and makes each zoom from the spans
//! themselves (`timeline.js`).
//!
//! A page has room for [`ROOM`] characters. If the spans take more, only switches are kept ([`lanes`](crate::lanes)),
//! and then their ends are rounded to some more nanoseconds, up to [`COARSEST`]. If that is not enough, short
//! neighbours are [folded](crate::lanes), and the page says so.

use crate::collect::Totals;
use crate::history::STEPS;
use crate::lanes::{LANES, Lanes, Span, Who};
use crate::report::TaskInfo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;

/// The characters that a timeline may take: 5 MB minus the library, 1.1 MB, and the rest of a page, 0.3 MB. How busy CPUs
/// were over time takes [`SHARE`] characters of these for each CPU and step.
const ROOM: usize = 3_600_000;

const SHARE: usize = 4;

/// The nanoseconds to which ends may be rounded. All are less than a switch and the work after it take.
const QUANTA: [u64; 4] = [1, 16, 128, COARSEST];
pub(crate) const COARSEST: u64 = 1024;

/// The least number of characters of a span, if interrupts cut spans in two. With more spans the full form need not be
/// tried.
const LEAST_CHARACTERS: usize = 1;

/// The occupancy of the first 1,024 CPUs of a run, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretches {
    /// The end of the run.
    end_ns: u64,
    /// The number of CPUs with a lane: the first 1,024.
    pub(crate) cpus: usize,
    /// The nanoseconds to which the ends of spans are rounded.
    pub(crate) quantum_ns: u64,
    /// Whether interrupts that returned to the same task are part of its spans.
    pub(crate) switches_only: bool,
    /// The width of the cells in which short neighbours were joined; `None` if all spans are present.
    pub(crate) cell_ns: Option<u64>,
    /// The number of spans of each lane.
    spans: Vec<usize>,
    /// The number of bytes of each column, in the order of [`Columns`].
    columns: [usize; 6],
    /// The columns.
    data: String,
}

/// The data to be compressed.
#[derive(Default)]
struct Columns {
    /// [`Names`] as JSON.
    names: Vec<u8>,
    /// The occupant of each span: twice a number, plus 1 for a folded span. The number is 0 for idle, 1 for forced
    /// idle, 2 for the scheduler, otherwise the index of a task in the names plus 3.
    who: Vec<u8>,
    /// The lengths, in quanta.
    idle: Vec<u8>,
    scheduler: Vec<u8>,
    tasks: Vec<u8>,
    /// For each folded span: the number of its parts, and the number of its quanta that were not idle.
    folded: Vec<u8>,
}

/// The tasks that had a CPU, in the order of their numbers.
#[derive(Debug, Default, Serialize)]
struct Names<'a> {
    /// The threads whose instances they are.
    pools: Vec<&'a str>,
    /// The name of each, and the index of its thread.
    tasks: Vec<(String, usize)>,
}

impl Stretches {
    /// The timeline of a run of `tasks` on so many CPUs; `None` if the lanes were not kept. A task without a name is
    /// shown by its number.
    #[must_use]
    pub fn new(totals: &Totals, tasks: &[TaskInfo], cpus: usize) -> Option<Stretches> {
        let room = ROOM - SHARE * STEPS * cpus.min(LANES);
        Some(Stretches::within(room, totals.lanes()?, tasks).of(totals, cpus))
    }

    /// The timeline in at most `room` characters.
    fn within(room: usize, all: &Lanes, tasks: &[TaskInfo]) -> Stretches {
        let mut lanes = Cow::Borrowed(all);
        if lanes.len() > room / LEAST_CHARACTERS && !lanes.has_only_switches() {
            lanes.to_mut().keep_switches();
        }
        // Folded lanes are too large in any case, so they are rounded coarsely at once.
        let finest = if all.cell().is_some() { COARSEST } else { 1 };
        let mut drawn = Stretches::pack(&lanes, tasks, finest);
        if drawn.data.len() > room && !lanes.has_only_switches() {
            lanes.to_mut().keep_switches();
            drawn = Stretches::pack(&lanes, tasks, finest);
        }
        for quantum in QUANTA.into_iter().filter(|&quantum| quantum > finest) {
            // A factor of two saves at most one bit of each span; a character has six bits.
            let bits = drawn.data.len().saturating_sub(room) * 6 / lanes.len().max(1);
            let factor = quantum / drawn.quantum_ns;
            if drawn.data.len() > room && (quantum == COARSEST || factor.ilog2() as usize > bits) {
                drawn = Stretches::pack(&lanes, tasks, quantum);
            }
        }
        while drawn.data.len() > room && lanes.len() > LANES {
            let wanted = lanes.len() as u128 * room as u128 / drawn.data.len() as u128;
            lanes.to_mut().fold_to(wanted as usize);
            drawn = Stretches::pack(&lanes, tasks, COARSEST);
        }
        drawn
    }

    fn of(self, totals: &Totals, cpus: usize) -> Stretches {
        Stretches { end_ns: totals.duration().0, cpus: cpus.min(LANES), ..self }
    }

    fn pack(lanes: &Lanes, tasks: &[TaskInfo], quantum: u64) -> Stretches {
        let places = places(lanes);
        let mut columns = Columns { names: names(&places, tasks), ..Columns::default() };
        let mut spans = Vec::new();
        for lane in lanes.iter() {
            let (mut count, mut begin) = (0, Time::ZERO);
            for mut span in lane {
                // At the coarsest rounding, the scheduler's work has no span of its own: it is part of the span after
                // it.
                if quantum == COARSEST && span.who == Who::Scheduler && span.folded.is_none() {
                    continue;
                }
                span.time.start = std::mem::replace(&mut begin, span.time.end);
                columns.push(&span, &places, quantum);
                count += 1;
            }
            spans.push(count);
        }
        let cell_ns = lanes.cell().map(|cell| cell.0);
        let (columns, data) = columns.finish();
        let switches_only = lanes.has_only_switches();
        let told =
            Stretches { quantum_ns: quantum, switches_only, cell_ns, ..Stretches::default() };
        Stretches { spans, columns, data, ..told }
    }
}

impl Columns {
    fn push(&mut self, Span { time, who, folded }: &Span, places: &[Option<u64>], quantum: u64) {
        let told = |ns: u64| (ns + quantum / 2) / quantum;
        let long = told(time.end.0) - told(time.start.0);
        let (number, column) = match who {
            Who::Idle => (0, &mut self.idle),
            Who::Forced => (1, &mut self.idle),
            Who::Scheduler => (2, &mut self.scheduler),
            Who::Task(task) => (3 + places[*task as usize].expect("all have one"), &mut self.tasks),
        };
        write_number(&mut self.who, 2 * number + u64::from(folded.is_some()));
        write_number(column, long);
        if let Some(folded) = folded {
            write_number(&mut self.folded, folded.parts);
            write_number(&mut self.folded, told(folded.busy.0));
        }
    }

    /// The length of each column, and all columns together.
    fn finish(self) -> ([usize; 6], String) {
        let all = [self.names, self.who, self.idle, self.scheduler, self.tasks, self.folded];
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
        for column in &all {
            deflated.write_all(column).expect("memory takes all");
        }
        let deflated = deflated.finish().expect("memory takes all");
        (all.map(|column| column.len()), STANDARD.encode(deflated))
    }
}

/// Writes a number with seven bits a byte, the lowest first. Another byte follows where the eighth bit is set.
fn write_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The index of each task, by its number, among those that had a CPU.
fn places(lanes: &Lanes) -> Vec<Option<u64>> {
    let mut places = Vec::new();
    for span in lanes.iter().flatten() {
        if let Who::Task(task) = span.who {
            let task = task as usize;
            places.resize(places.len().max(task + 1), None);
            places[task] = Some(0);
        }
    }
    places.iter_mut().flatten().zip(0..).for_each(|(place, at)| *place = at);
    places
}

fn names(places: &[Option<u64>], tasks: &[TaskInfo]) -> Vec<u8> {
    let known: BTreeMap<_, _> = tasks.iter().map(|task| (task.id.index(), task)).collect();
    let mut pools = BTreeMap::new();
    let mut names = Names::default();
    let had = || (0..).map(TaskId).zip(places).filter(|(_, place)| place.is_some()).map(|it| it.0);
    let unnamed: Vec<_> = had().map(|task| task.to_string()).collect();
    for (task, unnamed) in had().zip(&unnamed) {
        let known = known.get(&task.index());
        let pool = known.map_or(unnamed.as_str(), |known| &known.thread);
        let pool = *pools.entry(pool).or_insert_with(|| {
            names.pools.push(pool);
            names.pools.len() - 1
        });
        names.tasks.push((known.map_or_else(|| unnamed.clone(), |known| known.name.clone()), pool));
    }
    serde_json::to_vec(&names).expect("names are JSON")
}
