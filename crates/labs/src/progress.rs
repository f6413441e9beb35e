//! The progress of an experiment, for a person that waits. The experiment notes it; the owner of the terminal reads it.

use crate::length::Length;
use runyard_hosts::sync::{Arc, Mutex, lock};
use std::time::{Duration, Instant};

/// The present work of an experiment, and the time that it will take. Clones share it.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The instant by which the experiment is over; `None` for a soak.
    end: Option<Instant>,
    what: String,
    pace: Pace,
    messages: Vec<String>,
}

/// The known facts about the end.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// All measurements will be over at this instant.
    Until(Instant),
    /// So many of all parts have been done since the instant.
    Parts { done: u64, all: u64, since: Instant },
}

impl Progress {
    /// The progress of an experiment of this length, which begins now.
    #[must_use]
    pub fn new(length: Length) -> Progress {
        let now = Instant::now();
        let end = length.most().map(|most| now + most);
        let pace = Pace::Parts { done: 0, all: 0, since: now };
        Progress(Arc::new(Mutex::new(State {
            end,
            what: "begins".to_owned(),
            pace,
            messages: Vec::new(),
        })))
    }

    /// The present work of the experiment, and the time left: `3 of 40 runs, 7 s left`.
    #[must_use]
    pub fn text(&self) -> String {
        lock(&self.0).text(Instant::now())
    }

    /// Takes the messages for the user that have come up since the last call.
    #[must_use]
    pub fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0).messages)
    }

    /// Begins so many parts that take similar times.
    pub(crate) fn parts(&self, what: &str, all: u64) {
        let mut state = lock(&self.0);
        what.clone_into(&mut state.what);
        state.pace = Pace::Parts { done: 0, all, since: Instant::now() };
    }

    /// Notes that a part is done.
    pub(crate) fn part_done(&self) {
        if let Pace::Parts { done, .. } = &mut lock(&self.0).pace {
            *done += 1;
        }
    }

    /// Begins something after which, and after all that follows it, the experiment will be over in this time.
    pub(crate) fn until(&self, what: &str, left: Duration) {
        let mut state = lock(&self.0);
        what.clone_into(&mut state.what);
        state.pace = Pace::Until(Instant::now() + left);
    }

    /// Leaves a message for the user.
    pub(crate) fn say(&self, message: String) {
        lock(&self.0).messages.push(message);
    }
}

impl State {
    fn text(&self, now: Instant) -> String {
        let until = |end: Instant| end.saturating_duration_since(now).as_secs_f64().ceil();
        let most = || match self.end {
            Some(end) => format!("at most {} s left", until(end)),
            None => "no part is done that would tell the time left".to_owned(),
        };
        let what = &self.what;
        match self.pace {
            Pace::Until(end) => format!("{what}, {} s left", until(end)),
            Pace::Parts { done: 0, all: 0, .. } => format!("{what}, {}", most()),
            Pace::Parts { done: 0, all, .. } => format!("0 of {all} {what}, {}", most()),
            Pace::Parts { done, all, since } => {
                let each = (now - since).as_secs_f64() / done as f64;
                let left = (each * all.saturating_sub(done) as f64).ceil();
                format!("{done} of {all} {what}, {left} s left")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text so many seconds after now.
    fn text(progress: &Progress, seconds: u64) -> String {
        // A moment less, since some microseconds have passed since the beginning.
        let later = Duration::from_millis(seconds * 1_000 - 100);
        lock(&progress.0).text(Instant::now() + later)
    }

    #[test]
    fn the_time_left_follows_from_the_parts_that_are_done() {
        let progress = Progress::new(Length::Short);
        assert_eq!(text(&progress, 1), "begins, at most 40 s left");
        progress.parts("runs", 8);
        assert_eq!(text(&progress, 10), "0 of 8 runs, at most 31 s left");
        progress.part_done();
        progress.part_done();
        assert_eq!(text(&progress, 4), "2 of 8 runs, 12 s left");
        let soak = Progress::new(Length::Soak);
        soak.parts("runs", 9);
        assert_eq!(text(&soak, 5), "0 of 9 runs, no part is done that would tell the time left");
    }

    #[test]
    fn a_measurement_of_a_known_length_counts_down() {
        let progress = Progress::new(Length::Short);
        progress.until("two hogs", Duration::from_secs(11));
        assert_eq!(text(&progress, 4), "two hogs, 8 s left");
        assert_eq!(text(&progress, 40), "two hogs, 0 s left");
    }

    #[test]
    fn a_message_is_taken_once_by_whoever_shows_it() {
        let progress = Progress::new(Length::Short);
        progress.clone().say("no figures".to_owned());
        assert_eq!(progress.take_messages(), ["no figures"]);
        assert!(progress.take_messages().is_empty());
    }
}
