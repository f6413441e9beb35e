//! Holds the tree to the rules of `xtask::tidy`, one test a rule.

use xtask::figures::pages;
use xtask::tidy::tree::Tree;
use xtask::tidy::{
    Rule, Violation, arrows, circles, documents, packages, rooms, source, voice, words,
};
use xtask::workspace::{metadata, root};

/// Fails with a line for each violation.
fn none_of(violations: &[Violation]) {
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "violations: {}\n{}", lines.len(), lines.join("\n"));
}

fn hold(rule: Rule) {
    let tree = Tree::read(root()).expect("the tree can be read");
    assert!(tree.file("Cargo.toml").is_some(), "this is not the root of the workspace");
    none_of(&rule(&tree));
}

#[test]
fn dependencies_follow_the_arrows() {
    let metadata = metadata().expect("cargo knows the workspace");
    none_of(&arrows::dependencies_follow_the_arrows(&arrows::packages(&metadata, root())));
}

#[test]
fn published_packages_are_complete() {
    let metadata = metadata().expect("cargo knows the workspace");
    none_of(&packages::published_packages_are_complete(&metadata, root()));
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    hold(circles::no_files_use_each_other_in_a_circle);
}

#[test]
fn rooms_use_only_rooms_below_them() {
    hold(rooms::rooms_use_only_rooms_below_them);
}

#[test]
fn unsafe_lives_in_one_folder() {
    hold(source::unsafe_lives_in_one_folder);
}

#[test]
fn every_package_is_under_the_lints() {
    hold(source::every_package_is_under_the_lints);
}

#[test]
fn no_shortcuts() {
    hold(source::no_shortcuts);
}

#[test]
fn files_have_at_most_600_lines_of_code() {
    hold(source::files_have_at_most_600_lines_of_code);
}

#[test]
fn files_open_with_a_short_header() {
    hold(source::files_open_with_a_short_header);
}

#[test]
fn one_file_names_the_sync_primitives() {
    hold(source::one_file_names_the_sync_primitives);
}

#[test]
fn no_path_of_one_machine() {
    hold(words::no_path_of_one_machine);
}

#[test]
fn no_promises_in_code() {
    hold(words::no_promises_in_code);
}

#[test]
fn links_point_somewhere() {
    hold(documents::links_point_somewhere);
}

#[test]
fn the_readme_shows_the_first_commands() {
    hold(documents::the_readme_shows_the_first_commands);
}

#[test]
fn design_pages_have_their_sections() {
    hold(documents::design_pages_have_their_sections);
}

#[test]
fn every_page_is_in_the_book() {
    hold(documents::every_page_is_in_the_book);
}

#[test]
fn the_code_map_is_the_tree() {
    hold(documents::the_code_map_is_the_tree);
}

#[test]
fn the_changelog_has_an_unreleased_section() {
    hold(documents::the_changelog_has_an_unreleased_section);
}

#[test]
fn tables_are_made_from_their_figures() {
    hold(pages::tables_are_made_from_their_figures);
}

#[test]
fn every_clause_names_its_subject() {
    hold(voice::every_clause_names_its_subject);
}

#[test]
fn thousands_have_commas() {
    hold(voice::thousands_have_commas);
}
