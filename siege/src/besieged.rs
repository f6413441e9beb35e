//! The besieged process. It runs in acts of some seconds. In each act some programs run their rounds at once in one
//! runtime. When that runtime has ended, a second runtime without a driver of tokio's runs the programs that need none.

use crate::Options;
use crate::draws::Draws;
use crate::programs::{PROGRAMS, Program, is_on_purpose};
use crate::supervisor::said;
use crate::watchdog::{self, Progress, Scene};
use runyard::experiments::{Experiments, Features};
use runyard::{Builder, JoinHandle, Runtime, StallReport, spawn};
use std::fs::File;
use std::hint::black_box;
use std::mem;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of programs that run at once. All pairs of programs run together within a few minutes, and each program
/// finishes many rounds in an act.
const CAST: usize = 10;

const ACT: Duration = Duration::from_secs(5);

/// The length of a poll from which it is a stall. It is short, so that the runtime copies stacks all the time, wherever
/// their threads are.
const STALL: Duration = Duration::from_millis(2);

/// One of this many stalls is formatted in full, which takes some milliseconds.
const SHOWN: usize = 64;

/// The number of the generator that draws the order of the programs. No program has it.
const DIRECTOR: u64 = u64::MAX;

/// One of this many parts of the time is for a runtime without a driver, and for the programs that need none.
const PARTS: u32 = 4;

/// Runs the programs for the requested time. After a wrong result the supervisor ends the process.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    let scene = Arc::new(scene(options.seed).expect("standard output and error are there"));
    quieten();
    let asked = |needs_driver: bool| -> Vec<usize> {
        let is_asked = |nth: &usize| {
            let Program { name, .. } = PROGRAMS[*nth];
            options.only.is_empty() || options.only.iter().any(|only| only == name)
        };
        let fits = |nth: &usize| needs_driver || !PROGRAMS[*nth].needs_driver;
        (0..PROGRAMS.len()).filter(is_asked).filter(fits).collect()
    };
    let span = Duration::from_secs(options.seconds);
    let without = if asked(false).is_empty() { Duration::ZERO } else { span / PARTS };
    let mut features = Features::of_runtime();
    options.feature.iter().for_each(|&switched| features.set(switched));
    let builder =
        Runtime::builder().siege(options.seed).features(features).on_stall(STALL, look_at_stall);
    let is_right = besiege(&scene, builder.clone().enable_tokio(), &asked(true), span - without)
        && (without.is_zero() || besiege(&scene, builder, &asked(false), without));
    for (program, progress) in PROGRAMS.iter().zip(&scene.progress) {
        let rounds = progress.rounds.load(Ordering::SeqCst);
        if rounds > 0 {
            eprintln!("{:>8} rounds of {}", rounds, program.name);
        }
    }
    if !is_right {
        scene.say(said::FAILED);
        // Tasks of the program may wait for ever, so this process does not end by itself. The supervisor ends it.
        loop {
            std::thread::park();
        }
    }
    scene.say(said::DONE);
    ExitCode::SUCCESS
}

/// Runs these programs in a runtime of their own. Returns whether all results were right.
fn besiege(scene: &Arc<Scene>, builder: Builder, asked: &[usize], span: Duration) -> bool {
    let runtime = Arc::new(builder.build());
    watchdog::start(scene, &runtime);
    let is_right = runtime.block_on(direct(scene, asked, span));
    if !is_right {
        // The runtime's tasks may wait for ever, and dropping the runtime would wait for them.
        mem::forget(runtime);
    }
    is_right
}

/// Formats some of the stalls, which looks up the functions of their stacks.
fn look_at_stall(report: &StallReport) {
    static STALLS: AtomicUsize = AtomicUsize::new(0);
    if STALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SHOWN) {
        assert!(!black_box(report.to_string()).is_empty());
    }
}

/// Keeps standard output as the channel to the supervisor, and redirects the programs' standard output to `/dev/null`.
fn scene(seed: u64) -> std::io::Result<Scene> {
    let line = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let error = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let progress = PROGRAMS.iter().map(|_| Progress::default()).collect();
    Ok(Scene { progress, line, error, seed })
}

/// Suppresses the messages of panics that programs make on purpose.
fn quieten() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !is_on_purpose(info.payload()) {
            usual(info);
        }
    }));
}

/// Runs one act after the other. Returns whether all results were right.
async fn direct(scene: &Arc<Scene>, asked: &[usize], span: Duration) -> bool {
    let mut draws = Draws::new(scene.seed, DIRECTOR);
    let end = Instant::now() + span;
    let mut waiting: Vec<usize> = Vec::new();
    while Instant::now() < end {
        if waiting.is_empty() {
            waiting.extend(asked);
            draws.shuffle(&mut waiting);
        }
        let until = end.min(Instant::now() + ACT);
        let cast = waiting.split_off(waiting.len().saturating_sub(CAST));
        let names: Vec<_> = cast.iter().map(|&nth| PROGRAMS[nth].name).collect();
        let rounds = play_all(scene, cast, until).await;
        match rounds {
            Some(rounds) => eprintln!("{rounds:>8} rounds: {}", names.join(", ")),
            None => return false,
        }
    }
    true
}

/// Runs one act, and returns the number of its rounds. Returns `None` if a result was wrong.
async fn play_all(scene: &Arc<Scene>, cast: Vec<usize>, until: Instant) -> Option<u64> {
    let begin = |nth| (nth, spawn(play(scene.clone(), nth, until)));
    let playing: Vec<(usize, JoinHandle<u64>)> = cast.into_iter().map(begin).collect();
    let mut sum = 0;
    for (nth, program) in playing {
        match program.await {
            Ok(rounds) => sum += rounds,
            Err(error) => {
                let (name, seed) = (PROGRAMS[nth].name, scene.seed);
                let round = scene.progress[nth].rounds.load(Ordering::SeqCst);
                eprintln!("siege: program {name} failed in round {round}, seed {seed}: {error}");
                return None;
            }
        }
    }
    Some(sum)
}

/// Runs rounds of one program, each with a generator of its own, and returns their number.
async fn play(scene: Arc<Scene>, nth: usize, until: Instant) -> u64 {
    let progress = &scene.progress[nth];
    progress.plays.store(true, Ordering::SeqCst);
    let before = progress.rounds.load(Ordering::SeqCst);
    let mut now = before;
    while Instant::now() < until {
        let draws = Draws::new(scene.seed, (nth as u64) << 32 | now);
        (PROGRAMS[nth].round)(draws).await;
        now = progress.rounds.fetch_add(1, Ordering::SeqCst) + 1;
    }
    progress.plays.store(false, Ordering::SeqCst);
    now - before
}
