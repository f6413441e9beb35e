//! A server with a database of its own in a temporary folder, which exists during one test.

use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::postgres::PgConnectOptions;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs, process};

use crate::common::until;

const USER: &str = "tester";

/// The ids of the user `nobody` and of its group. Postgres refuses to run as root, so root starts it as `nobody`.
const NOBODY: u32 = 65_534;

/// The folder in which Debian installs each version of Postgres.
const OF_DEBIAN: &str = "/usr/lib/postgresql";

pub struct Server {
    folder: PathBuf,
    child: Child,
}

impl Server {
    /// Makes a database, and starts a server that listens only on a socket in the folder of the database.
    pub fn start(name: &str) -> Server {
        let folder = env::temp_dir().join(format!("runyard-postgres-{name}-{}", process::id()));
        fs::create_dir(&folder).unwrap();
        if geteuid().is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut initdb = program("initdb", &folder);
        initdb.args(["--username", USER, "--auth", "trust", "--no-sync", "--no-locale"]);
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

        let mut postgres = program("postgres", &folder);
        postgres.args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"]).arg(&folder);
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = postgres.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Server { folder, child };
        until(|| server.is_ready());
        server
    }

    pub fn options(&self) -> PgConnectOptions {
        let options = PgConnectOptions::new_without_pgpass();
        options.socket(&self.folder).username(USER).database("postgres")
    }

    /// Whether the server accepts connections. The last line of `postmaster.pid` is its state.
    fn is_ready(&self) -> bool {
        let said = fs::read_to_string(self.folder.join("postmaster.pid")).unwrap_or_default();
        said.lines().last().is_some_and(|line| line.trim() == "ready")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT ends the server without waiting for its clients. The folder is removed afterwards.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the command for one of Postgres' programs, for the database in `folder`.
fn program(name: &str, folder: &Path) -> Command {
    let path =
        find(name).unwrap_or_else(|| panic!("{name} is missing: install PostgreSQL's server"));
    let mut command = Command::new(path);
    command.arg("-D").arg(folder).current_dir(folder);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn find(name: &str) -> Option<PathBuf> {
    let of_path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(OF_DEBIAN).into_iter().flatten().flatten();
    let of_debian = versions.map(|version| version.path().join("bin"));
    let folders = env::split_paths(&of_path).chain(of_debian);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
