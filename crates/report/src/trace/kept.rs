//! The events of a run, kept for its trace.
//!
//! The store grows by pieces, so that no event waits while millions of earlier ones are copied.

use runyard_engine::event::Event;

/// The number of events in a piece: 3 MB of them.
const PIECE: usize = 1 << 16;

/// Events in the order of their arrival.
#[derive(Debug, Default)]
pub struct Kept(Vec<Vec<Event>>);

impl Kept {
    /// Adds an event behind the others.
    pub fn push(&mut self, event: &Event) {
        if self.0.last().is_none_or(|piece| piece.len() == PIECE) {
            self.0.push(Vec::with_capacity(PIECE));
        }
        self.0.last_mut().expect("there is one now").push(*event);
    }

    /// The events in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().flatten()
    }

    /// The same events in order of time. Events of one time keep their order.
    #[must_use]
    pub fn in_order(self) -> Kept {
        let mut all: Vec<_> = self.0.into_iter().flatten().collect();
        all.sort_by_key(|event| event.at);
        Kept(vec![all])
    }
}
