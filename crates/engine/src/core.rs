//! Core scheduling, as in Linux since 5.14: the hardware threads of a core run only tasks that
//! trust each other.
//!
//! Tasks with different [cookies](crate::attr::Cookie) never run on one core at the same time. So
//! the threads of a core decide together. Each makes an [`Offer`] of its best task. The cookie of
//! the most important one is that of the core until the next decision ([`Core`]). A thread runs its
//! best task of that cookie, or is *forced idle*. The run queue's part is in `run_queue/class/beside.rs`.
//! The machine, which holds a lock of the core, asks the threads.
//!
//! Two fair tasks in different run queues are compared by their progress since the first comparison
//! (`cfs_prio_less`). The progress is the vruntime less the virtual clock of its queue at the start
//! of the *episode*. An episode lasts as long as any thread of the core is forced idle.

use crate::attr::{Cookie, GroupId, LatencyNice, RtPrio};
use crate::config::Config;
use crate::features::Feature;
use std::cmp::Ordering;

/// The class of a task, in the order of a core (`prio_less`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Fair,
    Rt(RtPrio),
    /// A fair task that precedes real-time ones, because of the fair server.
    Served,
}

/// The place of a fair task, or of a group above it, in the queue where it competes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// The group of the queue.
    pub(crate) group: GroupId,
    /// The lead of its vruntime over the clock of the queue at the start of the episode.
    pub(crate) lead: i64,
    pub(crate) latency_nice: LatencyNice,
}

/// The best task of a hardware thread, whatever its cookie; or none.
#[derive(Debug, Default)]
pub struct Offer {
    pub(crate) rank: Option<Rank>,
    pub(crate) cookie: Option<Cookie>,
    /// The levels of a fair task, from its own queue up to the root queue.
    pub(crate) levels: Vec<Level>,
}

impl Offer {
    /// Makes this the offer of a thread without a task.
    pub(crate) fn clear(&mut self) {
        (self.rank, self.cookie) = (None, None);
        self.levels.clear();
    }

    /// Returns whether it is less important than another one (`prio_less`).
    fn is_less_than(&self, other: &Offer, config: &Config) -> bool {
        match self.rank.cmp(&other.rank) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.is_ahead_of(other, config),
        }
    }

    /// Returns whether a fair task is ahead of another one, in the lowest group that is above both.
    /// With `CORE_LATENCY` the latency nice of both moves the margin.
    fn is_ahead_of(&self, other: &Offer, config: &Config) -> bool {
        let in_group = |own: &Level| other.levels.iter().find(|it| it.group == own.group);
        let common = self.levels.iter().find_map(|own| Some((own, in_group(own)?)));
        let Some((own, theirs)) = common else { return false };
        let offset = match core_latency(config) {
            true => config.relative_offset(own.latency_nice, theirs.latency_nice),
            false => 0,
        };
        own.lead.saturating_sub(theirs.lead).saturating_sub(offset) > 0
    }
}

/// Returns whether latency nice matters between the threads of a core.
pub(crate) fn core_latency(config: &Config) -> bool {
    [Feature::LatencyNice, Feature::CoreLatency].into_iter().all(|it| config.features.has(it))
}

/// The last decision of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// The cookie of the core; `None` if no thread had any task.
    runs: Option<Option<Cookie>>,
    /// Whether a thread is forced idle.
    in_episode: bool,
    /// The number of episodes, including the current one.
    episodes: u64,
    /// The number of decisions.
    decisions: u64,
}

impl Core {
    /// Returns the cookie of the core, which may be none; `None` if no thread has any task.
    #[must_use]
    pub fn runs(&self) -> Option<Option<Cookie>> {
        self.runs
    }

    /// Returns how often its threads decided.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Returns whether any of its threads is forced idle.
    #[must_use]
    pub fn is_in_episode(&self) -> bool {
        self.in_episode
    }

    /// Returns the number of the current episode, or of the next one; and whether it lasts.
    pub(crate) fn episode(&self) -> (u64, bool) {
        (self.episodes + u64::from(!self.in_episode), self.in_episode)
    }

    /// Notes after a decision whether any thread is forced idle by it.
    pub fn note_forced(&mut self, any: bool) {
        self.episodes += u64::from(any && !self.in_episode);
        self.in_episode = any;
    }
}

/// The offers by which a core decides, and its decision.
#[derive(Debug, Default)]
pub struct Decision {
    /// The last decision.
    pub core: Core,
    /// The offer of the thread that decides.
    pub(crate) own: Offer,
    /// The offers of the other threads, the next thread first.
    pub others: Vec<Offer>,
}

impl Decision {
    /// Returns the data for a core with `others` threads beside the one that decides.
    #[must_use]
    pub fn among(others: usize) -> Decision {
        let others = (0..others).map(|_| Offer::default()).collect();
        Decision { others, ..Decision::default() }
    }

    /// Makes room for tasks in groups up to this depth. Up to it, offers allocate nothing.
    pub fn reserve(&mut self, depth: usize) {
        for Offer { levels, .. } in self.others.iter_mut().chain([&mut self.own]) {
            levels.reserve_exact((depth + 1).saturating_sub(levels.len()));
        }
    }

    /// Chooses the most important offer. Among equals the deciding thread comes first, then the
    /// next one.
    pub(crate) fn decide(&mut self, config: &Config) {
        let more =
            |best, offer| if Offer::is_less_than(best, offer, config) { offer } else { best };
        let best = self.others.iter().fold(&self.own, more);
        self.core.decisions += 1;
        self.core.runs = best.rank.map(|_| best.cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    const MS: i64 = 1_000_000;

    fn fair(cookie: u32, levels: &[(u32, i64, i64)]) -> Offer {
        let level = |&(group, lead, nice)| Level {
            group: GroupId(group),
            lead,
            latency_nice: LatencyNice::new(nice).unwrap(),
        };
        let levels = levels.iter().map(level).collect();
        Offer { rank: Some(Rank::Fair), cookie: Cookie::new(cookie), levels }
    }

    fn rt(cookie: u32, prio: i64) -> Offer {
        let rank = RtPrio::new(prio).map(Rank::Rt);
        Offer { rank, cookie: Cookie::new(cookie), levels: Vec::new() }
    }

    /// Returns the cookie of a core of eight CPUs after these offers; the first is that of the
    /// deciding thread.
    fn decided(config: &Config, offers: [Offer; 2]) -> Option<u32> {
        let [own, other] = offers;
        let mut decision = Decision { own, others: vec![other], ..Decision::default() };
        decision.decide(config);
        decision.core.runs().map(|cookie| cookie.map_or(0, Cookie::get))
    }

    #[test]
    fn the_class_decides_first_then_the_priority_then_the_lead() {
        let config = Config::new(Topology::new(1, 4, 2).unwrap());
        let ask = |own, other| decided(&config, [own, other]);
        assert_eq!(ask(Offer::default(), Offer::default()), None);
        assert_eq!(ask(Offer::default(), fair(2, &[(0, 5, 0)])), Some(2));
        assert_eq!(ask(fair(1, &[(0, -9, 0)]), rt(2, 1)), Some(2));
        assert_eq!(ask(rt(1, 5), rt(2, 5)), Some(1), "of equals that of the deciding thread");
        assert_eq!(ask(rt(1, 5), rt(2, 6)), Some(2));
        let served = || Offer { rank: Some(Rank::Served), ..fair(2, &[(0, 5, 0)]) };
        assert_eq!(ask(rt(1, 99), served()), Some(2));
        assert_eq!(ask(fair(1, &[(0, 5, 0)]), fair(2, &[(0, 4, 0)])), Some(2));
        assert_eq!(ask(fair(1, &[(0, 5, 0)]), fair(0, &[(0, 5, 0)])), Some(1));
        // The lowest group above both is 3, not the root.
        let a = fair(1, &[(7, -8, 0), (3, 2, 0), (0, 0, 0)]);
        assert_eq!(ask(a, fair(2, &[(3, 1, 0), (0, 9, 0)])), Some(2));
    }

    /// Patch 7: on eight CPUs the offset at -20 is -12 ms, and that at 19 is 11.4 ms, of which at
    /// most 9 ms count.
    #[test]
    fn latency_nice_moves_the_comparison_with_core_latency_alone() {
        let mut config = Config::new(Topology::new(1, 4, 2).unwrap());
        let ask = |config: &Config, ahead, ours, theirs| {
            decided(config, [fair(1, &[(0, 0, ours)]), fair(2, &[(0, ahead, theirs)])])
        };
        assert_eq!(ask(&config, 11 * MS, 0, -20), Some(2), "though it had 11 ms more");
        assert_eq!(ask(&config, 13 * MS, 0, -20), Some(1));
        assert_eq!(ask(&config, -8 * MS, 0, 19), Some(1), "though it had 8 ms less");
        assert_eq!(ask(&config, -10 * MS, 0, 19), Some(2));
        for feature in [Feature::CoreLatency, Feature::LatencyNice] {
            config.features = Config::new(config.topology).features.without(feature);
            assert_eq!(ask(&config, 11 * MS, 0, -20), Some(1));
            assert_eq!(ask(&config, -8 * MS, 0, 19), Some(2));
        }
    }

    #[test]
    fn an_episode_is_counted_once() {
        let mut core = Core::default();
        assert_eq!(core.episode(), (1, false));
        core.note_forced(true);
        core.note_forced(true);
        assert_eq!(core.episode(), (1, true));
        core.note_forced(false);
        assert_eq!(core.episode(), (2, false));
    }
}
