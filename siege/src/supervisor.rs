//! The supervisor. If the besieged process hangs, it prints the stacks of all its threads and ends it.
//!
//! The besieged process reports once a second that it runs. A hang may also stop these reports. So the supervisor takes
//! their absence as a hang as well.

use crate::Options;
use crate::quota::Group;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The reports of the besieged process on its standard output, one a line.
pub mod said {
    /// The process runs.
    pub const ALIVE: &str = "alive";
    /// A program had a wrong result. The process has printed the program's name.
    pub const FAILED: &str = "failed";
    /// A program hangs. The process has printed the program's name.
    pub const HANGS: &str = "hangs";
    /// All programs have ended, and their results were right.
    pub const DONE: &str = "done";
}

/// The longest time between two reports. The watchdog needs only little CPU time for a report.
const SILENCE: Duration = Duration::from_secs(30);

/// Runs the besieged process until it ends, or ends it.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    let mut child = start();
    let _group = Group::around(child.id())
        .inspect_err(|error| eprintln!("siege: the quota does not change: {error}"));
    let lines = lines_of(&mut child);
    let verdict = listen(&lines, child.id());
    let status = if verdict == said::DONE {
        child.wait()
    } else {
        let _ = child.kill();
        let _ = child.wait();
        eprintln!("siege: {verdict}; repeat it with --seed {}", options.seed);
        return ExitCode::FAILURE;
    };
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        status => {
            eprintln!("siege: ended with {status:?}; repeat it with --seed {}", options.seed);
            ExitCode::FAILURE
        }
    }
}

fn start() -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--besieged");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().expect("the besieged process starts")
}

/// Reads the child's reports on a thread, so that the wait for a report can have a limit.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (to, from) = channel();
    let said = BufReader::new(child.stdout.take().expect("it is a pipe"));
    thread::spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    from
}

/// Receives the reports until the last one. Returns the verdict.
fn listen(lines: &Receiver<String>, child: u32) -> &'static str {
    loop {
        match lines.recv_timeout(SILENCE).as_deref() {
            Ok(said::ALIVE) => {}
            Ok(said::DONE) => return said::DONE,
            Ok(said::FAILED) => return said::FAILED,
            Ok(_) => {
                show_stacks(child);
                return said::HANGS;
            }
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("siege: the process has said nothing for {SILENCE:?}");
                show_stacks(child);
                return said::HANGS;
            }
            Err(RecvTimeoutError::Disconnected) => return "it ended early",
        }
    }
}

/// Prints the stacks of all threads by a debugger. Without a debugger it ends the process with a core.
fn show_stacks(child: u32) {
    threads_of(child);
    let mut debugger = Command::new("gdb");
    debugger.args([
        "--batch",
        "--nx",
        "-ex",
        "set pagination off",
        "-ex",
        "thread apply all bt 40",
    ]);
    debugger.args(["-p", &child.to_string()]).stdin(Stdio::null());
    if !debugger.status().is_ok_and(|status| status.success()) {
        eprintln!("siege: no debugger shows its stacks; it is aborted to leave a core");
        let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::ABORT));
        thread::sleep(Duration::from_secs(2));
    }
}

/// Prints the kernel's state of each thread: its name, its state, its CPU times, its signal masks and CPUs, and the
/// function in which it waits.
fn threads_of(child: u32) {
    let tasks = std::fs::read_dir(format!("/proc/{child}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (stat, call, wait) = (read("stat"), read("syscall"), read("wchan"));
        let status = read("status");
        let masks =
            status.lines().filter(|line| line.starts_with("Sig") || line.starts_with("Cpus"));
        let masks: Vec<_> = masks.map(|line| line.replace('\t', " ")).collect();
        eprintln!(
            "thread {}\n  in {wait}, call {}\n  {}",
            stat.trim(),
            call.trim(),
            masks.join(", ")
        );
    }
}
