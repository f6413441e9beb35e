//! Calls of the command, and checks of their output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The result of a call of the command.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Said {
    /// Returns the standard output of a call that succeeded without a message.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Returns standard error without the lines of progress of `reproduce`.
    pub fn messages(&self) -> String {
        let is_progress = |line: &&str| {
            let of = line.split_once(": ").map_or("", |(of, _)| of);
            (of.ends_with(" on sim") || of.ends_with(" on live")) && line.ends_with(" s left")
        };
        let messages = self.err.lines().filter(|line| !is_progress(line));
        messages.map(|line| format!("{line}\n")).collect()
    }

    /// Returns the only line of standard error, which names the mistake in the input.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        let line = self.err.strip_suffix('\n').expect("a message ends its line").to_owned();
        assert!(!line.contains('\n'), "one line: {line}");
        line
    }

    /// Returns the message of the argument parser, and checks that it is on standard error only.
    #[track_caller]
    pub fn misused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        self.err
    }
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runyard"));
    command.args(arguments).current_dir(folder()).env("RUST_BACKTRACE", "0");
    command
}

/// A lock that each call shares, and that a call that measures real CPUs holds exclusively.
static CALLS: RwLock<()> = RwLock::new(());

fn among_others() -> RwLockReadGuard<'static, ()> {
    CALLS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command while no other call of this file is in progress.
pub fn alone(command: &mut Command) -> Said {
    let _alone = CALLS.write().unwrap_or_else(PoisonError::into_inner);
    command.output().unwrap().into()
}

pub fn call(arguments: &[&str]) -> Said {
    let _among = among_others();
    command(arguments).stdin(Stdio::null()).output().unwrap().into()
}

/// Calls the command with `input` on its standard input.
pub fn call_with(arguments: &[&str], input: &[u8]) -> Said {
    let _among = among_others();
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that refuses its arguments does not read its input.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

/// Runs the scenario `text`, passed on standard input.
pub fn sim(text: &str, options: &[&str]) -> Said {
    let arguments = [&["sim", "-"], options].concat();
    call_with(&arguments, text.as_bytes())
}

/// Writes a file into the tests' own folder, in which the command runs.
pub fn file(name: &str, contents: impl AsRef<[u8]>) -> String {
    std::fs::write(folder().join(name), contents).unwrap();
    name.to_owned()
}

/// Returns the folder in which the command runs.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
