//! The laws that hold after every action, and those that hold once no kick is pending.

use super::{Op, Payload, World};
use runyard_engine::account::Account;
use runyard_engine::attr::{Attr, GroupId};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Feature;
use runyard_engine::limits::LATEST_REFILL;
use runyard_engine::run_queue::{Importance, Resched};
use runyard_engine::task::Task;

/// The features without which a real-time task may wait although a CPU runs a less important one.
pub(super) const NEEDED: [Feature; 3] =
    [Feature::RtPush, Feature::RtPull, Feature::RtPushPastStuck];

impl World {
    /// Checks the laws that hold after every action: the structure, the conservation of tasks, and that each requested
    /// switch has a pending kick.
    pub(super) fn check(&self, after: Op) {
        self.machine.check();
        let mut held = self.moving.len();
        for cpu in self.all() {
            let known = &self.cpus[cpu.index()];
            self.machine.cpu(cpu).inspect(|rq| {
                held += rq.tasks().iter().count();
                let running = known.running.as_ref().map(|&(id, _)| id);
                let curr = rq.tasks().curr().map(|task| task.id);
                assert_eq!(curr, running, "CPU {cpu} runs one task, after {after:?}\n{rq}");
                let owed = rq.resched() == Resched::No || known.kicked;
                assert!(owed, "CPU {cpu} was not kicked to switch, after {after:?}\n{rq}");
                assert_eq!(rq.site().is_online(), known.online);
                let waiting = rq.tasks().iter().filter(|(_, task)| Some(task.id) != curr).count();
                assert!(
                    known.online || waiting == 0,
                    "CPU {cpu} is offline, after {after:?}\n{rq}"
                );
                assert!(
                    known.online || curr.is_none() || known.kicked,
                    "offline, after {after:?}\n{rq}"
                );
            });
            self.timers.check(&self.machine, cpu);
        }
        for task in &self.tasks {
            held += usize::from(task.over) + usize::from(task.parked.is_some());
        }
        assert_eq!(held, self.tasks.len(), "tasks are conserved, after {after:?}");
        self.check_accounts(after);
    }

    /// Asserts that the accounts of the CPUs equal those of the tasks, including the tasks that have ended.
    fn check_accounts(&self, after: Op) {
        let (mut by_cpus, mut by_tasks) = (Account::default(), Account::default());
        let mut add = |task: &Task<Payload>| by_tasks.add(&task.account());
        for cpu in self.all() {
            self.machine.cpu(cpu).inspect(|rq| {
                by_cpus.add(&rq.time().account());
                rq.tasks().iter().for_each(|(_, task)| add(task));
            });
        }
        self.moving.iter().for_each(|moving| add(moving.task()));
        self.tasks.iter().filter_map(|task| task.parked.as_deref()).for_each(&mut add);
        for cpu in self.all() {
            self.machine.cpu(cpu).inspect(|rq| by_tasks.add(&rq.time().ended()));
        }
        assert_eq!(by_cpus, by_tasks, "the accounts are conserved, after {after:?}");
    }

    /// Checks the laws of a machine at rest.
    pub(super) fn check_laws(&self) {
        self.check(Op::Settle);
        for cpu in self.all() {
            self.check_cpu(cpu);
        }
        // CPUs look for the budget of a new period one after another.
        let soon = self.now + LATEST_REFILL;
        let looks = |cpu| self.machine.sight().next_expiry(cpu).is_some_and(|at| at <= soon);
        for group in (1..4).map(GroupId).filter(|_| !self.all().any(looks)) {
            let stranded = self.machine.waits_in_vain(self.now, group);
            assert_eq!(stranded, None, "{group:?} waits with budget left");
        }
        if self.machine.config().cookies {
            super::cores::check(&self.machine);
        } else if NEEDED.into_iter().all(|feature| self.features.has(feature)) {
            self.check_priorities();
        }
    }

    /// Asserts that a CPU with work runs it, and that each task has the attributes requested.
    fn check_cpu(&self, cpu: CpuId) {
        self.machine.cpu(cpu).inspect(|rq| {
            assert_eq!(rq.resched(), Resched::No, "all kicks were served\n{rq}");
            let throttled =
                rq.site().is_online() && rq.classes().load().importance == Importance::Closed;
            let idle = rq.tasks().curr().is_none() && rq.queues().competing().count() > 0;
            let excused = throttled || rq.classes().forced_idle().is_some();
            assert!(!idle || excused, "CPU {cpu} idles\n{rq}");
            for (_, task) in rq.tasks().iter() {
                let known = &self.tasks[task.id.index()];
                let (attr, asked) = (task.attr(), &known.asked);
                assert!(attr.affinity.contains(cpu), "{} may not be here\n{rq}", task.id);
                assert_eq!((attr.policy, attr.group), (asked.policy, asked.group), "{}", task.id);
                let latency = |attr: &Attr| (attr.latency_nice, attr.slice, attr.cookie);
                assert_eq!(latency(attr), latency(asked), "{}", task.id);
                assert_eq!(task.class(), asked.policy.class().boosted(known.boost), "{}", task.id);
                let freed = known.homeless && attr.affinity == *self.machine.all();
                assert!(attr.affinity == asked.affinity || freed, "{} has its CPUs", task.id);
            }
        });
    }

    /// Asserts that no CPU on which a waiting real-time task may run does less important work. A CPU that serves fair
    /// tasks first is exempt: its waiting real-time tasks are not entitled to another CPU.
    fn check_priorities(&self) {
        let importance = |cpu| {
            self.machine.cpu(cpu).inspect(|rq| match rq.classes().is_serving() {
                true => Importance::Closed,
                false => rq.classes().load().importance,
            })
        };
        let levels: Vec<_> = self.all().map(importance).collect();
        for cpu in self.all().filter(|cpu| levels[cpu.index()] != Importance::Closed) {
            let running = self.cpus[cpu.index()].running.as_ref().map(|&(id, _)| id);
            self.machine.cpu(cpu).inspect(|rq| {
                for (_, task) in
                    rq.queues().competing().filter(|(_, task)| Some(task.id) != running)
                {
                    let Some(prio) = task.class().push_prio() else { continue };
                    let less = |on: &CpuId| {
                        levels.get(on.index()).is_some_and(|&l| l < Importance::Rt(prio))
                    };
                    let wasted = task.attr().affinity.iter().find(less);
                    assert_eq!(wasted, None, "{} waits for nothing\n{rq}\n{levels:?}", task.id);
                }
            });
        }
    }
}
