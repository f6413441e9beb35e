//! Reports on standard output, and the files that a run writes when it is over.
//!
//! A reader may stop reading early; this is no failure. Any other failure to write is a refusal of the
//! host.

use runyard_outcome::Failure;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file that is written when all its contents are known.
#[derive(Clone, Debug)]
pub(crate) struct OutFile(PathBuf);

impl From<OsString> for OutFile {
    fn from(name: OsString) -> OutFile {
        OutFile(name.into())
    }
}

impl OutFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens the file, before anything runs. Its old contents stay until it is written.
    pub(crate) fn open(&self) -> Result<OpenFile, Failure> {
        let name = self.0.display().to_string();
        match OpenOptions::new().append(true).create(true).open(&self.0) {
            Ok(file) => Ok(OpenFile { name, file }),
            Err(error) => Err(refused(&name, &error)),
        }
    }
}

/// A file that will be written.
#[derive(Debug)]
pub(crate) struct OpenFile {
    name: String,
    file: File,
}

impl OpenFile {
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let OpenFile { name, file } = self;
        let emptied = match file.metadata() {
            // A pipe has no old contents to truncate.
            Ok(about) if !about.is_file() => Ok(()),
            _ => file.set_len(0),
        };
        let written = emptied.and_then(|()| {
            let mut out = BufWriter::new(file);
            write(&mut out).and_then(|()| out.flush())
        });
        written.map_err(|error| refused(&name, &error))
    }
}

fn refused(name: &str, error: &io::Error) -> Failure {
    Failure::Refused(format!("{name}: {error}"))
}

/// Writes a report to standard output.
pub(crate) fn report(
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Refused(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
