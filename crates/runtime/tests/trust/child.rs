//! A test in a separate process. A process that hangs is ended, and one that dies is reported, with its output.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Set in the separate process.
const MARK: &str = "RUNYARD_TRUST_CHILD";

/// The end of the process: its status, if it ended in time, and its output.
pub struct End {
    pub status: Option<ExitStatus>,
    pub said: String,
}

/// Runs the test `name` (with the names of its modules) in a separate process, which runs `body`. Fails if that fails,
/// or does not end within `limit`.
pub fn within(limit: Duration, name: &str, body: impl FnOnce()) {
    let Some(end) = run(limit, &[], name, body) else { return };
    match end.status {
        Some(status) if status.success() => {}
        Some(status) => panic!("{name}: {status}\n{}", end.said),
        None => panic!("{name}: a hang: no end within {limit:?}\n{}", end.said),
    }
}

/// Runs a test as [`within`], and returns the end of the process. Returns none in that process itself. `before` is a
/// command that runs the process.
pub fn run(limit: Duration, before: &[&str], name: &str, body: impl FnOnce()) -> Option<End> {
    if std::env::var_os(MARK).is_some() {
        body();
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let test = ["--exact", name, "--nocapture", "--test-threads=1"];
    let mut command = match before {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    let child = command.args(test).env(MARK, "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(watch(child.spawn().unwrap(), limit))
}

fn watch(mut child: Child, limit: Duration) -> End {
    let pipes: [Box<dyn Read + Send>; 2] =
        [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    let readers = pipes.map(|mut pipe| {
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = pipe.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        })
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let said = readers.map(|reader| reader.join().unwrap()).concat();
    End { status, said }
}

impl End {
    /// Returns the signal that ended the process.
    pub fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }
}
