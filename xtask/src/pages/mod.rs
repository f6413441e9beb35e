//! `cargo xtask pages`: the pages that the command writes, as a browser shows them on a phone, on a laptop and on a wide
//! screen, by day and by night.
//!
//! Each page of the list is made by the command. A script in Node.js opens all of them by Playwright, which sets width and
//! scheme of a real Chromium, and looks for what is wrong: something wider than its place, labels on each other, colours
//! that occur twice, titles without a scope, and what axe-core, which knows the rules of WCAG, calls serious. The script
//! also makes a sheet of all pages for a person to look at.

mod list;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::command;
use crate::workspace::{self, Outcome, program, run as run_command};

/// The packages of npm. Playwright is the one that drives browsers of any make and needs none of its own.
const PACKAGES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.1"];

/// The browser, as Debian installs it.
const BROWSER: &str = "/usr/bin/chromium";

const LOOK: &str = include_str!("look.mjs");

/// The pages to look at, and the command that makes them.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    command: command::Options,
    /// Only the pages whose names contain this
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

/// Makes the pages and looks at them. The pages, their pictures and two sheets are left in `target/pages`.
pub fn run(options: &Options) -> Outcome {
    let runyard = options.command.path()?;
    let folder = workspace::anew("pages")?;
    let only = options.only.as_deref().unwrap_or_default();
    let pages = list::pages();
    let asked: Vec<_> = pages.iter().filter(|page| page.name.contains(only)).collect();
    if asked.is_empty() {
        let names: Vec<_> = pages.iter().map(|page| page.name).collect();
        return Err(format!("no page's name contains `{only}`: {}", names.join(", ")).into());
    }
    asked.into_iter().try_for_each(|page| page.make(&runyard, &folder))?;
    let script = prepared()?;
    let mut look = program("node");
    run_command(look.arg(script).arg(&folder).arg(BROWSER))?;
    println!("{}", folder.display());
    Ok(())
}

/// For `cargo xtask full`: with a release of the command.
pub fn all() -> Outcome {
    run(&Options { command: command::Options::default(), only: None })
}

/// The script beside its packages, which are installed unless they are there.
fn prepared() -> Outcome<PathBuf> {
    let folder = workspace::target("pages-packages")?;
    std::fs::create_dir_all(&folder)?;
    let mut install = program("npm");
    install.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(&folder);
    run_command(install.args(PACKAGES))?;
    let script = folder.join("look.mjs");
    std::fs::write(&script, LOOK)?;
    Ok(script)
}

impl list::Page {
    /// Makes the page in `folder`.
    fn make(&self, runyard: &Path, folder: &Path) -> Outcome {
        let html = folder.join(self.name).with_extension("html");
        let is_sweep = self.command[0] == "sweep";
        let out = if is_sweep { folder.join(self.name) } else { html.clone() };
        let input = folder.join(self.name).with_extension("json");
        if let Some(scenario) = &self.input {
            std::fs::write(&input, scenario.to_string())?;
        }
        workspace::output(&mut command::filled(runyard, &self.command, &input, &out))?;
        if is_sweep {
            std::fs::copy(out.join("index.html"), html)?;
        }
        Ok(())
    }
}
