//! Core scheduling, as in Linux since 5.14: the hardware threads of a core run only tasks that trust each other.
//!
//! Tasks with different [cookies](crate::attr::Cookie) never run on one core at the same time. So the threads of a core
//! decide together. Each names its best task in an [`Offer`]; the cookie of the most important one is the core's until
//! the next decision ([`Core`]). A thread runs its best task of that cookie, or is *forced idle*. The part of a
//! run queue in that is in `run_queue/beside.rs`; the machine, which holds a lock of the core, asks the threads.
//!
//! Which of two fair tasks in different run queues is more important follows from how far each has come since both
//! were compared first (`cfs_prio_less`): its vruntime, less the virtual clock that its queue had when the *episode* began.
//! An episode lasts as long as any thread of the core is forced idle.

use crate::attr::{Cookie, GroupId, LatencyNice, RtPrio};
use crate::config::Config;
use crate::features::Feature;
use std::cmp::Ordering;

/// The class of a task, as a core orders them (`prio_less`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Fair,
    Rt(RtPrio),
    /// A fair task that goes before real-time ones, by the fair server.
    Served,
}

/// How a fair task, or a group above it, stands in the queue in which it competes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// The group to which the queue belongs.
    pub(crate) group: GroupId,
    /// Its vruntime beyond the clock of the queue at the begin of the episode.
    pub(crate) lead: i64,
    pub(crate) latency_nice: LatencyNice,
}

/// The best task of a hardware thread, whatever its cookie, or none.
#[derive(Debug, Default)]
pub struct Offer {
    pub(crate) rank: Option<Rank>,
    pub(crate) cookie: Option<Cookie>,
    /// Of a fair task, from its own queue up to that of the root.
    pub(crate) levels: Vec<Level>,
}

impl Offer {
    /// The thread has no task.
    pub(crate) fn clear(&mut self) {
        (self.rank, self.cookie) = (None, None);
        self.levels.clear();
    }

    /// Whether it is less important than another one (`prio_less`).
    fn is_less_than(&self, other: &Offer, config: &Config) -> bool {
        match self.rank.cmp(&other.rank) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.is_ahead_of(other, config),
        }
    }

    /// Whether a fair task has come further than another one, in the lowest group that is above both; with
    /// `CORE_LATENCY`, further than what the two want of each other.
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

/// Whether latency nice matters between the threads of a core.
pub(crate) fn core_latency(config: &Config) -> bool {
    [Feature::LatencyNice, Feature::CoreLatency].into_iter().all(|it| config.features.has(it))
}

/// The last decision of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// The cookie of what it runs; `None` if no thread had any task.
    runs: Option<Option<Cookie>>,
    /// A thread is forced idle.
    in_episode: bool,
    /// Counts the episodes, the one that lasts included.
    episodes: u64,
    /// Counts the decisions.
    decisions: u64,
}

impl Core {
    /// The cookie of what the core runs, which may be none; `None` if no thread has any task.
    #[must_use]
    pub fn runs(&self) -> Option<Option<Cookie>> {
        self.runs
    }

    /// How often its threads decided.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Whether any of its threads is forced idle.
    #[must_use]
    pub fn is_in_episode(&self) -> bool {
        self.in_episode
    }

    /// The number of the episode that lasts, or that would begin next; and whether it lasts.
    pub(crate) fn episode(&self) -> (u64, bool) {
        (self.episodes + u64::from(!self.in_episode), self.in_episode)
    }

    /// After a decision: says whether any thread is forced idle by it.
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
    /// The offer of the thread that asks.
    pub(crate) own: Offer,
    /// Those of the other threads, the next one first.
    pub others: Vec<Offer>,
}

impl Decision {
    /// For a core with so many other threads beside the one that asks.
    #[must_use]
    pub fn among(others: usize) -> Decision {
        let others = (0..others).map(|_| Offer::default()).collect();
        Decision { others, ..Decision::default() }
    }

    /// Makes room for tasks in groups that are nested so deep. Up to that, offers allocate nothing.
    pub fn reserve(&mut self, depth: usize) {
        for Offer { levels, .. } in self.others.iter_mut().chain([&mut self.own]) {
            levels.reserve_exact((depth + 1).saturating_sub(levels.len()));
        }
    }

    /// Of equals the offer of the thread that asks is the most important, then that of the next.
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

    /// The cookie that a core of eight CPUs runs by these offers, of which the first is that of the thread that asks.
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
        assert_eq!(ask(rt(1, 5), rt(2, 5)), Some(1), "of equals that of the thread that asks");
        assert_eq!(ask(rt(1, 5), rt(2, 6)), Some(2));
        let served = || Offer { rank: Some(Rank::Served), ..fair(2, &[(0, 5, 0)]) };
        assert_eq!(ask(rt(1, 99), served()), Some(2));
        assert_eq!(ask(fair(1, &[(0, 5, 0)]), fair(2, &[(0, 4, 0)])), Some(2));
        assert_eq!(ask(fair(1, &[(0, 5, 0)]), fair(0, &[(0, 5, 0)])), Some(1));
        // In the lowest group above both: in 3, not in the root.
        let a = fair(1, &[(7, -8, 0), (3, 2, 0), (0, 0, 0)]);
        assert_eq!(ask(a, fair(2, &[(3, 1, 0), (0, 9, 0)])), Some(2));
    }

    /// Patch 7: the offset at -20 is -12 ms on eight CPUs, that at 19 is 11.4 ms and at most 9 ms count.
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
