//! hackbench, as a scenario: groups of senders and receivers, each sender writing to each receiver
//! of its group in turn, a socket for each receiver.

use super::shipped::shipped;
use runyard_workload::Scenario;
use runyard_workload::scenario::{ObjectId, Step, TaskSpec};

/// How many senders a group has, and how many receivers: hackbench's own number.
pub(super) const FAN: u32 = 20;

/// The places of what it is made from in the shipped scenario.
const SENDER: usize = 1;
const RECEIVER: usize = 2;

/// So many groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hackbench {
    pub(crate) groups: u32,
    /// How many messages each sender writes to each receiver; for ever if `None`.
    pub(crate) loops: Option<u32>,
}

impl Hackbench {
    /// How many messages are sent in all, if that ever ends.
    pub(super) fn messages(self) -> Option<u64> {
        self.loops.map(|loops| u64::from(self.groups * loops) * u64::from(FAN * FAN))
    }

    /// Puts it beside the tasks that are there.
    pub(crate) fn add_to(self, scenario: &mut Scenario) {
        let templates = shipped();
        let (_, capacity) = templates.objects.pipes[0];
        for group in 0..self.groups {
            let first = scenario.objects.pipes.len() as u32;
            let sockets = || (0..FAN).map(|nth| ObjectId(first + nth));
            let name = |nth| format!("socket-{group}-{nth}");
            scenario.objects.pipes.extend((0..FAN).map(|nth| (name(nth), capacity)));

            let mut sender = templates.tasks[SENDER].clone();
            (sender.name, sender.instances) = (format!("sender-{group}"), FAN);
            set_loops(&mut sender, self.loops);
            let message = std::mem::take(&mut sender.phases[0].steps);
            let to = |socket| message.iter().map(move |step| through(step, socket));
            sender.phases[0].steps = sockets().flat_map(to).collect();
            scenario.tasks.push(sender);

            for (nth, socket) in sockets().enumerate() {
                let mut receiver = templates.tasks[RECEIVER].clone();
                (receiver.name, receiver.instances) = (format!("receiver-{group}-{nth}"), 1);
                set_loops(&mut receiver, self.loops.map(|loops| loops * FAN));
                receiver.phases[0].steps.change(|step| through(step, socket));
                scenario.tasks.push(receiver);
            }
        }
    }
}

/// The steps of a thread without phases are gone through as often as its only phase; the thread
/// itself once then, else for ever.
fn set_loops(task: &mut TaskSpec, loops: Option<u32>) {
    (task.loops, task.phases[0].loops) = (loops.map(|_| 1), loops.or(Some(1)));
}

/// The step with another socket.
fn through(step: Step, socket: ObjectId) -> Step {
    match step {
        Step::Send { bytes, .. } => Step::Send { pipe: socket, bytes },
        Step::Recv { bytes, .. } => Step::Recv { pipe: socket, bytes },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario of nothing but this.
    fn only(hackbench: Hackbench) -> Scenario {
        let mut scenario = shipped();
        (scenario.tasks, scenario.objects.pipes) = (Vec::new(), Vec::new());
        hackbench.add_to(&mut scenario);
        scenario
    }

    #[test]
    fn each_sender_writes_to_each_receiver_of_its_group() {
        let hackbench = Hackbench { groups: 2, loops: Some(3) };
        let scenario = only(hackbench);
        let [mut sent, mut received] = [(); 2].map(|()| vec![0; scenario.objects.pipes.len()]);
        for task in &scenario.tasks {
            let times = task.instances * task.phases[0].loops.unwrap() * task.loops.unwrap();
            for step in task.phases[0].steps.iter() {
                match step {
                    Step::Send { pipe, .. } => sent[pipe.0 as usize] += times,
                    Step::Recv { pipe, .. } => received[pipe.0 as usize] += times,
                    _ => {}
                }
            }
        }
        assert_eq!(sent, [FAN * 3; 2 * FAN as usize]);
        assert_eq!(sent, received);
        assert_eq!(hackbench.messages(), Some(u64::from(sent.iter().sum::<u32>())));
        assert_eq!(scenario.instances().count(), 2 * 2 * FAN as usize);
    }

    #[test]
    fn it_goes_on_for_ever_if_nothing_else_is_said() {
        let hackbench = Hackbench { groups: 1, loops: None };
        assert_eq!(hackbench.messages(), None);
        let scenario = only(hackbench);
        let template = &shipped().tasks[SENDER];
        let loops = |task: &TaskSpec| (task.loops, task.phases[0].loops);
        for task in &scenario.tasks {
            assert_eq!(loops(task), loops(template));
        }
    }
}
