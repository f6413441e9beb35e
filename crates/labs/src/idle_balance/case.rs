//! The machines and tasks of the experiment, each a variant of one scenario, and their runs.

use crate::usage::{SECOND, Usage, Used, Window};
use crate::virtual_time::{self, simulate};
use runyard_engine::attr::{GroupId, Nice, Policy, Weight};
use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Preemption, Step, TaskGroup};

/// The scenario: the soakers, one for each CPU, and the normal task.
const SCENARIO: &str = include_str!("../../scenarios/idle-balance.json");
const SOAKER: usize = 0;
const NORMAL: usize = 1;

/// The time by which the last normal task has come, with any seed.
const BEGUN: Nanos = Nanos::from_secs(1);

/// The time that the balancer has from then until seconds are counted. The document was measured minutes after the
/// start. A balancer gives up on a CPU after some failures, and on a large machine it tries once in some seconds. With
/// less time, "before" would look better than it becomes.
const SETTLE: Nanos = Nanos::from_secs(10);

/// The weight of the soakers' group, over all CPUs: the least possible, as in the document.
const SOAKERS_WEIGHT: i64 = 2;

/// The length of a system call, and of the work before it, where half of the work is in the kernel.
const IN_KERNEL: Nanos = Nanos::from_millis(2);

/// A machine, and the number of normal tasks beside its soakers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) nodes: u32,
    pub(super) cores: u32,
    pub(super) normal: u32,
    pub(super) light: Light,
    /// Half of all work is in the kernel, of this preemption model; otherwise none is.
    pub(super) kernel: Option<Preemption>,
    /// The number of counted seconds.
    pub(super) seconds: u32,
}

/// The reason why the soakers weigh next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Light {
    /// They are SCHED_IDLE tasks.
    Policy,
    /// They are normal tasks in a task group of weight 2; the normal task's group has 1024.
    Group,
}

/// The results of a case.
#[derive(Clone, Debug)]
pub(super) struct CaseShares {
    pub(super) used: Used,
    /// The fraction of the time that each normal task executed.
    pub(super) shares: Vec<f64>,
}

/// The runs without the balancer and with it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) before: CaseShares,
    pub(super) after: CaseShares,
}

impl Case {
    /// The document's machine with its normal task.
    pub(super) const DOCUMENTS: Case =
        Case { nodes: 4, cores: 4, normal: 1, light: Light::Policy, kernel: None, seconds: 10 };

    pub(super) fn cpus(&self) -> u32 {
        self.nodes * self.cores
    }

    /// The case's name in claims.
    pub(super) fn name(&self) -> String {
        let cpus = self.cpus();
        match (self.light, self.normal) {
            (Light::Group, _) => {
                format!(
                    "{cpus} CPUs, groups of weight {SOAKERS_WEIGHT} and {}",
                    Weight::NICE_0.get()
                )
            }
            (Light::Policy, 1) if self.kernel.is_some() => {
                let model = self.kernel.map(|it| it.to_string()).unwrap_or_default();
                format!("{cpus} CPUs, 1 normal task, half in a kernel of preemption {model}")
            }
            (Light::Policy, 0) => format!("{cpus} CPUs, no normal task"),
            (Light::Policy, 1) => format!("{cpus} CPUs, 1 normal task"),
            (Light::Policy, normal) => format!("{cpus} CPUs, {normal} normal tasks"),
        }
    }

    /// Runs the case with this seed, without the balancer and with it; it calls `done` after each run.
    pub(super) fn pair(&self, seed: u64, done: impl Fn() + Sync) -> Result<Pair, Failure> {
        let run = |model| self.run(model, seed).inspect(|_| done());
        let (before, after) =
            rayon::join(|| run(Experiment::IdleBalance.before()), || run(Model::default()));
        Ok(Pair { before: before?, after: after? })
    }

    pub(super) fn run(&self, model: Model, seed: u64) -> Result<CaseShares, Failure> {
        let scenario = self.scenario(model)?;
        let window = self.window();
        let mut usage = Usage::new(window, SECOND, self.cpus() as usize);
        simulate(&scenario, seed, &mut usage)?;
        let used = usage.finish(window.end);
        // Tasks are numbered in the order of the file.
        let normal = (self.cpus()..self.cpus() + self.normal).map(|task| task as usize);
        let share = |task| used.of(task..task + 1).0 as f64 / window.span().0 as f64;
        Ok(CaseShares { shares: normal.map(share).collect(), used })
    }

    pub(super) fn window(&self) -> Window {
        Window::of_seconds(BEGUN + SETTLE, self.seconds)
    }

    /// The scenario of this case, on any host.
    pub(super) fn scenario(&self, model: Model) -> Result<Scenario, Failure> {
        let mut scenario = shipped();
        scenario.use_model(model);
        scenario.machine.topology =
            Topology::new(self.nodes, self.cores, 1).map_err(Failure::input)?;
        scenario.duration = Some(self.window().end.since(Time::ZERO));
        scenario.tasks[SOAKER].instances = self.cpus();
        // A thread without an instance could still be forked, which no task does.
        scenario.tasks[NORMAL].instances = self.normal;
        if self.light == Light::Group {
            in_groups(&mut scenario);
        }
        if let Some(preemption) = self.kernel {
            scenario.machine.preemption = preemption;
            for task in &mut scenario.tasks {
                let half = Draw::Fixed(IN_KERNEL);
                task.phases[0].steps = [Step::Run(half), Step::Kernel(half)].into();
            }
        }
        Ok(scenario)
    }
}

/// Makes soakers and normal tasks differ only in their groups.
fn in_groups(scenario: &mut Scenario) {
    let weight = Weight::new(SOAKERS_WEIGHT).expect("a group may weigh so little");
    for (task, path, weight) in [(SOAKER, "/soakers", weight), (NORMAL, "/normal", Weight::NICE_0)]
    {
        let group = GroupId(scenario.groups.len() as u32);
        let spec = GroupSpec { weight, ..GroupSpec::ROOT };
        scenario.groups.push(TaskGroup { path: path.to_owned(), spec, cpuset: None });
        let properties = &mut scenario.tasks[task].properties;
        properties.group = Some(group);
        properties.policy = Some(Policy::Normal(Nice::default()));
    }
}

/// The shipped scenario: the document's own case.
fn shipped() -> Scenario {
    virtual_time::shipped("idle-balance.json", SCENARIO)
}

impl CaseShares {
    /// The least fraction of a CPU that a normal task gets.
    pub(super) fn least_share(&self) -> Option<f64> {
        self.shares.iter().copied().min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(light: Light) -> Case {
        Case { nodes: 1, cores: 2, light, seconds: 1, ..Case::DOCUMENTS }
    }

    #[test]
    fn the_shipped_scenario_is_the_documents_case() {
        let (shipped, made) = (shipped(), Case::DOCUMENTS.scenario(Model::default()).unwrap());
        assert_eq!(format!("{made:?}"), format!("{shipped:?}"));
        let Draw::Uniform(_, latest) = shipped.tasks[NORMAL].delay else { panic!("a random one") };
        assert_eq!(latest, BEGUN);
    }

    #[test]
    fn in_groups_nothing_but_the_group_tells_soakers_from_normal_tasks() {
        let scenario = small(Light::Group).scenario(Model::default()).unwrap();
        let of = |task: usize| {
            let properties = &scenario.tasks[task].properties;
            let group = &scenario.groups[properties.group.unwrap().index()];
            (properties.policy.unwrap(), &*group.path, group.spec.weight.get())
        };
        let normal = Policy::Normal(Nice::default());
        assert_eq!(of(SOAKER), (normal, "/soakers", 2));
        assert_eq!(of(NORMAL), (normal, "/normal", 1024));
    }

    #[test]
    fn every_task_that_executes_is_in_the_rows() {
        for light in [Light::Policy, Light::Group] {
            let Pair { before, after } = small(light).pair(1, || ()).unwrap();
            for measured in [before, after] {
                let sum = measured.used.sum();
                let share = measured.least_share().unwrap();
                assert_eq!(measured.shares.len(), 1);
                match light {
                    Light::Policy => {
                        assert!(sum.idle_policy > Nanos::ZERO, "{sum:?}");
                        assert_eq!(sum.normal.0, (share * 1e9).round() as u64);
                    }
                    Light::Group => assert_eq!(sum.idle_policy, Nanos::ZERO),
                }
                assert!(sum.interrupts > 1_000, "a busy CPU has a tick of 1 ms: {sum:?}");
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_run_again_and_another_gives_another() {
        let used = |seed| small(Light::Policy).pair(seed, || ()).unwrap().after.used;
        assert_eq!(used(1), used(1));
        assert_ne!(used(1), used(2));
    }
}
