//! The programs of the document's benchmarks, as they are installed on this machine: hackbench of rt-tests or of perf,
//! `lat_ctx` of lmbench, and a build by `make` and `cc` in kernbench's place.
//!
//! A program runs for about as long as it is asked to: a short run of it, the *probe*, tells how much work that takes.
//! The work is then the same in all runs of a comparison.

use super::columns::Ran;
use crate::claims::Unjudged;
use runyard_engine::time::Nanos;
use runyard_hosts::linux::{Place, Refusal, run_program};
use runyard_outcome::Failure;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// A program of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Original {
    Hackbench,
    LatCtx,
    Build,
}

/// The arguments of hackbench's first row: the document's `-pipe 10`.
const GROUPS: &str = "10";

/// A way to run a program with some amount of work.
type Way = fn(&Bench, u32) -> Command;

impl Original {
    /// All of them, in the document's order.
    pub(super) const ALL: [Original; 3] = [Original::Hackbench, Original::LatCtx, Original::Build];

    /// The name in claims.
    pub(super) fn name(self) -> &'static str {
        match self {
            Original::Hackbench => "hackbench",
            Original::LatCtx => "lat_ctx",
            Original::Build => "a build",
        }
    }

    /// Whether it uses all CPUs that it gets. In the ring of `lat_ctx` one process runs at a time.
    pub(super) fn wants_all_cpus(self) -> bool {
        self != Original::LatCtx
    }

    /// The ways to run it. The first one whose program is installed is taken.
    fn ways(self) -> &'static [Way] {
        match self {
            Original::Hackbench => &[hackbench, perf],
            Original::LatCtx => &[lat_ctx],
            Original::Build => &[make],
        }
    }

    /// The work of the probe: messages of each sender, microseconds of a measurement, files.
    fn probe(self, cpus: usize) -> u32 {
        match self {
            Original::Hackbench => 200,
            Original::LatCtx => 20_000,
            Original::Build => 4 * u32::try_from(cpus).unwrap_or(u32::MAX / 4),
        }
    }

    /// The program that is missing if none is installed, and Debian's package with it.
    pub(super) fn missing(self) -> Unjudged {
        match self {
            Original::Hackbench => Unjudged::NotInstalled("hackbench", "rt-tests"),
            Original::LatCtx => Unjudged::NotInstalled("lat_ctx", "lmbench"),
            Original::Build => Unjudged::NotInstalled("make", "make"),
        }
    }
}

fn hackbench(_: &Bench, loops: u32) -> Command {
    with("hackbench", &["-p", "-g", GROUPS, "-l", &loops.to_string()])
}

/// The same benchmark in perf.
fn perf(_: &Bench, loops: u32) -> Command {
    with("perf", &["bench", "sched", "messaging", "-p", "-g", GROUPS, "-l", &loops.to_string()])
}

/// The document's `-N 5 -s 1024`, with 10 processes. lmbench reads the length of a measurement and its own overheads
/// from these variables, and measures for a minute what they should be if there are none.
fn lat_ctx(_: &Bench, micros: u32) -> Command {
    let mut command = with("lat_ctx", &["-W", "0", "-N", "5", "-s", "1024", "10"]);
    command.env("ENOUGH", micros.to_string()).envs([("TIMING_O", "0"), ("LOOP_O", "0.00000001")]);
    command
}

/// A build of so many files, with two jobs for each CPU.
fn make(bench: &Bench, files: u32) -> Command {
    let jobs = format!("-j{}", 2 * bench.cpus);
    let mut command = with("make", &["-s", &jobs, &format!("FILES={files}"), "-C"]);
    command.arg(&bench.folder);
    command
}

fn with(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// The place where the programs run. Its folder is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) cpus: usize,
    folder: PathBuf,
}

/// The functions of the compiled file: so many that the compiler takes a tenth of a second, and not only starts.
const FUNCTIONS: u32 = 20;

/// Each object is compiled anew in each build.
const MAKEFILE: &str = "\
OBJECTS := $(patsubst %,%.o,$(shell seq $(FILES)))
all: $(OBJECTS)
.PHONY: all $(OBJECTS)
$(OBJECTS): %.o: unit.c
\tcc -O2 -c -o $@ unit.c
";

impl Bench {
    /// A place for programs on so many CPUs, with the files of the build.
    ///
    /// # Errors
    /// If the folder for temporary files takes none.
    pub(super) fn new(cpus: usize) -> Result<Bench, Failure> {
        let folder = format!("runyard-build-{}", std::process::id());
        Bench::in_folder(std::env::temp_dir().join(folder), cpus)
    }

    fn in_folder(folder: PathBuf, cpus: usize) -> Result<Bench, Failure> {
        let bench = Bench { cpus, folder };
        let refused = |error| Failure::Refused(format!("{}: {error}", bench.folder.display()));
        std::fs::create_dir_all(&bench.folder).map_err(refused)?;
        std::fs::write(bench.folder.join("Makefile"), MAKEFILE).map_err(refused)?;
        std::fs::write(bench.folder.join("unit.c"), unit()).map_err(refused)?;
        Ok(bench)
    }

    /// Finds the way and the work with which a program runs for about so long on this machine.
    ///
    /// # Errors
    /// If the program is missing or fails.
    pub(super) fn find(&self, original: Original, takes: Nanos) -> Result<Job<'_>, Missing> {
        let probe = original.probe(self.cpus);
        for &way in original.ways() {
            let job = Job { bench: self, original, way, work: probe };
            match job.run(Place::Own) {
                Ok(ran) => {
                    let work = u64::from(probe) * takes.0 / ran.took.0.max(1);
                    return Ok(Job { work: u32::try_from(work).unwrap_or(u32::MAX).max(1), ..job });
                }
                Err(missing) if matches!(missing.why, Unjudged::NotInstalled(..)) => {}
                Err(missing) => return Err(missing),
            }
        }
        Err(Missing { why: original.missing(), said: String::new() })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The text of the compiled file.
fn unit() -> String {
    let mut text = String::new();
    for at in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "int f{at}(int *a, int n) {{ int s = {at}; for (int k = 0; k < n; k++) \
             s += (a[k] * {at} ^ s >> 3) % (k + {at} + 1); return s; }}"
        );
    }
    text
}

/// A program with its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'b> {
    bench: &'b Bench,
    pub(super) original: Original,
    way: Way,
    work: u32,
}

/// The reason why a program has no results, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) why: Unjudged,
    pub(super) said: String,
}

impl Job<'_> {
    /// The command line, without the folder of the build.
    pub(super) fn shown(&self) -> String {
        let command = (self.way)(self.bench, self.work);
        let mut words = vec![command.get_program().to_string_lossy()];
        words.extend(command.get_args().map(|word| word.to_string_lossy()));
        words.retain(|word| **word != *self.bench.folder.to_string_lossy() && word != "-C");
        words.join(" ")
    }

    /// Runs it once.
    ///
    /// # Errors
    /// If the program is missing or fails, or the kernel makes no groups.
    pub(super) fn run(&self, place: Place) -> Result<Ran, Missing> {
        let (command, cpus) = (&mut (self.way)(self.bench, self.work), self.bench.cpus);
        let (why, said) = match run_program(command, cpus, place) {
            Ok(it) => {
                let (took, used, switches) = (it.took, it.user + it.system, it.switches);
                let (throttled, switch_us) = (it.throttled, switch_us(&it.said));
                return Ok(Ran { took, used, cpus, switches, throttled, switch_us });
            }
            Err(Refusal::NotInstalled) => (self.original.missing(), String::new()),
            Err(Refusal::NoGroups(said)) => (Unjudged::NoGroups, said),
            Err(Refusal::Failed(said)) => (Unjudged::DoesNotRun(self.original.name()), said),
        };
        Err(Missing { why, said })
    }
}

/// The microseconds of a switch, from the output of `lat_ctx`: the number of processes and the time in the last line.
fn switch_us(said: &str) -> Option<f64> {
    let line = said.lines().rev().find(|line| !line.trim().is_empty())?;
    let (processes, micros) = line.trim().split_once(' ')?;
    processes.parse::<u32>().ok()?;
    micros.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place of its own for each test.
    fn bench(name: &str) -> Bench {
        let folder = format!("runyard-build-{name}-{}", std::process::id());
        Bench::in_folder(std::env::temp_dir().join(folder), 1).unwrap()
    }

    #[test]
    fn the_time_of_a_switch_is_in_the_last_line() {
        assert_eq!(switch_us("\n\"size=1024k ovr=41.76\n10 30.28\n"), Some(30.28));
        assert_eq!(switch_us("\n\"size=1024k ovr=196.60\n"), None, "it found no time");
        assert_eq!(switch_us(""), None);
    }

    #[test]
    fn a_program_that_is_not_installed_has_a_package() {
        let bench = bench("missing");
        let missing: Way = |_, _| Command::new("no-such-program");
        let job = Job { bench: &bench, original: Original::LatCtx, way: missing, work: 1 };
        let why = job.run(Place::Own).unwrap_err().why;
        assert_eq!(why.to_string(), "lat_ctx is not installed (package lmbench)");
        assert_eq!(why, Original::LatCtx.missing());
        let fails: Way = |_, _| with("sh", &["-c", "echo no >&2; exit 1"]);
        let failed = Job { way: fails, ..job }.run(Place::Own).unwrap_err();
        assert_eq!(failed.why.to_string(), "lat_ctx does not run here");
        assert_eq!(failed.said, "exit status: 1: no");
    }

    #[test]
    fn the_build_leaves_nothing_behind() {
        let bench = bench("left");
        let folder = bench.folder.clone();
        assert!(folder.join("unit.c").is_file());
        drop(bench);
        assert!(!folder.exists());
    }
}
