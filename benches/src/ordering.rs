//! How to keep a second order of a fair queue: the founding comparison of latency nice.
//!
//! A queue needs its first by vruntime and, of the latency-sensitive ones who just woke up, the first
//! by vruntime and offset. The patch set has a second tree for these; the alternative was one tree
//! whose nodes know the least of their subtrees. Here are both as models of the engine's queue
//! that take the same decisions (a test says so, and that the engine takes them too):
//!
//! * `two-heaps`: the engine's own heap twice, as the engine has it;
//! * `two-trees`: a balanced search tree twice, as the patch set has it;
//! * `augmented`: one such tree, augmented while anybody who waits is sensitive;
//! * `always-augmented`: the same at all times, as it was tried for the patch set;
//! * `one-heap` and `one-tree`: without a second order, which is right as long as nobody is sensitive.
//!
//! Left out is whatever needs no order: groups, other classes, other CPUs, EEVDF.

/// The engine's, and not a copy of it.
#[path = "../../crates/engine/src/heap.rs"]
#[cfg_attr(not(test), expect(dead_code, reason = "the engine needs more of it than the model"))]
mod heap;
mod tree;

use crate::cycle::{self, Host, Why};
use crate::rig::{Mix, Sensitive, config, nice_0};
use crate::{Operation, Runner};
use heap::{Forest, Heap, Index};
use runyard_engine::attr::LatencyNice;
use runyard_engine::config::Config;
use runyard_engine::features::Features;
use runyard_engine::time::{Nanos, VTime};
use tree::Tree;

/// Tasks in the queue, the running one included.
const QUEUED: [u32; 3] = [8, 64, 1_024];

/// The weight at which virtual time runs as fast as time.
const UNIT: u64 = 1_024;

/// A way to prepare turns of so many tasks.
type Form = fn(u32, Sensitive) -> Runner;

pub(crate) fn operations() -> Vec<Operation> {
    let (everywhere, nobody) = (&Sensitive::ALL[..], &[Sensitive::Nobody][..]);
    let forms: [(&str, Form, &[Sensitive]); 6] = [
        ("one-heap", turns::<Heaps<false>>, nobody),
        ("two-heaps", turns::<Heaps<true>>, everywhere),
        ("one-tree", turns::<Trees<false>>, nobody),
        ("two-trees", turns::<Trees<true>>, everywhere),
        ("augmented", turns::<Augmented<false>>, everywhere),
        ("always-augmented", turns::<Augmented<true>>, everywhere),
    ];
    let mut operations = Vec::new();
    for (form, turns, mixes) in forms {
        for &sensitive in mixes {
            for queued in QUEUED {
                let name = format!("ordering/{form}/{}/{queued}", sensitive.word());
                operations.push(Operation::new(name, move || turns(queued, sensitive)));
            }
        }
    }
    operations
}

fn turns<O: Order>(queued: u32, sensitive: Sensitive) -> Runner {
    cycle::turns(Model::<O>::new(queued, (sensitive, nice_0)), queued)
}

/// Who waits, in both orders. Who came first is first of equals.
trait Order: 'static {
    /// With room for so many tasks.
    fn new(len: usize) -> Self;

    /// Who is first by vruntime, and that.
    fn first(&self) -> Option<(Index, VTime)>;

    /// Who is first of those that have an urgent key.
    fn urgent(&self) -> Option<Index>;

    fn insert(&mut self, at: Index, vruntime: VTime, urgent: Option<VTime>);

    fn remove(&mut self, at: Index);
}

/// With or without a `SECOND` order.
struct Heaps<const SECOND: bool> {
    waiting: (Forest<(VTime, u64)>, Heap),
    urgent: (Forest<(VTime, u64)>, Heap),
    arrivals: u64,
}

impl<const SECOND: bool> Order for Heaps<SECOND> {
    fn new(len: usize) -> Self {
        let heap = || {
            let mut forest = Forest::new();
            forest.grow(len);
            (forest, Heap::default())
        };
        Heaps { waiting: heap(), urgent: heap(), arrivals: 0 }
    }

    fn first(&self) -> Option<(Index, VTime)> {
        let (forest, heap) = &self.waiting;
        heap.first().map(|at| (at, forest.key(at).0))
    }

    fn urgent(&self) -> Option<Index> {
        if SECOND { self.urgent.1.first() } else { None }
    }

    fn insert(&mut self, at: Index, vruntime: VTime, urgent: Option<VTime>) {
        self.arrivals += 1;
        let (forest, heap) = &mut self.waiting;
        forest.insert(heap, at, (vruntime, self.arrivals));
        if let Some(key) = urgent.filter(|_| SECOND) {
            let (forest, heap) = &mut self.urgent;
            forest.insert(heap, at, (key, self.arrivals));
        }
    }

    fn remove(&mut self, at: Index) {
        let (forest, heap) = &mut self.urgent;
        if SECOND && heap.first().is_some() && forest.contains(at) {
            forest.remove(heap, at);
        }
        let (forest, heap) = &mut self.waiting;
        forest.remove(heap, at);
    }
}

/// As [`Heaps`].
struct Trees<const SECOND: bool> {
    waiting: Tree<false>,
    urgent: Tree<false>,
}

impl<const SECOND: bool> Order for Trees<SECOND> {
    fn new(len: usize) -> Self {
        Trees { waiting: Tree::new(len), urgent: Tree::new(len) }
    }

    fn first(&self) -> Option<(Index, VTime)> {
        self.waiting.first().map(|at| (at, self.waiting.key(at)))
    }

    fn urgent(&self) -> Option<Index> {
        if SECOND { self.urgent.first() } else { None }
    }

    fn insert(&mut self, at: Index, vruntime: VTime, urgent: Option<VTime>) {
        self.waiting.insert(at, vruntime, None);
        if let Some(key) = urgent.filter(|_| SECOND) {
            self.urgent.insert(at, key, None);
        }
    }

    fn remove(&mut self, at: Index) {
        if SECOND && self.urgent.first().is_some() && self.urgent.contains(at) {
            self.urgent.remove(at);
        }
        self.waiting.remove(at);
    }
}

/// `ALWAYS` or while anybody is sensitive: who is not has the offset 0 then, and the first of all is
/// one that would not be chosen for being sensitive.
struct Augmented<const ALWAYS: bool>(Tree<true>);

impl<const ALWAYS: bool> Order for Augmented<ALWAYS> {
    fn new(len: usize) -> Self {
        Augmented(Tree::new(len))
    }

    fn first(&self) -> Option<(Index, VTime)> {
        self.0.first().map(|at| (at, self.0.key(at)))
    }

    fn urgent(&self) -> Option<Index> {
        self.0.first_urgent()
    }

    fn insert(&mut self, at: Index, vruntime: VTime, urgent: Option<VTime>) {
        self.0.insert(at, vruntime, urgent.or(ALWAYS.then_some(vruntime)));
    }

    fn remove(&mut self, at: Index) {
        self.0.remove(at);
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    vruntime: VTime,
    weight: u32,
    /// Less than zero for who is sensitive.
    offset: i64,
    ran_since_pick: u64,
    is_new: bool,
    /// It has an urgent key while it waits.
    urgent: bool,
}

/// The fair queue of a CPU, as `cfs.rs` of the engine has it.
struct Model<O> {
    order: O,
    members: Vec<Member>,
    curr: Option<Index>,
    now: Nanos,
    /// Since when the first is passed over, and who got its turn since that was too long.
    passed_over: Option<Nanos>,
    owed: Option<Index>,
    clock: VTime,
    load: u64,
    nr: u32,
    config: Config,
    /// By how much the running task may be ahead at the most, and what a sleeper is credited.
    most: i64,
    credit: u64,
}

impl<O: Order> Model<O> {
    fn new(queued: u32, (sensitive, policy): Mix) -> Model<O> {
        let config = config(1, Features::default());
        let member = |id| Member {
            vruntime: VTime(0),
            weight: policy(id).weight().get(),
            offset: config.latency_offset(sensitive.latency_nice(id)),
            ran_since_pick: 0,
            is_new: true,
            urgent: false,
        };
        let most = config.latency_max();
        Model {
            order: O::new(2 * queued as usize),
            members: (0..2 * queued).map(member).collect(),
            curr: None,
            now: Nanos::ZERO,
            passed_over: None,
            owed: None,
            clock: VTime(0),
            load: 0,
            nr: 0,
            most,
            credit: most.cast_unsigned() + config.min_granularity.0,
            config,
        }
    }

    fn place(&self, at: Index) -> VTime {
        let member = self.member(at);
        if !member.is_new {
            return member.vruntime.max(self.clock.before(self.credit));
        }
        if self.nr == 0 {
            return self.clock;
        }
        let (weight, least) = (u64::from(member.weight), self.config.min_granularity.0);
        let period = self.config.latency.0.max(u64::from(self.nr + 1) * least);
        let slice = (period * weight / (self.load + weight)).max(least);
        let mut debit = member.virtual_span(slice);
        if member.offset < 0 {
            let granularity = member.virtual_span(self.config.wakeup_granularity.0);
            let lowest = self.config.latency_offset(LatencyNice::MIN).unsigned_abs();
            let most = lowest.checked_sub(granularity + 1);
            debit = debit.min(most.unwrap_or(u64::MAX));
        }
        self.clock.after(debit)
    }

    fn insert(&mut self, at: Index, woken: bool) {
        let Member { vruntime, offset, ran_since_pick, .. } = *self.member(at);
        let first = woken || ran_since_pick < self.config.min_granularity.0;
        let urgent = (offset < 0 && first).then(|| vruntime.after(offset.cast_unsigned()));
        self.members[at as usize].urgent = urgent.is_some();
        self.order.insert(at, vruntime, urgent);
    }

    fn choose(&mut self) -> Index {
        let (first, _) = self.order.first().expect("somebody waits");
        let urgent = self.order.urgent();
        let urgent = urgent.filter(|&at| at != first && !self.preempts(at, first));
        if (urgent, self.passed_over, self.owed) == (None, None, None) {
            return first;
        }
        let since = self.passed_over;
        let overdue = since.is_some_and(|since| self.now - since >= self.config.latency);
        let (urgent, both) = (urgent.filter(|_| !overdue), self.member(first).urgent);
        self.passed_over = match urgent {
            Some(_) => since.or(Some(self.now)),
            None => since.filter(|_| !overdue || both),
        };
        self.owed = Some(first).filter(|_| overdue && !both);
        urgent.unwrap_or(first)
    }

    /// Whether `other` would preempt `curr`.
    fn preempts(&self, curr: Index, other: Index) -> bool {
        let (curr, other) = (self.member(curr), self.member(other));
        let ahead = curr.vruntime.diff(other.vruntime);
        let granularity = other.virtual_span(self.config.wakeup_granularity.0).cast_signed();
        // Nobody here has an offset above zero, so two that can wait need not be told apart.
        let offset = (other.offset - curr.offset).min(self.most);
        ahead >= offset && ahead > offset.saturating_add(granularity).min(self.most)
    }

    fn advance_clock(&mut self) {
        let first = self.order.first().map(|(_, vruntime)| vruntime);
        let curr = self.curr.map(|at| self.member(at).vruntime);
        let least = match (first, curr) {
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return,
        };
        self.clock = self.clock.max(least);
    }

    fn member(&self, at: Index) -> &Member {
        &self.members[at as usize]
    }
}

impl Member {
    fn virtual_span(&self, span: u64) -> u64 {
        if u64::from(self.weight) == UNIT { span } else { span * UNIT / u64::from(self.weight) }
    }
}

impl<O: Order> Host for Model<O> {
    fn run(&mut self, span: Nanos) {
        self.now += span;
        let Some(curr) = self.curr else { return };
        let member = &mut self.members[curr as usize];
        member.vruntime = member.vruntime.after(member.virtual_span(span.0));
        member.ran_since_pick += span.0;
        self.advance_clock();
    }

    fn wake(&mut self, task: u32) -> bool {
        let (vruntime, weight) = (self.place(task), u64::from(self.member(task).weight));
        let member = &mut self.members[task as usize];
        let woken = !member.is_new;
        (member.vruntime, member.is_new) = (vruntime, false);
        self.load += weight;
        self.nr += 1;
        self.insert(task, woken);
        self.curr.is_some_and(|curr| {
            let had = self.member(curr).ran_since_pick >= self.config.min_granularity.0;
            self.preempts(curr, task) && (had || self.owed != Some(curr))
        })
    }

    fn switch(&mut self, why: Why) -> u32 {
        match (self.curr.take(), why) {
            (None, _) => {}
            (Some(curr), Why::Preempted) => self.insert(curr, false),
            (Some(curr), Why::Blocked) => {
                self.load -= u64::from(self.member(curr).weight);
                self.nr -= 1;
                if self.member(curr).offset >= 0 {
                    self.passed_over = None;
                }
                self.advance_clock();
            }
        }
        let next = self.choose();
        self.order.remove(next);
        self.members[next as usize].ran_since_pick = 0;
        self.curr = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Cycle;
    use crate::latency::Engine;
    use crate::rig::of_two_weights;

    /// Each task has some tens of turns.
    const TURNS: u32 = 20_000;

    #[test]
    fn all_forms_choose_whom_the_engine_chooses() {
        for sensitive in Sensitive::ALL {
            for queued in QUEUED {
                agree(queued, (sensitive, nice_0));
                agree(queued, (sensitive, of_two_weights));
            }
        }
    }

    fn agree(queued: u32, mix: Mix) {
        let mut engine = Cycle::new(Engine::new(queued, Features::default(), mix), queued);
        let mut heaps = Cycle::new(Model::<Heaps<true>>::new(queued, mix), queued);
        let mut trees = Cycle::new(Model::<Trees<true>>::new(queued, mix), queued);
        let mut tree = Cycle::new(Model::<Augmented<false>>::new(queued, mix), queued);
        let mut always = Cycle::new(Model::<Augmented<true>>::new(queued, mix), queued);
        let (mut preempted, mut ahead) = (0, 0);
        for turn in 0..TURNS {
            let expected = engine.turn();
            let of = |form| format!("{form}: turn {turn}, {:?} of {queued}", mix.0);
            assert_eq!(heaps.turn(), expected, "{}", of("two heaps"));
            assert_eq!(trees.turn(), expected, "{}", of("two trees"));
            assert_eq!(tree.turn(), expected, "{}", of("augmented"));
            assert_eq!(always.turn(), expected, "{}", of("always augmented"));
            preempted += expected.preempted;
            let first = tree.host.order.first().expect("others wait").1;
            ahead += u32::from(tree.host.member(expected.next).vruntime > first);
        }
        assert!(preempted > 0 && preempted < TURNS, "some wake-ups preempt");
        assert_eq!(ahead > 0, mix.0 != Sensitive::Nobody, "the second order is used");
    }
}
