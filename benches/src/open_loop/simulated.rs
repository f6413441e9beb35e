//! The same requests in the simulator, on the same number of CPUs. A task of the same priority accepts them and forks a
//! task for each when it is due. So the curve has the modelled cost of decisions, or none, and no noise of a real
//! machine.

use super::CPUS;
use super::ask::{ACCEPTS, Ask, fifo};
use super::trace::Trace;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Options, Sim};
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Costs, SpecId, Step, TimerMode, TimerRef};
use runyard_workload::{Overrides, Scenario, parse};

/// Number of the accepting task's thread object; those of the kinds follow.
const ACCEPTS_THEM: usize = 0;

/// Answers every request in virtual time and returns the end of each. `costs` selects the simulator's cost model or
/// none.
pub(crate) fn simulated(trace: &Trace, ask: Ask, costs: bool) -> Vec<Nanos> {
    let mut scenario = scenario(trace, ask);
    if !costs {
        scenario.machine.costs = Costs::FREE;
    }
    let mut ends = vec![None; trace.requests.len()];
    let observe = |event: &Event| {
        // Tasks are numbered in order of creation: the accepting task, then its requests.
        if let What::Switch { prev: Some((task, Left::Exited)), .. } = event.what
            && let Some(nth) = task.index().checked_sub(1)
        {
            ends[nth] = Some(event.at.since(Time::ZERO));
        }
    };
    let sim = Sim::new(&scenario, Options::default(), observe);
    sim.expect("the machine does not contradict itself").run();
    ends.into_iter().map(|end| end.expect("every request ends")).collect()
}

/// Returns the scenario: the accepting task sleeps until the next request is due, and forks it.
fn scenario(trace: &Trace, ask: Ask) -> Scenario {
    let mut scenario = blank(trace.mix.kinds().len());
    for (kind, task) in scenario.tasks[ACCEPTS_THEM + 1..].iter_mut().enumerate() {
        let class = trace.mix.class(kind);
        task.properties.policy = Some(ask.policy(class));
        task.properties.latency_nice = Some(ask.latency_nice(class));
        task.phases[0].steps = [Step::Run(Draw::Fixed(trace.mix.kinds()[kind].service))].into();
    }
    let accepts = &mut scenario.tasks[ACCEPTS_THEM];
    accepts.properties.policy = Some(fifo(ACCEPTS));
    let mut last = Nanos::ZERO;
    let steps = trace.requests.iter().flat_map(|request| {
        let gap = request.arrival - std::mem::replace(&mut last, request.arrival);
        let timer = TimerRef::Unique(0);
        let kind = (ACCEPTS_THEM + 1 + request.kind) as u32;
        [
            Step::Timer { timer, period: Draw::Fixed(gap), mode: TimerMode::Absolute },
            Step::Fork(SpecId(kind)),
        ]
    });
    accepts.phases[0].steps = steps.collect();
    scenario
}

/// Returns a scenario with one task and `kinds` templates. Each template runs once, with a placeholder of 1 us.
fn blank(kinds: usize) -> Scenario {
    let templates: String = (0..kinds)
        .map(|kind| format!(r#", "{kind}": {{"instance": 0, "loop": 1, "run": 1}}"#))
        .collect();
    let text = format!(
        r#"{{"machine": {{"cpus": {CPUS}}},
            "tasks": {{"accepts": {{"loop": 1, "run": 1}}{templates}}}}}"#
    );
    let parsed = parse("open-loop", &text, &Overrides::default());
    parsed.expect("it is a scenario").scenario
}

#[cfg(test)]
mod tests {
    use super::super::mix::Mix;
    use super::super::slowdown::Round;
    use super::*;

    fn p999(trace: &Trace, ask: Ask, costs: bool) -> f64 {
        let round = Round::new(trace, &simulated(trace, ask, costs));
        assert!(round.achieved > 0.97, "{ask:?}: {round:?}");
        round.all.p999.expect("there are enough requests")
    }

    /// Expected figures from preemption.md 2.4 at B1 0.5: 5682 for c-FCFS, 2.8 for a separate class.
    #[test]
    fn a_class_of_its_own_keeps_short_requests_from_waiting_for_long_ones() {
        let trace = Trace::draw(Mix::B1, 0.5, Nanos::from_secs(2), 1);
        let class = p999(&trace, Ask::ShortRt, true);
        assert!((1.0..10.0).contains(&class), "{class}");
        let fair = p999(&trace, Ask::Fair, true);
        assert!(fair > 50.0, "{fair}");
        let fcfs = p999(&trace, Ask::Fcfs, false);
        assert!((2_000.0..12_000.0).contains(&fcfs), "{fcfs}");
    }

    #[test]
    fn a_request_alone_takes_its_service_time() {
        let trace = Trace::draw(Mix::B4, 0.01, Nanos::from_secs(1), 1);
        let ends = simulated(&trace, Ask::Fair, false);
        let exact = trace
            .requests
            .iter()
            .zip(&ends)
            .filter(|(request, end)| **end - request.arrival == trace.service(**request));
        let exact = exact.count();
        assert!(exact * 10 > trace.requests.len() * 9, "{exact} of {}", trace.requests.len());
    }
}
