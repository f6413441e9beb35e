//! `cargo xtask pictures`: the pictures of the documents, as a browser shows the pages of committed scenarios.
//!
//! A picture is old if its scenario, its command, or the sources of the pages have changed since. `docs/pictures/made.json`
//! has a fingerprint of these for each picture, and a rule of the tree compares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::Crc;

use crate::command;
use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::workspace::{self, Outcome, program, run as run_command};

/// The folder of the pictures, and the file of their fingerprints in it.
const FOLDER: &str = "docs/pictures";
const MADE: &str = "docs/pictures/made.json";

/// The sources of the pages.
const SOURCES: &str = "crates/report/src/html/";

/// The browser.
const BROWSER: &str = "chromium";

/// The command to make the pictures with.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    command: command::Options,
}

/// A picture: a part of the page that a command writes.
struct Picture {
    name: &'static str,
    /// The scenario or the sweep, relative to the root.
    input: &'static str,
    /// The command with `INPUT` and `OUT` in place of the input and of what it writes.
    command: &'static [&'static str],
    /// The page in what it writes.
    page: &'static str,
    /// What is hidden, as selectors of CSS.
    hidden: &'static str,
    /// The width and the height in pixels.
    size: [u32; 2],
}

const WHAT_IF: [&str; 6] =
    ["compare", "INPUT", "--after", "--set tasks.encoder.policy=SCHED_IDLE", "--html", "OUT"];

const PICTURES: [Picture; 6] = [
    Picture {
        name: "what-if",
        input: "scenarios/batch-beside-latency.json",
        command: &WHAT_IF,
        page: "",
        hidden: "section:not(:has(#latency)), header, footer, .cards, body > p",
        size: [1_000, 500],
    },
    Picture {
        name: "comparison",
        input: "scenarios/batch-beside-latency.json",
        command: &WHAT_IF,
        page: "",
        hidden: "footer",
        size: [1_000, 640],
    },
    Picture {
        name: "timeline",
        input: "scenarios/batch-beside-latency.json",
        command: &["sim", "INPUT", "--duration", "100ms", "--html", "OUT"],
        page: "",
        hidden: "section:not(:has(#timeline-0)), header, footer, .cards",
        size: [1_000, 360],
    },
    Picture {
        name: "causes",
        input: "scenarios/tenants.json",
        command: &["sim", "INPUT", "--duration", "1s", "--html", "OUT"],
        page: "",
        hidden: "section:not(:has(#causes-0)), header, footer, .cards",
        size: [1_000, 410],
    },
    Picture {
        name: "page",
        input: "scenarios/noisy-neighbour.json",
        command: &["sim", "INPUT", "--html", "OUT"],
        page: "",
        hidden: "footer",
        size: [1_000, 800],
    },
    Picture {
        name: "sweep",
        input: "sweeps/frame-pipeline.json",
        command: &["sweep", "INPUT", "--out", "OUT"],
        page: "index.html",
        hidden: "footer",
        size: [1_000, 800],
    },
];

/// Makes all pictures and their fingerprints.
pub fn run(options: &Options) -> Outcome {
    let runyard = options.command.path()?;
    let scratch = workspace::anew("pictures")?;
    std::fs::create_dir_all(workspace::root().join(FOLDER))?;
    for picture in &PICTURES {
        picture.make(&runyard, &scratch)?;
    }
    let tree = Tree::read(workspace::root())?;
    let made: BTreeMap<_, _> =
        PICTURES.iter().map(|picture| (picture.name, picture.fingerprint(&tree))).collect();
    let text = serde_json::to_string_pretty(&made)? + "\n";
    Ok(std::fs::write(workspace::root().join(MADE), text)?)
}

/// Each picture is there, and made of the present sources.
#[must_use]
pub fn pictures_are_of_their_sources(tree: &Tree) -> Vec<Violation> {
    let text =
        |path: &str| tree.files().iter().find(|file| file.path == path).map(|file| &file.text);
    let Some(made) = text(MADE) else { return Vec::new() };
    let made: BTreeMap<String, String> = serde_json::from_str(made).unwrap_or_default();
    let is_old = |picture: &&Picture| {
        let path = format!("{FOLDER}/{}.png", picture.name);
        text(&path).is_none() || made.get(picture.name) != Some(&picture.fingerprint(tree))
    };
    let old: Vec<_> = PICTURES.iter().filter(is_old).map(|picture| picture.name).collect();
    if old.is_empty() {
        return Vec::new();
    }
    let reason = format!(
        "not of the present sources: {}. Run `cargo xtask pictures` and look at them",
        old.join(", ")
    );
    vec![Violation { path: MADE.to_owned(), line: 1, reason }]
}

impl Picture {
    fn make(&self, runyard: &Path, scratch: &Path) -> Outcome {
        let out = scratch.join(self.name);
        let page =
            if self.page.is_empty() { out.with_extension("html") } else { out.join(self.page) };
        let written = if self.page.is_empty() { &page } else { &out };
        let input = Path::new(self.input);
        workspace::output(&mut command::filled(runyard, self.command, input, written))?;
        let text = std::fs::read_to_string(&page)?;
        let hiding = format!("<style>{} {{ display: none }}</style></head>", self.hidden);
        let part = scratch.join(format!("{}-part.html", self.name));
        std::fs::write(&part, text.replacen("</head>", &hiding, 1))?;
        self.shoot(&part, &scratch.join("profile"))
    }

    fn shoot(&self, page: &Path, profile: &Path) -> Outcome {
        let [width, height] = self.size;
        let picture: PathBuf = workspace::root().join(FOLDER).join(format!("{}.png", self.name));
        let mut browser = program(BROWSER);
        browser
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND"])
            .arg("--virtual-time-budget=20000")
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{}", page.display()));
        run_command(&mut browser)
    }

    /// A sum over all that the picture is made of, but for the simulator.
    fn fingerprint(&self, tree: &Tree) -> String {
        let mut sum = Crc::new();
        let command = [self.command.join(" "), self.page.to_owned(), self.hidden.to_owned()];
        command.iter().for_each(|part| sum.update(part.as_bytes()));
        sum.update(format!("{:?}", self.size).as_bytes());
        let sources = tree
            .files()
            .iter()
            .filter(|file| file.path == self.input || file.path.starts_with(SOURCES));
        sources.for_each(|file| sum.update(file.text.as_bytes()));
        format!("{:08x}", sum.sum())
    }
}
