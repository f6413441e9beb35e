//! The differences of two scenarios, value by value.

use runyard_workload::document::Value;
use runyard_workload::setting::Segment;
use std::collections::BTreeMap;

/// The number of differences that are shown.
const TOLD: usize = 5;
/// The characters of a value that are shown.
const SHOWN: usize = 40;
/// The longest text, in bytes, whose values are compared. Of longer texts only the fact that they differ is shown.
const LONGEST: usize = 1 << 22;

/// The first values that two scenarios have at the same path and that differ, as `tasks.web.run: 300 -> 500`. A text
/// that is no scenario has no differences.
pub(super) fn differences(before: &str, after: &str) -> Vec<String> {
    if before == after {
        return Vec::new();
    }
    if before.len().max(after.len()) > LONGEST {
        return vec!["the scenarios".to_owned()];
    }
    let (Ok(before), Ok(after)) = (Value::read("", before), Value::read("", after)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    compare("", (Some(before), Some(after)), &mut found);
    let rest = found.len().saturating_sub(TOLD);
    found.truncate(TOLD);
    if rest > 0 {
        found.push(format!("and {rest} more values"));
    }
    found
}

fn compare(path: &str, values: (Option<Value<'_>>, Option<Value<'_>>), found: &mut Vec<String>) {
    match values {
        (Some(before), Some(after)) if before.is_object() && after.is_object() => {
            let (old, new) = (keyed(before), keyed(after));
            for segment in
                old.order.iter().chain(new.order.iter().filter(|it| !old.values.contains_key(it)))
            {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{segment}");
                compare(&path, (old.get(segment), new.get(segment)), found);
            }
        }
        (before, after) => {
            let [before, after] = [before, after].map(shown);
            if before != after {
                let cut = |text: &String| match text.char_indices().nth(SHOWN) {
                    None => text.clone(),
                    Some((end, _)) => format!("{}...", &text[..end]),
                };
                found.push(format!("{path}: {} -> {}", cut(&before), cut(&after)));
            }
        }
    }
}

/// The members of an object by their keys. A key that repeats has a number.
struct Keyed<'t> {
    order: Vec<Segment>,
    values: BTreeMap<Segment, Value<'t>>,
}

impl<'t> Keyed<'t> {
    fn get(&self, segment: &Segment) -> Option<Value<'t>> {
        self.values.get(segment).copied()
    }
}

fn keyed(object: Value<'_>) -> Keyed<'_> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut keyed = Keyed { order: Vec::new(), values: BTreeMap::new() };
    for member in object.all_members().into_iter().flatten() {
        let nth = counts.entry(member.key().to_owned()).or_default();
        *nth += 1;
        let segment = Segment { key: member.key().to_owned(), nth: *nth };
        keyed.order.push(segment.clone());
        keyed.values.insert(segment, member.value);
    }
    keyed
}

/// A value without its white space and comments.
fn shown(value: Option<Value<'_>>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    match value.text() {
        Ok(text) => text.into_owned(),
        Err(_) => value.one_line(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_by_their_paths() {
        let before = "{'machine': {'cpus': 2}, 'tasks': {'a.b': {'run': 1, 'sleep': 2, 'run': 3}}, 'x': 1 /* c */}";
        let after = "{'tasks': {'a.b': {'run': 1, 'sleep': 5, 'run': 4}}, 'machine': {'cpus': 2, 'kernel': '6.1'}, 'x': 1}";
        let expected = [
            "machine.kernel: nothing -> 6.1",
            "tasks.\"a.b\".sleep: 2 -> 5",
            "tasks.\"a.b\".run#2: 3 -> 4",
        ];
        assert_eq!(differences(before, after), expected);
        assert!(differences(before, before).is_empty());
        let many = |n: u32| (0..9).map(|at| format!("'k{at}': {n},")).collect::<String>();
        let told = differences(&format!("{{{}}}", many(1)), &format!("{{{}}}", many(2)));
        assert_eq!((told.len(), told[5].as_str()), (6, "and 4 more values"));
    }
}
