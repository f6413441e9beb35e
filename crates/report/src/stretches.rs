//! Who had which CPU at the beginning of a run: what a timeline that zooms is drawn from.

use crate::collect::Totals;
use crate::history::LANES;
use crate::report::TaskInfo;
use serde::Serialize;
use std::collections::BTreeMap;

/// The first stretches of a run: at most 10,000, and one more for each CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretches {
    /// Until when all of them are there.
    pub(crate) end_ns: u64,
    /// How many CPUs have a lane: the first 64.
    pub(crate) cpus: usize,
    /// The tasks that are named, in the order in which they executed first.
    tasks: Vec<Named>,
    /// The CPU, when it began, when it ended, and whose it was: a place in `tasks`, or -1 for the
    /// scheduler's work.
    stretches: Vec<(usize, u64, u64, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Named {
    name: String,
    /// The thread that it is an instance of.
    pool: String,
}

impl Stretches {
    /// Those of a run of `tasks` on so many CPUs; `None` if they were not kept. A task without a
    /// name is shown by its number.
    #[must_use]
    pub fn new(totals: &Totals, tasks: &[TaskInfo], cpus: usize) -> Option<Stretches> {
        let (kept, until) = totals.history()?.stretches();
        let known: BTreeMap<_, _> = tasks.iter().map(|task| (task.id, task)).collect();
        let mut places = BTreeMap::new();
        let mut drawn = Stretches {
            end_ns: until.map_or(totals.duration().0, |until| until.0),
            cpus: cpus.min(LANES),
            ..Stretches::default()
        };
        for stretch in kept {
            let who = stretch.who.map_or(-1, |task| {
                *places.entry(task).or_insert_with(|| {
                    drawn.tasks.push(match known.get(&task) {
                        Some(known) => {
                            Named { name: known.name.clone(), pool: known.thread.clone() }
                        }
                        None => Named { name: task.to_string(), pool: task.to_string() },
                    });
                    drawn.tasks.len() as i64 - 1
                })
            });
            let cpu = stretch.cpu.index();
            drawn.stretches.push((cpu, stretch.begin.0, stretch.end.0, who));
        }
        Some(drawn)
    }
}
