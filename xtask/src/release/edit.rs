//! The texts that a release changes: each edit is a function from the old text to the new one.

/// The heading of the entries that no release has yet.
const UNRELEASED: &str = "## [Unreleased]\n";

/// The root's manifest with the version `to`: of the workspace, and of each of its crates that another one names.
pub(super) fn manifest(text: &str, from: &str, to: &str) -> String {
    let [old, new] = [from, to].map(|version| format!("version = \"{version}\""));
    let mut section = "";
    let edited = text.split_inclusive('\n').map(|line| {
        if line.starts_with('[') {
            section = line.trim();
        }
        let is_ours = match section {
            "[workspace.package]" => line.starts_with(&old),
            "[workspace.dependencies]" => line.contains("path = "),
            _ => false,
        };
        if is_ours { line.replace(&old, &new) } else { line.to_owned() }
    });
    edited.collect()
}

/// A lock file with the version `to` of the workspace's crates. Only these have no source, and the packages that are
/// never released have another version.
pub(super) fn lock(text: &str, from: &str, to: &str) -> String {
    let [old, new] = [from, to].map(|version| format!("\nversion = \"{version}\"\n"));
    let edited = text.split("[[package]]").map(|package| {
        let is_ours = !package.contains("\nsource = ");
        if is_ours { package.replacen(&old, &new, 1) } else { package.to_owned() }
    });
    edited.collect::<Vec<_>>().join("[[package]]")
}

/// The change log with the entries of *Unreleased* under `version` and its date, and an empty section above them.
pub(super) fn changelog(text: &str, version: &str, date: &str) -> String {
    text.replacen(UNRELEASED, &format!("{UNRELEASED}\n## [{version}] - {date}\n"), 1)
}

/// Whether the change log has an entry that no release has.
pub(super) fn has_unreleased(text: &str) -> bool {
    let rest = text.split_once(UNRELEASED).map_or("", |(_, rest)| rest);
    let section = rest.split("\n## ").next().unwrap_or("");
    section.lines().any(|line| line.starts_with("- "))
}

/// Whether the change log has a section of `version`.
pub(super) fn has_section(text: &str, version: &str) -> bool {
    text.lines().any(|line| line.starts_with(&format!("## [{version}]")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    const LOG: &str =
        "# Changelog\n\n## [Unreleased]\n\n### Added\n- A.\n\n## [0.1.0] - 2026-01-01\n- B.\n";

    #[test]
    fn a_manifest_has_the_new_version_where_the_workspace_and_its_crates_have_one() {
        let old = "[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"0.1.0\"\n\
                   [workspace.dependencies]\na = { path = \"a\", version = \"0.1.0\" }\nb = { version = \"0.1.0\" }\n";
        let new = "[workspace.package]\nversion = \"0.2.0\"\nrust-version = \"0.1.0\"\n\
                   [workspace.dependencies]\na = { path = \"a\", version = \"0.2.0\" }\nb = { version = \"0.1.0\" }\n";
        assert_eq!(manifest(old, "0.1.0", "0.2.0"), new);
    }

    #[test]
    fn a_lock_has_the_new_version_of_the_crates_of_the_workspace_alone() {
        let package = |name, version, rest| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{rest}\n")
        };
        let text = |ours| {
            let theirs = package("b", "0.1.0", "source = \"registry\"\n");
            let never = package("c", "0.0.0", "");
            format!("version = 4\n\n{}{theirs}{never}", package("a", ours, "dependencies = [\n]\n"))
        };
        assert_eq!(lock(&text("0.1.0"), "0.1.0", "0.2.0"), text("0.2.0"));
    }

    #[test]
    fn unreleased_entries_get_the_version_and_the_date() {
        let new = changelog(LOG, "0.2.0", "2026-02-01");
        assert!(
            new.contains("## [Unreleased]\n\n## [0.2.0] - 2026-02-01\n\n### Added\n- A.\n"),
            "{new}"
        );
        assert!(has_unreleased(LOG) && !has_unreleased(&new));
        assert!(has_section(&new, "0.2.0") && !has_section(LOG, "0.2.0"));
    }

    #[test]
    fn the_edits_find_their_places_in_the_tree() {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
        let version = env!("CARGO_PKG_VERSION");
        let [old, new] = [version, "999.0.0"].map(|version| format!("version = \"{version}\""));
        let edited = manifest(&read("Cargo.toml"), version, "999.0.0");
        assert!(!edited.contains(&format!(", {old} }}")) && edited.matches(&new).count() > 1);
        for path in super::super::LOCKS {
            assert!(lock(&read(path), version, "999.0.0").contains(&new), "{path}");
        }
        let log = read("CHANGELOG.md");
        assert!(has_section(&changelog(&log, "999.0.0", "2026-02-01"), "999.0.0"));
    }
}
