//! A check, before anything runs, that files can be made in a folder.

use std::io;
use std::path::Path;

/// Fails unless files can be made in `folder`.
#[cfg(unix)]
pub(crate) fn takes_files(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Fails unless `folder` exists. Here only the first file shows whether files can be made in it.
#[cfg(not(unix))]
pub(crate) fn takes_files(folder: &Path) -> io::Result<()> {
    std::fs::read_dir(folder).map(drop)
}
