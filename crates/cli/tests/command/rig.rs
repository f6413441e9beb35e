//! How the command is called, and what it said.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// What a call of the command came to.
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
    /// The standard output of a call that succeeded, and said nothing else.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// The one line that says what is wrong with the input.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        let line = self.err.strip_suffix('\n').expect("a message ends its line").to_owned();
        assert!(!line.contains('\n'), "one line: {line}");
        line
    }

    /// Refused for its usage: what the argument parser says, on standard error only.
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

/// Held by each call, and by one alone that measures real CPUs.
static CALLS: RwLock<()> = RwLock::new(());

fn among_others() -> RwLockReadGuard<'static, ()> {
    CALLS.read().unwrap_or_else(PoisonError::into_inner)
}

/// What a command says while no other test has one at work that was called here.
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
    // One that is refused for its arguments does not read.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

/// Runs the scenario `text`, told on standard input.
pub fn sim(text: &str, options: &[&str]) -> Said {
    let arguments = [&["sim", "-"], options].concat();
    call_with(&arguments, text.as_bytes())
}

/// A file of the tests' own folder with these contents; the command is called there.
pub fn file(name: &str, contents: impl AsRef<[u8]>) -> String {
    std::fs::write(folder().join(name), contents).unwrap();
    name.to_owned()
}

/// Where the command is called.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
