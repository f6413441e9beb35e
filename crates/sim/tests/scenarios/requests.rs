//! Requests from outside: they come at their times, wake or start a task, and end the run.

use crate::rig::{Run, ms, us, world};
use runyard_engine::event::{Event, What};
use runyard_engine::time::Time;

/// The times of the requests, each with whether it was refused.
fn requests(run: &Run) -> Vec<(Time, bool)> {
    let request = |event: &Event| match event.what {
        What::Arrived { refused, .. } => Some((event.at, refused)),
        _ => None,
    };
    run.events.iter().filter_map(request).collect()
}

#[test]
fn a_request_wakes_a_worker_at_its_time() {
    let run = world().millis(20).run_text(
        "{'arrivals': {'in': {'times': [1000, 5000, 5100, 5200.5], 'sem_post': 'work', 'bound': 1}},
          'tasks': {'worker': {'sem_wait': 'work', 'run': 500}}}",
    );
    let all = [(ms(1), false), (ms(5), false), (us(5_100), false), (Time(5_200_500), true)];
    run.is("requests", requests(&run).as_slice(), all);
    let wakes = run.events.iter().filter_map(|event| match event.what {
        What::Wake { since, by: None, .. } => Some(since),
        _ => None,
    });
    run.is("wake-ups", wakes.collect::<Vec<_>>().as_slice(), [Time::ZERO, ms(1), ms(5)]);
    run.is("waits in vain", run.outcome.left.lines.len(), 0);
}

#[test]
fn a_request_may_have_a_task_of_its_own() {
    let run = world().cpus(2).run_text(
        "{'arrivals': {'in': {'times': [1000, 1100, 1200, 3000], 'fork': 'request', 'bound': 2}},
          'tasks': {'request': {'instance': 0, 'loop': 1, 'policy': 'SCHED_FIFO', 'run': 1000}}}",
    );
    let refused = requests(&run).iter().map(|&(_, refused)| refused).collect::<Vec<_>>();
    run.is("refused", refused.as_slice(), [false, false, true, false]);
    let names = run.outcome.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>();
    run.is("tasks", names.as_slice(), ["request-0000", "request-0001", "request-0002"]);
    run.is("the run ends with the last request", run.outcome.end, ms(4));
}

#[test]
fn arrivals_are_the_same_under_each_policy() {
    let times = |cpus, policy: &str| {
        let text = format!(
            "{{'arrivals': {{'a': {{'rate': 900, 'sem_post': 'work'}},
                             'b': {{'every': {{'weibull': [900, 0.7]}}, 'fork': 'request', 'bound': 3}}}},
               'tasks': {{'worker': {{'instance': 2, 'policy': '{policy}', 'sem_wait': 'work', 'run': {{'exponential': 900}}}},
                          'request': {{'instance': 0, 'loop': 1, 'lock': 'm', 'run': 300, 'unlock': 'm', 'sleep': 200}}}}}}"
        );
        let run = world().cpus(cpus).costs_of_the_text().millis(300).run_text(&text);
        requests(&run).into_iter().map(|(at, _)| at).collect::<Vec<_>>()
    };
    let first = times(1, "SCHED_OTHER");
    assert!((450..650).contains(&first.len()), "{}", first.len());
    assert_eq!(first, times(4, "SCHED_FIFO"));
}
