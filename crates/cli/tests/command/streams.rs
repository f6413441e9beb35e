//! Streams that have no reader, or that cannot be written. The command does not panic, and its exit code is correct.

use crate::rig::{Said, call_with, command, file};
use std::fs::{File, OpenOptions};
use std::process::Stdio;
use std::sync::OnceLock;

/// Returns a scenario whose report is larger than a pipe. It is written once, since tests read it concurrently.
fn large() -> String {
    static LARGE: OnceLock<String> = OnceLock::new();
    let text = "{\"tasks\": {\"a\": {\"instance\": 2000, \"loop\": 1, \"run\": 1}}}";
    LARGE.get_or_init(|| file("large.json", text)).clone()
}

/// Returns a stream whose reader has closed it.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Opens a device that is always full.
fn full() -> Option<File> {
    OpenOptions::new().write(true).open("/dev/full").ok()
}

fn call_writing_to(arguments: &[&str], out: Stdio) -> Said {
    let mut command = command(arguments);
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap().into()
}

#[test]
fn nobody_listens_and_nothing_breaks() {
    let large = large();
    for arguments in [
        &["sim", &large][..],
        &["sim", &large, "--json"],
        &["reproduce", "rt-migrate", "--host", "sim"],
        &["sim", "--help"],
    ] {
        let said = call_writing_to(arguments, closed());
        assert_eq!((said.code, said.messages().as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_reader_may_take_one_line() {
    use std::io::{BufRead, BufReader};
    let mut command = command(&["sim", &large(), "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    drop(out);
    assert_eq!(first, "{\n");
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

#[test]
fn a_report_that_cannot_be_written_is_no_success() {
    let large = large();
    for arguments in [
        &["sim", &large][..],
        &["sim", &large, "--json"],
        &["reproduce", "rt-migrate", "--host", "sim", "--json"],
    ] {
        let Some(full) = full() else { return };
        let said = call_writing_to(arguments, full.into());
        assert!(said.code.is_some_and(|code| (1..=3).contains(&code)), "{arguments:?}: {said:?}");
        assert_eq!(said.messages().lines().count(), 1, "it says why: {}", said.err);
    }
}

#[test]
fn messages_that_nobody_can_read_change_no_exit_code() {
    let Some(full) = full() else { return };
    for err in [closed(), full.into()] {
        let status = command(&["sim", "missing.json"]).stderr(err).status().unwrap();
        assert_eq!(status.code(), Some(2));
    }
    let odd = "{\"colour\": 1, \"tasks\": {\"a\": {\"loop\": 1, \"run\": 1}}}";
    let odd = file("odd.json", odd);
    let mut command = command(&["sim", &odd, "--json"]);
    let status = command.stdout(Stdio::null()).stderr(closed()).status().unwrap();
    assert_eq!(status.code(), Some(0), "a warning is lost");
}

#[test]
fn standard_input_may_be_an_argument_away() {
    let name = file("from-file.json", "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1}}}");
    let said = call_with(&["sim", &name, "--json"], b"not read");
    assert_eq!(said.code, Some(0), "{}", said.err);
}
