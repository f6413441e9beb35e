//! Suggestions for misspelt names.

use crate::diagnostic::quoted;

/// The length of the longest word that counts as a misspelt name.
const LONGEST: usize = 60;

/// Returns the one of `known` that is nearest to `word`, if one is near. A third of the letters may be wrong, and
/// always one.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let letters = word.chars().count();
    if letters > LONGEST {
        return None;
    }
    let most = (letters / 3).max(1);
    let folded = word.to_lowercase();
    let near = known.into_iter().filter_map(|known| {
        let distance = strsim::osa_distance(&folded, &known.to_lowercase());
        // A contained word, as `slice` in `base_slice_us`, is a good suggestion, too, but a worse one.
        let lower = known.to_lowercase();
        let within =
            letters >= 4 && lower.contains(&folded) || lower.split('_').any(|part| part == folded);
        let distance = if distance > most && within { most } else { distance };
        (distance <= most).then_some((distance, known))
    });
    near.min_by_key(|&(distance, _)| distance).map(|(_, known)| known)
}

/// Returns the rest of the message "... is unknown": the nearest of `known`, or nothing.
pub(crate) fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let near = nearest(word, known);
    near.map_or_else(String::new, |near| format!("; did you mean {}?", quoted(near)))
}

/// The largest number of names listed when none is near.
const LISTED: usize = 12;

/// Returns the rest of the message "... is not known": the nearest of `known`, else a list.
#[must_use]
pub fn advice(word: &str, known: &[&str]) -> String {
    let near = did_you_mean(word, known.iter().copied());
    match known.len() {
        _ if !near.is_empty() => near,
        0 => String::new(),
        1..=LISTED => format!("; known are {}", listed(known)),
        more => format!("; known are {} and {} more", listed(&known[..LISTED]), more - LISTED),
    }
}

fn listed(known: &[&str]) -> String {
    known.iter().map(|known| quoted(known)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_if_one_is_near() {
        let known = ["run", "runtime", "sleep", "base_slice_us"];
        for (word, near) in [
            ("rum", Some("run")),
            ("slepe", Some("sleep")),
            ("RUN", Some("run")),
            ("slice", Some("base_slice_us")),
            ("us", Some("base_slice_us")),
            ("basesliceus", Some("base_slice_us")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
        assert_eq!(advice("rum", &known), "; did you mean \"run\"?");
        assert_eq!(advice("zz", &["a", "b"]), "; known are \"a\", \"b\"");
    }
}
