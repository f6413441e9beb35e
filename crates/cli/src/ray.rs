//! `runyard sweep --backend ray`: runs the Python package, since Ray is driven from Python.

use crate::exit::Done;
use runyard_outcome::Failure;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The Python program: it runs the package, or reports the missing package.
const PROGRAM: &str = "\
import sys
try:
    import ray
    from runyard.__main__ import main
except ImportError as error:
    print(f'runyard: --backend ray: {sys.executable}: {error}', file=sys.stderr)
    sys.exit(3)
sys.argv[0] = 'runyard'
sys.exit(main())
";

/// Runs a sweep on a Ray cluster. The Python program replaces this process.
pub(crate) fn sweep(spec: &str, out: &Path, resume: bool) -> Result<Done, Failure> {
    if spec == "-" {
        return Err(Failure::input(
            "--backend ray: the specification is a file, not standard input",
        ));
    }
    let python = std::env::var_os("RUNYARD_PYTHON").unwrap_or_else(|| OsString::from("python3"));
    let mut command = Command::new(&python);
    command.args(["-c", PROGRAM, "sweep", "--backend", "ray", "--out"]).arg(out);
    if resume {
        command.arg("--resume");
    }
    command.arg("--").arg(spec);
    Err(Failure::Refused(format!(
        "--backend ray: {}: {}",
        python.display(),
        replaced_by(&mut command)
    )))
}

/// Replaces this process by `command`, which then gets its signals. Returns only the reason for a failure.
#[cfg(unix)]
fn replaced_by(command: &mut Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

/// Runs `command` and ends this process as it ended. Returns only the reason for a failure.
#[cfg(not(unix))]
fn replaced_by(command: &mut Command) -> std::io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
