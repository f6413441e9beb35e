//! The text format of the kernel's own tracer (`/sys/kernel/tracing/trace`): a line for each event of the scheduler,
//! with the fields of Linux 6.18.
//!
//! Times have nine decimals, as the kernel's have with a clock of nanoseconds. Readers split a line at its spaces, so
//! names have none here. A line begins with the task on the CPU. A wake-up that no task caused is shown as an
//! interrupt's (`h` in the third flag). Throttled times are counters, as trace markers. Forced idle times are comments,
//! since the CPU is idle then to the kernel.

use super::cast::{Cast, DEFAULT_PRIO, tid};
use super::pen::Pen;
use super::scene::{Scene, Scheduled};
use runyard_engine::attr::Cookie;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::Left;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use std::fmt::{Arguments, Display};
use std::io::{self, Write};

const HEADER: &str = "\
# tracer: nop
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

/// The flags of a line that a task caused, and of one that an interrupt caused.
const TASK: &str = "d..2.";
const INTERRUPT: &str = "d.h2.";

/// Writes lines.
pub(super) struct Writer<W> {
    out: W,
    cast: Cast,
    now: Time,
}

impl<W: Write> Pen for Writer<W> {
    fn cast(&mut self) -> &mut Cast {
        &mut self.cast
    }

    fn tell(&mut self, now: Time, scene: &Scene, scheduled: Scheduled) -> io::Result<()> {
        self.now = now;
        match scheduled {
            Scheduled::Born(_) | Scheduled::Overhead { .. } => Ok(()),
            Scheduled::Woken { task, by, cpu, new } => self.woken(scene, (task, by), cpu, new),
            Scheduled::Switched { cpu, prev, next } => {
                let left = prev.map_or("R", |(_, left)| letter(left));
                let prev = prev.map(|(task, _)| task);
                let (from, to) = (self.person(prev, cpu), self.person(next, cpu));
                self.line(
                    prev,
                    cpu,
                    TASK,
                    format_args!(
                        "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={left} \
                         ==> next_comm={} next_pid={} next_prio={}",
                        from.comm, from.pid, from.prio, to.comm, to.pid, to.prio
                    ),
                )
            }
            Scheduled::ForcedIdle { cpu, cookie, begins } => self.forced_idle(cpu, cookie, begins),
            Scheduled::Throttling { cpu, group, begins } => {
                // A bar separates the fields of a marker.
                let path = word(self.cast.group(group)).replace('|', "_");
                let begins = u8::from(begins);
                self.line(
                    scene.curr(cpu),
                    cpu,
                    INTERRUPT,
                    format_args!("tracing_mark_write: C|0|throttled_CPU{cpu}_{path}|{begins}"),
                )
            }
            Scheduled::Changed(nth) => {
                let (change, cpu) = (self.cast.change_in_words(nth).to_owned(), CpuId(0));
                self.line(scene.curr(cpu), cpu, INTERRUPT, format_args!("print: {change}"))
            }
            Scheduled::Expired { cpu, .. } => {
                let now = self.now.0;
                self.line(
                    scene.curr(cpu),
                    cpu,
                    INTERRUPT,
                    format_args!(
                        "hrtimer_expire_entry: hrtimer=0 function=hrtimer_wakeup now={now}"
                    ),
                )
            }
        }
    }

    fn end(mut self, now: Time, scene: &Scene) -> io::Result<()> {
        self.now = now;
        let cpu = CpuId(0);
        self.line(scene.curr(cpu), cpu, INTERRUPT, format_args!("print: the run ends"))?;
        self.out.flush()
    }
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, cast: Cast) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, cast, now: Time::ZERO };
        writer.out.write_all(HEADER.as_bytes())?;
        Ok(writer)
    }

    fn woken(
        &mut self,
        scene: &Scene,
        (task, by): (TaskId, Option<TaskId>),
        target: CpuId,
        new: bool,
    ) -> io::Result<()> {
        let woken = self.person(Some(task), target);
        let waker = by.and_then(|by| scene.cpu_of(by));
        let (from, flags) = waker.map_or((target, INTERRUPT), |cpu| (cpu, TASK));
        let second = if new { "sched_wakeup_new" } else { "sched_wakeup" };
        for name in ["sched_waking", second] {
            self.line(
                scene.curr(from),
                from,
                flags,
                format_args!(
                    "{name}: comm={} pid={} prio={} target_cpu={:03}",
                    woken.comm,
                    woken.pid,
                    woken.prio,
                    target.index()
                ),
            )?;
        }
        Ok(())
    }

    fn forced_idle(&mut self, cpu: CpuId, cookie: Option<Cookie>, begins: bool) -> io::Result<()> {
        let how = match (begins, self.cast.cookie(cookie)) {
            (false, _) => "no longer".to_owned(),
            (true, None) => "while its core runs tasks without a cookie".to_owned(),
            (true, Some(cookie)) => format!("while its core runs tasks of cookie {cookie}"),
        };
        writeln!(self.out, "# {}: CPU {cpu} is forced idle {how}", stamp(self.now))
    }

    /// A line of an event on `cpu` while the CPU belonged to `task`, or was idle.
    fn line(
        &mut self,
        task: Option<TaskId>,
        cpu: CpuId,
        flags: &str,
        what: Arguments<'_>,
    ) -> io::Result<()> {
        let (comm, pid) = match task {
            Some(task) => (word(&self.cast.name(task)), tid(task)),
            None => ("<idle>".to_owned(), 0),
        };
        let (cpu, at) = (cpu.index(), stamp(self.now));
        writeln!(self.out, "{comm:>16}-{pid:<7} [{cpu:03}] {flags} {at:>15}: {what}")
    }

    fn person(&self, task: Option<TaskId>, cpu: CpuId) -> Person {
        match task {
            Some(task) => Person {
                comm: word(&self.cast.name(task)),
                pid: tid(task),
                prio: self.cast.prio(task),
            },
            None => Person { comm: format!("swapper/{cpu}"), pid: 0, prio: DEFAULT_PRIO },
        }
    }
}

/// The fields of events that name a task.
struct Person {
    comm: String,
    pid: i64,
    prio: i32,
}

/// A time in the kernel's form: seconds with nine decimals.
fn stamp(at: Time) -> String {
    format!("{}.{:09}", at.0 / 1_000_000_000, at.0 % 1_000_000_000)
}

/// The kernel's letter for the state in which a task left its CPU.
fn letter(left: Left) -> &'static str {
    match left {
        Left::Preempted => "R+",
        Left::Yielded => "R",
        Left::Blocked => "S",
        Left::Exited => "X",
    }
}

/// A name without spaces.
fn word(name: &(impl Display + ?Sized)) -> String {
    name.to_string().replace(char::is_whitespace, "_")
}
