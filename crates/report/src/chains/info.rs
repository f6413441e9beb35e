//! The facts about chains that come from the scenario.

use runyard_engine::time::Nanos;

/// A chain, by the numbers of the threads of its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainInfo {
    /// Its name.
    pub name: String,
    /// The threads of each place.
    pub places: Vec<Vec<u32>>,
    /// Whether a token ends with the first of its copies, not with the last.
    pub first: bool,
    /// The numbers of the arrivals with which its tokens begin; with wake-ups if there are none.
    pub arrivals: Vec<u32>,
    /// The largest allowed time of a token.
    pub deadline: Option<Nanos>,
}

impl ChainInfo {
    pub(super) fn begins_with_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }
}

/// The effect of a program's step on tokens. Objects with odd numbers serve waiting tasks in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hand {
    /// None.
    #[default]
    Neither,
    /// The step leaves as many units in the object of this number.
    Puts(u32, u64),
    /// The step takes as many units from that object, perhaps after a wait.
    Takes(u32, u64),
    /// The step takes a mutex, perhaps after a wait.
    Locks,
}

impl Hand {
    pub(super) fn takes_from(self) -> Option<u32> {
        if let Hand::Takes(object, _) = self { Some(object) } else { None }
    }
}
