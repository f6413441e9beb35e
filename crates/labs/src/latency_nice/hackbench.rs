//! hackbench as a scenario: groups of senders and receivers. Each sender writes to each receiver of its group in turn,
//! over one socket for each receiver.

use super::shipped;
use crate::setting::Setting;
use runyard_workload::Scenario;
use runyard_workload::scenario::{ObjectId, Step, TaskSpec};

/// The number of senders of a group, and of its receivers, as in hackbench.
pub(super) const FAN: u32 = 20;

/// The indices in the shipped scenario of the parts that it is made from.
const SENDER: usize = 1;
const RECEIVER: usize = 2;

/// hackbench with this number of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hackbench {
    pub(crate) groups: u32,
    /// The number of messages that each sender writes to each receiver; without an end if `None`.
    pub(crate) loops: Option<u32>,
}

impl Hackbench {
    /// The number of all messages, if it is finite.
    pub(super) fn messages(self) -> Option<u64> {
        self.loops.map(|loops| u64::from(self.groups * loops) * u64::from(FAN * FAN))
    }

    /// A scenario with only hackbench.
    pub(super) fn alone(self) -> Setting {
        shipped().edit(move |scenario| {
            (scenario.tasks, scenario.objects.pipes) = (Vec::new(), Vec::new());
            scenario.duration = None;
            self.add_to(scenario);
        })
    }

    /// Adds it to the tasks of a scenario.
    pub(crate) fn add_to(self, scenario: &mut Scenario) {
        let templates =
            shipped().scenario().expect("the scenario that comes with the program is right");
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

/// Its name in rows.
pub(super) fn name(groups: u32) -> String {
    let plural = if groups == 1 { "" } else { "s" };
    format!("hackbench of {groups} group{plural}")
}

/// Sets the number of loops. A thread without phases has a single phase, which repeats its steps. With a number the
/// thread itself runs once, otherwise without an end.
fn set_loops(task: &mut TaskSpec, loops: Option<u32>) {
    (task.loops, task.phases[0].loops) = (loops.map(|_| 1), loops.or(Some(1)));
}

/// The same step with another socket.
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

    #[test]
    fn each_sender_writes_to_each_receiver_of_its_group() {
        let hackbench = Hackbench { groups: 2, loops: Some(3) };
        let scenario = hackbench.alone().scenario().unwrap();
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
        let endless = Hackbench { groups: 1, loops: None }.alone().scenario().unwrap();
        let template = &shipped().scenario().unwrap().tasks[SENDER];
        let loops = |task: &TaskSpec| (task.loops, task.phases[0].loops);
        assert!(endless.tasks.iter().all(|task| loops(task) == loops(template)));
    }
}
