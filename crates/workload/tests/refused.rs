//! The reader refuses every file of `tests/bad` with the error in the file's first line: `// expect: LINE:COLUMN: ` and
//! the beginning of the message.

use runyard_workload::{Overrides, parse};
use std::fs;
use std::path::Path;

#[test]
fn bad_scenarios_are_refused_with_their_places() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected = text.lines().next().and_then(|line| line.strip_prefix("// expect: "));
        let expected = format!("{name}:{}", expected.expect(name));
        match parse(name, &text, &Overrides::default()) {
            Err(error) if error.to_string().starts_with(&expected) => {}
            Err(error) => wrong.push(format!("expected {expected}\n     got {error}")),
            Ok(_) => wrong.push(format!("expected {expected}\n     got a scenario")),
        }
    }
    assert!(files.len() > 100, "the files are not where they should be");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
