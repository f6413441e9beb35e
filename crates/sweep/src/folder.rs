//! A sweep in a folder. The sweep can be killed at any time and resumed, and the tables do not depend on this.
//!
//! ```text
//! DIR/parts/sweep.json     what is swept: the texts of the specification and the scenario, the version
//! DIR/parts/000000.jsonl   the runs of a part, a line each, then a line with their number and their sum
//! DIR/runs.parquet  DIR/summary.csv  DIR/index.html
//! ```
//!
//! A part is written under another name and renamed when it is complete. A part whose last line does not fit the others
//! counts as missing, since a machine that lost its power may leave such a part. The contents of a part depend on the
//! plan alone: not on the process, the time, or the work beside it. So the tables depend on the plan alone, too.

use crate::gather::{Gathered, Parts, Tables, parts, summary_cells};
use crate::page;
use crate::parquet::Writer;
use crate::plan::{Plan, Text};
use crate::precision::{self, Found};
use crate::run::Ran;
use runyard_outcome::Failure;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the parts' format.
const SCHEMA: &str = "runyard.sweep/1";

/// The identity of the sweep that the parts of a folder belong to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    version: String,
    spec: String,
    scenario: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    precision: Option<String>,
    /// The part of each run that counts, in nanoseconds.
    #[serde(default)]
    window: [Option<u64>; 2],
}

/// The last line of a part.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Last {
    runs: usize,
    sum: String,
}

/// The folder of a sweep.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    plan: Arc<Plan>,
    /// The runs of incomplete parts.
    open: BTreeMap<usize, BTreeMap<usize, Ran>>,
}

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of finished runs.
    pub done: usize,
    /// The number of all runs.
    pub all: usize,
    /// The number of finished runs that were found in the folder, so they were not run now.
    pub found: usize,
}

/// A summary of a finished sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The least and the greatest number of seeds of a point.
    pub seeds: RangeInclusive<usize>,
    /// The number of intervals that are wider than the plan's precision.
    pub wide: usize,
    /// The number of failed runs, and the first reason.
    pub failed: Option<(usize, String)>,
    /// The means and intervals as a table for people, at most 60 rows of it.
    pub table: String,
}

impl Folder {
    /// Opens the folder `dir` for the sweep of this plan: a new folder, or with `resume` a folder in which the same
    /// sweep was begun.
    ///
    /// # Errors
    /// The reason why the folder cannot be used.
    pub fn open(dir: &Path, plan: Arc<Plan>, resume: bool) -> Result<Folder, Failure> {
        let folder = Folder { dir: dir.to_owned(), plan, open: BTreeMap::new() };
        let plan = &*folder.plan;
        let own = Manifest {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            spec: plan.spec().text.clone(),
            scenario: plan.scenario().text.clone(),
            precision: plan.precision().map(|it| it.to_string()),
            window: [plan.window().from, plan.window().until].map(|it| it.map(|at| at.0)),
        };
        let manifest = folder.parts().join("sweep.json");
        let is_empty = match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(refused(dir, &error)),
        };
        let shown = dir.display();
        match fs::read_to_string(&manifest) {
            Ok(text) if resume => own.is_that_of(&text, plan, dir)?,
            Ok(_) => {
                return Err(Failure::input(format_args!(
                    "{shown}: a sweep is there already; --resume continues it, or uses its results; a new sweep takes another folder"
                )));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound && !is_empty => {
                return Err(refused(&manifest, &error));
            }
            Err(_) if !is_empty => {
                let what = format!(
                    "{shown}: the folder has files, and none of a sweep; a new sweep takes an empty or a new folder"
                );
                return Err(Failure::Input(what));
            }
            Err(_) => {
                let created = fs::create_dir_all(folder.parts());
                created.map_err(|error| refused(&folder.parts(), &error))?;
                let text = serde_json::to_string_pretty(&own).expect("texts are JSON");
                put(&manifest, (text + "\n").as_bytes())?;
            }
        }
        Ok(folder)
    }

    /// The missing runs, in their order.
    #[must_use]
    pub fn missing(&self) -> Vec<usize> {
        let whole = |part, runs: &Range<usize>| self.load(part, runs.len()).is_some();
        let missing = parts(&self.plan).enumerate().filter(|(part, runs)| !whole(*part, runs));
        missing.flat_map(|(_, runs)| runs).collect()
    }

    /// Takes the result of a missing run, wherever it ran, and writes its part if the part is now complete.
    ///
    /// # Errors
    /// The part cannot be written.
    pub fn take(&mut self, run: usize, ran: Ran) -> Result<(), Failure> {
        let (size, runs) = (self.plan.part_size(), self.plan.runs());
        let part = run / size;
        let others = self.open.entry(part).or_default();
        others.insert(run, ran);
        if others.len() < size.min(runs - part * size) {
            return Ok(());
        }
        let ran: Vec<Ran> = self.open.remove(&part).unwrap_or_default().into_values().collect();
        self.save(part, &ran)
    }

    /// Runs the missing runs on `jobs` threads, and calls `progress` after each run. It returns `false` if `stop` ended
    /// it before all runs were done.
    ///
    /// # Errors
    /// A part cannot be written.
    pub fn run(
        &mut self,
        jobs: usize,
        stop: &(dyn Fn() -> bool + Sync),
        mut progress: impl FnMut(Progress),
    ) -> Result<bool, Failure> {
        let plan = self.plan.clone();
        let whole = parts(&plan).enumerate().filter_map(|(part, runs)| {
            let ran = self.load(part, runs.len())?;
            let known: Vec<_> = ran.iter().map(|ran| precision::looked_at(&plan, ran)).collect();
            Some(runs.zip(known))
        });
        let known: Found = whole.flatten().collect();
        let found = known.len();
        let mut now = Progress { done: found, all: plan.runs(), found };
        progress(now);
        let mut failure = None;
        let complete = precision::each(&plan, (jobs, stop), known, |run, ran| {
            failure = self.take(run, ran).err();
            now.done += 1;
            progress(now);
            failure.is_none()
        });
        failure.map_or(Ok(complete), Err)
    }

    /// Writes the tables and the page of a complete sweep.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn finish(&self) -> Result<Finished, Failure> {
        let gathered = Gathered::new(&self.plan, self)?;
        self.write("runs.parquet", |out| self.write_runs(out, &gathered))?;
        self.write("summary.csv", |out| self.write_summary(out, &gathered).map_err(Failed::Io))?;
        let page = page::page(&self.plan, &gathered);
        self.write("index.html", |out| out.write_all(page.as_bytes()).map_err(Failed::Io))?;
        let (least, most) = (gathered.seeds.iter().min(), gathered.seeds.iter().max());
        let seeds = least.copied().unwrap_or(0)..=most.copied().unwrap_or(0);
        let (wide, table) = (gathered.wide(&self.plan), gathered.shown(&self.plan));
        Ok(Finished { seeds, wide, failed: gathered.failed, table })
    }

    /// The tables of a complete sweep, in memory.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn tables(&self) -> Result<Tables, Failure> {
        Tables::of(&self.plan, self)
    }

    fn write_runs(&self, out: &mut BufWriter<File>, gathered: &Gathered) -> Result<(), Failed> {
        let mut writer = Writer::new(out, &gathered.schema())?;
        for (part, runs) in parts(&self.plan).enumerate() {
            let ran = self.read(part).map_err(Failed::Said)?;
            writer.add(gathered.batch(&self.plan, runs, &ran))?;
        }
        Ok(writer.finish()?)
    }

    fn write_summary(&self, out: &mut BufWriter<File>, gathered: &Gathered) -> io::Result<()> {
        let mut table = csv::Writer::from_writer(out);
        let own = ["metric", "n", "mean", "median", "lo", "hi"];
        table.write_record(self.plan.columns().iter().map(String::as_str).chain(own))?;
        for row in &gathered.summary {
            table.write_record(summary_cells(&self.plan, row).iter().map(ToString::to_string))?;
        }
        table.flush()
    }

    fn parts(&self) -> PathBuf {
        self.dir.join("parts")
    }

    fn part(&self, part: usize) -> PathBuf {
        self.parts().join(format!("{part:06}.jsonl"))
    }

    fn save(&self, part: usize, ran: &[Ran]) -> Result<(), Failure> {
        let mut text = String::new();
        for ran in ran {
            text.push_str(&serde_json::to_string(ran).expect("figures are JSON"));
            text.push('\n');
        }
        let last = Last { runs: ran.len(), sum: sum(text.as_bytes()) };
        text.push_str(&serde_json::to_string(&last).expect("figures are JSON"));
        text.push('\n');
        put(&self.part(part), text.as_bytes())
    }

    /// The runs of a part, if the part is complete.
    fn load(&self, part: usize, runs: usize) -> Option<Vec<Ran>> {
        let text = fs::read_to_string(self.part(part)).ok()?;
        let lines = text.strip_suffix('\n')?;
        let at = lines.rfind('\n')? + 1;
        let last: Last = serde_json::from_str(&lines[at..]).ok()?;
        if last != (Last { runs, sum: sum(&text.as_bytes()[..at]) }) {
            return None;
        }
        text[..at].lines().map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Failed>,
    ) -> Result<(), Failure> {
        let (file, part) = (self.dir.join(name), self.dir.join(format!("{name}.tmp")));
        let written = || {
            let mut out = BufWriter::new(File::create(&part)?);
            write(&mut out)?;
            out.flush()?;
            fs::rename(&part, &file)?;
            Ok(())
        };
        written().map_err(|failed| match failed {
            Failed::Io(error) => refused(&file, &error),
            Failed::Said(failure) => failure,
        })
    }
}

impl Parts for Folder {
    fn read(&self, part: usize) -> Result<Cow<'_, [Ran]>, Failure> {
        let runs = parts(&self.plan).nth(part).expect("the plan has the part").len();
        let ran = self.load(part, runs);
        ran.map(Cow::Owned).ok_or_else(|| {
            let file = self.part(part);
            Failure::Refused(format!("{}: it is gone, or not whole", file.display()))
        })
    }
}

/// Writes a file in one step: it has another name until it is complete.
fn put(file: &Path, contents: &[u8]) -> Result<(), Failure> {
    let part = file.with_extension("tmp");
    let put = fs::write(&part, contents).and_then(|()| fs::rename(&part, file));
    put.map_err(|error| refused(file, &error))
}

fn refused(file: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}", file.display()))
}

/// The reason why a table was not written.
enum Failed {
    Io(io::Error),
    Said(Failure),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Io(error)
    }
}

impl Manifest {
    /// Fails unless `text` names this sweep.
    fn is_that_of(&self, text: &str, plan: &Plan, dir: &Path) -> Result<(), Failure> {
        let other: Option<Manifest> = serde_json::from_str(text).ok();
        let what = match other {
            None => "what it says of itself cannot be read".to_owned(),
            Some(other) if other == *self => return Ok(()),
            Some(other) if (&other.schema, &other.version) != (&self.schema, &self.version) => {
                format!("it is of version {}, and this is {}", other.version, self.version)
            }
            Some(other) if other.precision != self.precision => {
                "it has another precision".to_owned()
            }
            Some(other) if other.window != self.window => {
                "it is of another part of the runs".to_owned()
            }
            Some(other) => {
                let Text { file, .. } =
                    if other.spec == self.spec { plan.scenario() } else { plan.spec() };
                format!("it is of another text of {file}")
            }
        };
        let dir = dir.display();
        Err(Failure::input(format_args!("{dir}: the sweep there cannot go on: {what}")))
    }
}

/// A checksum against accidents, not against attacks: FNV-1a of 64 bits.
fn sum(bytes: &[u8]) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let sum = bytes.iter().fold(BASIS, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{sum:016x}")
}
