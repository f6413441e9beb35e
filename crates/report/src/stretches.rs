//! The timeline of a run as a page carries it: every span of every lane, in a few bits each.
//!
//! Spans are written in columns, since like is beside like there: whose each span is, and how long the idle ones, the
//! scheduler's and the tasks' are, as numbers of seven bits a byte. All of it is deflated and then told in base64. A browser
//! undoes both without help (`DecompressionStream`), and makes each zoom of it from the spans themselves (`timeline.js`).
//!
//! A page has room for [`ROOM`] characters. If the spans take more, only switches are told ([`lanes`](crate::lanes)), then
//! their ends are told to some more nanoseconds, up to [`COARSEST`]. If that is not enough, short neighbours are [folded](crate::lanes), and the page says so.

use crate::collect::Totals;
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

/// How many characters a timeline may take: what 5 MB leave beside the library, 1.1 MB, and the rest of a page, 0.3 MB.
const ROOM: usize = 3_600_000;

/// To how many nanoseconds ends may be told: less than a switch takes, and what comes after it.
const QUANTA: [u64; 4] = [1, 16, 128, COARSEST];
pub(crate) const COARSEST: u64 = 1024;

/// How many characters a span takes at least, of those that interrupts cut in two: it need not be tried.
const LEAST_CHARACTERS: usize = 1;

/// Who had which CPU in a run: the first 64 CPUs, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretches {
    /// When the run ended.
    end_ns: u64,
    /// How many CPUs have a lane: the first 64.
    pub(crate) cpus: usize,
    /// To how many nanoseconds the ends of spans are told.
    pub(crate) quantum_ns: u64,
    /// Whether interrupts that came back to the same task are part of its spans.
    pub(crate) switches_only: bool,
    /// In which cells short neighbours were made one; `None` if all spans are there.
    pub(crate) cell_ns: Option<u64>,
    /// How many spans each lane has.
    spans: Vec<usize>,
    /// How many bytes each column has, in the order of [`Columns`].
    columns: [usize; 6],
    /// The columns.
    data: String,
}

/// What is compressed.
#[derive(Default)]
struct Columns {
    /// [`Names`] as JSON.
    names: Vec<u8>,
    /// Whose a span is: twice a number, and 1 more if it is a folded one's. The number is 0 for idle, 1 for forced idle, 2
    /// for the scheduler, else the place of a task in the names and 3.
    who: Vec<u8>,
    /// How long, in quanta.
    idle: Vec<u8>,
    scheduler: Vec<u8>,
    tasks: Vec<u8>,
    /// Of each folded span: how many it was made of, and how many quanta of it were not idle.
    folded: Vec<u8>,
}

/// The tasks that had a CPU, in the order of their numbers.
#[derive(Debug, Default, Serialize)]
struct Names<'a> {
    /// The threads that they are instances of.
    pools: Vec<&'a str>,
    /// The name of each, and the place of its thread.
    tasks: Vec<(String, usize)>,
}

impl Stretches {
    /// Those of a run of `tasks` on so many CPUs; `None` if they were not kept. A task without a
    /// name is shown by its number.
    #[must_use]
    pub fn new(totals: &Totals, tasks: &[TaskInfo], cpus: usize) -> Option<Stretches> {
        Some(Stretches::within(ROOM, totals.lanes()?, tasks).of(totals, cpus))
    }

    /// In as much room as that.
    fn within(room: usize, all: &Lanes, tasks: &[TaskInfo]) -> Stretches {
        let mut lanes = Cow::Borrowed(all);
        if lanes.len() > room / LEAST_CHARACTERS && !lanes.has_only_switches() {
            lanes.to_mut().keep_switches();
        }
        // What was folded already is too much in any case: it is told coarsely at once.
        let finest = if all.cell().is_some() { COARSEST } else { 1 };
        let mut drawn = Stretches::pack(&lanes, tasks, finest);
        if drawn.data.len() > room && !lanes.has_only_switches() {
            lanes.to_mut().keep_switches();
            drawn = Stretches::pack(&lanes, tasks, finest);
        }
        for quantum in QUANTA.into_iter().filter(|&quantum| quantum > finest) {
            // A factor of two takes a bit off each span at most; a character has six.
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
                // So coarsely, what the scheduler did is nothing of its own: it is part of what comes after it.
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

    /// How long each column is, and all of them.
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

/// Seven bits a byte, the lowest first; another follows where the eighth is set.
fn write_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The place of each task, by its number, among those that had a CPU.
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
