//! Perfetto's format. Each CPU has a lane, and the states of each task are generic kernel events. Arrows go from the
//! waking task to the woken one. The scheduler's own work, timer expiries, throttled times and forced idle times are
//! tracks beside them.
//!
//! The end of a state is the next state, so the trace ends with a mark at the end of the run. Rejected: ftrace events
//! in protocol buffers, which Perfetto decodes by the version of the kernel and calls unstable; a crate with all of
//! Perfetto's messages, which takes a minute to build.

use super::cast::{Cast, tid};
use super::pen::Pen;
use super::scene::{Scene, Scheduled};
use super::schema::{
    Data, Kind, Process, ProcessTree, State, TaskState, Thread, ThreadDescriptor, Trace,
    TracePacket, TrackDescriptor, TrackEvent,
};
use prost::Message;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::Left;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The sequence of all packets: there is one writer.
const SEQUENCE: u32 = 1;

/// A line of the picture besides those of CPUs and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Run,
    Schedulers,
    Timers,
    Throttled,
    Forced,
    SchedulerOf(CpuId),
    TimersOf(CpuId),
    ThrottledOn(CpuId, GroupId),
    ForcedOn(CpuId),
    Task(TaskId),
}

/// Whether a mark is an end of an arrow.
#[derive(Clone, Copy, Debug)]
enum Flow {
    None,
    From(u64),
    To(u64),
}

impl Track {
    /// The number of the line in the trace.
    fn uuid(self) -> u64 {
        let of = |kind: u64, cpu: CpuId| kind << 56 | 1 << 55 | cpu.index() as u64;
        match self {
            Track::Run => 1,
            Track::Schedulers => 2,
            Track::Timers => 3,
            Track::Throttled => 4,
            Track::Forced => 5,
            Track::SchedulerOf(cpu) => of(1, cpu),
            Track::TimersOf(cpu) => of(2, cpu),
            Track::ThrottledOn(cpu, group) => of(3, cpu) | (group.index() as u64) << 16,
            Track::Task(task) => 4 << 56 | task.0,
            Track::ForcedOn(cpu) => of(5, cpu),
        }
    }

    fn parent(self) -> Option<Track> {
        match self {
            Track::SchedulerOf(_) => Some(Track::Schedulers),
            Track::TimersOf(_) => Some(Track::Timers),
            Track::ThrottledOn(..) => Some(Track::Throttled),
            Track::ForcedOn(_) => Some(Track::Forced),
            Track::Run
            | Track::Schedulers
            | Track::Timers
            | Track::Throttled
            | Track::Forced
            | Track::Task(_) => None,
        }
    }
}

/// Writes packets one after the other.
pub(super) struct Writer<W> {
    out: W,
    cast: Cast,
    now: Time,
    /// The tracks that the trace has declared.
    declared: BTreeSet<Track>,
    /// The number of arrows.
    flows: u64,
}

impl<W: Write> Pen for Writer<W> {
    fn cast(&mut self) -> &mut Cast {
        &mut self.cast
    }

    fn tell(&mut self, now: Time, scene: &Scene, scheduled: Scheduled) -> io::Result<()> {
        self.now = now;
        match scheduled {
            Scheduled::Born(task) => self.state(task, State::Sleeping, None),
            Scheduled::Woken { task, by, .. } => {
                self.state(task, State::Runnable, None)?;
                self.arrow(scene, by, task)
            }
            Scheduled::Switched { cpu, prev, next } => {
                if let Some((task, left)) = prev {
                    let state = match left {
                        Left::Preempted | Left::Yielded => State::Runnable,
                        Left::Blocked => State::Sleeping,
                        Left::Exited => State::Dead,
                    };
                    self.state(task, state, Some(cpu))?;
                }
                next.map_or(Ok(()), |task| self.state(task, State::Running, Some(cpu)))
            }
            Scheduled::Overhead { cpu, begins } => {
                self.slice(Track::SchedulerOf(cpu), "scheduler", begins)
            }
            Scheduled::ForcedIdle { cpu, cookie, begins } => {
                let cookie = self.cast.cookie(cookie).map(|cookie| format!(" ({cookie})"));
                let name = format!("forced idle{}", cookie.unwrap_or_default());
                self.slice(Track::ForcedOn(cpu), &name, begins)
            }
            Scheduled::Throttling { cpu, group, begins } => {
                let path = self.cast.group(group).to_owned();
                self.slice(Track::ThrottledOn(cpu, group), &path, begins)
            }
            Scheduled::Changed(nth) => {
                let change = self.cast.change_in_words(nth).to_owned();
                self.mark(Track::Run, &change, Flow::None)
            }
            Scheduled::Expired { cpu, greedy } => {
                let name = if greedy { "timer, greedily" } else { "timer" };
                self.mark(Track::TimersOf(cpu), name, Flow::None)
            }
        }
    }

    fn end(mut self, now: Time, _: &Scene) -> io::Result<()> {
        self.now = now;
        self.mark(Track::Run, "the run ends", Flow::None)?;
        self.out.flush()
    }
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, cast: Cast) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, cast, now: Time::ZERO, declared: BTreeSet::new(), flows: 0 };
        writer.process_tree()?;
        Ok(writer)
    }

    fn packet(&mut self, timestamp: Option<Time>, data: Data) -> io::Result<()> {
        let packet = TracePacket {
            timestamp: timestamp.map(|at| at.0),
            trusted_packet_sequence_id: Some(SEQUENCE),
            data: Some(data),
        };
        self.out.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
    }

    fn process_tree(&mut self) -> io::Result<()> {
        let process = |(pid, name): (i32, String)| Process {
            pid: Some(pid.into()),
            ppid: Some(0),
            cmdline: Some(name),
        };
        let thread = |task| Thread {
            tid: Some(tid(task)),
            pid: Some(self.cast.process_of(task).into()),
            comm: Some(self.cast.name(task)),
        };
        let tree = ProcessTree {
            processes: self.cast.processes().map(process).collect(),
            threads: self.cast.tasks().map(thread).collect(),
        };
        self.packet(Some(Time::ZERO), Data::ProcessTree(tree))
    }

    /// Writes a task's state. `cpu` is the CPU that the task has, or had until now.
    fn state(&mut self, task: TaskId, state: State, cpu: Option<CpuId>) -> io::Result<()> {
        let event = TaskState {
            cpu: cpu.map(|cpu| cpu.index() as i32),
            comm: Some(self.cast.name(task)),
            tid: Some(tid(task)),
            state: Some(state.into()),
            prio: Some(self.cast.prio(task)),
        };
        self.packet(Some(self.now), Data::TaskState(event))
    }

    /// Draws an arrow from the waking task to the woken one.
    fn arrow(&mut self, scene: &Scene, by: Option<TaskId>, woken: TaskId) -> io::Result<()> {
        let Some(by) = by.filter(|&by| scene.cpu_of(by).is_some()) else { return Ok(()) };
        self.flows += 1;
        let flow = self.flows;
        let (wakes, is_woken) = (self.cast.name(woken), self.cast.name(by));
        self.mark(Track::Task(by), &format!("wakes {wakes}"), Flow::From(flow))?;
        self.mark(Track::Task(woken), &format!("woken by {is_woken}"), Flow::To(flow))
    }

    fn mark(&mut self, track: Track, name: &str, flow: Flow) -> io::Result<()> {
        let (from, to) = match flow {
            Flow::None => (Vec::new(), Vec::new()),
            Flow::From(flow) => (vec![flow], Vec::new()),
            Flow::To(flow) => (Vec::new(), vec![flow]),
        };
        let event = TrackEvent {
            kind: Some(Kind::Instant.into()),
            name: Some(name.to_owned()),
            flow_ids: from,
            terminating_flow_ids: to,
            ..TrackEvent::default()
        };
        self.on(track, event)
    }

    fn slice(&mut self, track: Track, name: &str, begins: bool) -> io::Result<()> {
        let event = match begins {
            true => TrackEvent {
                kind: Some(Kind::SliceBegin.into()),
                name: Some(name.to_owned()),
                ..TrackEvent::default()
            },
            false => TrackEvent { kind: Some(Kind::SliceEnd.into()), ..TrackEvent::default() },
        };
        self.on(track, event)
    }

    fn on(&mut self, track: Track, event: TrackEvent) -> io::Result<()> {
        self.declare(track)?;
        let event = TrackEvent { track_uuid: Some(track.uuid()), ..event };
        self.packet(Some(self.now), Data::TrackEvent(event))
    }

    /// Declares a track before its first event.
    fn declare(&mut self, track: Track) -> io::Result<()> {
        if !self.declared.insert(track) {
            return Ok(());
        }
        if let Some(parent) = track.parent() {
            self.declare(parent)?;
        }
        let name = match track {
            Track::Run => Some(self.cast.run.clone()),
            Track::Schedulers => Some("Scheduler's own work".to_owned()),
            Track::Timers => Some("Timer expiries".to_owned()),
            Track::Throttled => Some("Throttled".to_owned()),
            Track::Forced => Some("Forced idle".to_owned()),
            Track::SchedulerOf(cpu) | Track::TimersOf(cpu) | Track::ForcedOn(cpu) => {
                Some(format!("CPU {cpu}"))
            }
            Track::ThrottledOn(cpu, group) => {
                Some(format!("{} on CPU {cpu}", self.cast.group(group)))
            }
            Track::Task(_) => None,
        };
        let thread = match track {
            Track::Task(task) => Some(ThreadDescriptor {
                pid: Some(self.cast.process_of(task)),
                tid: Some(tid(task)),
            }),
            _ => None,
        };
        let descriptor = TrackDescriptor {
            uuid: Some(track.uuid()),
            name,
            thread,
            parent_uuid: track.parent().map(Track::uuid),
        };
        self.packet(None, Data::TrackDescriptor(descriptor))
    }
}
