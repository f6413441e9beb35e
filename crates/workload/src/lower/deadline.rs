//! The keys of SCHED_DEADLINE: the reservation of a deadline task, or the slice of a fair task.
//!
//! As in rt-app, the deadline defaults to the period, and the period to the runtime. A thread object has older names
//! for all three; of these, `runtime` is also an event. For a fair task, `dl-runtime` is the slice, which the kernel
//! clamps (`__setparam_fair` of kernel/sched/syscalls.c, Linux 6.12 to 6.18).

use super::duration::{micros, slice};
use super::policy::PolicyName;
use super::tasks::{Fields, Reader};
use crate::diagnostic::Fault;
use crate::json::{Member, Node};
use crate::overrides::DeadlinePolicy;
use crate::scenario::Reservation;
use runyard_engine::attr::Slice;
use runyard_engine::time::Nanos;

/// The members of a thread or phase object that concern deadlines.
#[derive(Default)]
pub(super) struct DeadlineFields<'v> {
    /// Whether the object is a thread.
    of_thread: bool,
    runtime: Option<Member<'v>>,
    deadline: Option<Member<'v>>,
    period: Option<Member<'v>>,
    /// The older names of a thread object.
    old_deadline: Option<Member<'v>>,
    old_period: Option<Member<'v>>,
}

impl<'v> DeadlineFields<'v> {
    pub(super) fn of(thread: bool) -> DeadlineFields<'v> {
        DeadlineFields { of_thread: thread, ..DeadlineFields::default() }
    }

    /// Takes a member that is one of these.
    pub(super) fn take(&mut self, member: Member<'v>) -> bool {
        let field = match &*member.key() {
            "dl-runtime" => &mut self.runtime,
            "dl-deadline" => &mut self.deadline,
            "dl-period" => &mut self.period,
            "deadline" if self.of_thread => &mut self.old_deadline,
            "period" if self.of_thread => &mut self.old_period,
            _ => return false,
        };
        *field = Some(member);
        true
    }

    fn all(&self) -> impl Iterator<Item = Member<'v>> + use<'v> {
        let all = [self.runtime, self.deadline, self.period, self.old_deadline, self.old_period];
        all.into_iter().flatten()
    }
}

impl<'v> Reader<'_, 'v> {
    /// Returns the slice that an object asks for under the policy at this point of the file, and whether it has a
    /// reservation.
    pub(super) fn deadlines(
        &mut self,
        fields: &Fields<'v>,
    ) -> Result<(Option<Slice>, bool), Fault> {
        // An invalid value is an error even if it has no effect.
        fields.deadline.all().try_for_each(|member| micros(member.value).map(drop))?;
        let own = fields.slice.map(slice).transpose()?;
        if let Some(node) = fields.slice {
            self.takes_slices(node.at());
        }
        if self.policy == PolicyName::Deadline {
            let reserves = self.reserve(fields)?;
            return Ok((own, reserves));
        }
        self.reservation = None;
        let fair = matches!(self.policy, PolicyName::Other | PolicyName::Batch);
        let keys = &fields.deadline;
        let asked = keys.runtime.filter(|_| fair);
        let rest = keys.all().find(|member| asked.is_none_or(|asked| asked.at != member.at));
        if let Some(member) = rest {
            self.context.warnings.once(member, "has no effect on a task of this policy");
        }
        match (own, asked) {
            (_, None) => Ok((own, false)),
            (Some(_), Some(asked)) => {
                Err(Fault::new(asked.at, "`slice` and `dl-runtime` in one object"))
            }
            (None, Some(asked)) => {
                self.takes_slices(asked.at);
                Ok((clamped(micros(asked.value)?), false))
            }
        }
    }

    /// Checks that a task of SCHED_DEADLINE has a reservation.
    pub(super) fn needs_reservation(
        &self,
        member: Member<'v>,
        fields: &Fields<'v>,
    ) -> Result<(), Fault> {
        let native = self.context.deadline == DeadlinePolicy::Native;
        if native && self.policy == PolicyName::Deadline && self.reservation.is_none() {
            let at = fields.policy.map_or(member.at, Node::at);
            return Err(Fault::new(at, "SCHED_DEADLINE needs a `dl-runtime`"));
        }
        Ok(())
    }

    /// Warns about a slice at `at` that has no effect on this machine.
    fn takes_slices(&mut self, at: usize) {
        if !self.context.model.rules().takes_slices {
            let what = format!("the fair class of {} takes no slices", self.context.model);
            self.context.warnings.instead(at, what);
        }
    }

    /// Sets the reservation from here on. Returns whether this object gives one.
    fn reserve(&mut self, fields: &Fields<'v>) -> Result<bool, Fault> {
        if self.context.deadline != DeadlinePolicy::Native {
            return Ok(false);
        }
        let keys = &fields.deadline;
        let old_runtime = || {
            let mut events = fields.events().filter(|_| keys.of_thread);
            events.find(|(_, member)| member.key() == "runtime" && member.value.is_number())
        };
        let runtime = keys.runtime.or_else(|| old_runtime().map(|(_, member)| member));
        let of = |member: Option<Member<'v>>| member.map(|member| micros(member.value)).transpose();
        let Some(runtime_of) = runtime else {
            return match keys.all().next() {
                Some(member) => Err(Fault::new(member.at, "a deadline needs a `dl-runtime` too")),
                None => Ok(false),
            };
        };
        let runtime = micros(runtime_of.value)?;
        let period = of(keys.period.or(keys.old_period))?.unwrap_or(runtime);
        let deadline = of(keys.deadline.or(keys.old_deadline))?.unwrap_or(period);
        if runtime == Nanos::ZERO || runtime > deadline || deadline > period {
            let what = "the kernel takes a runtime above 0, a deadline that is no less, and a period that is no \
                        less than that";
            return Err(Fault::new(runtime_of.at, what));
        }
        self.reservation = Some(Reservation { runtime, deadline, period });
        Ok(true)
    }
}

/// Returns the slice that the kernel makes of a `sched_runtime`; 0 is the default slice.
fn clamped(span: Nanos) -> Option<Slice> {
    if span == Nanos::ZERO {
        return None;
    }
    Slice::new(span.clamp(Slice::MIN.get(), Slice::MAX.get()))
}
