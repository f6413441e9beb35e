//! The keys of SCHED_DEADLINE: the reservation of a deadline task, or the slice of a fair task.
//!
//! As in rt-app, the deadline defaults to the period, and the period to the runtime. A thread object has older names
//! for all three; of these, `runtime` is also an event. For a fair task, `dl-runtime` is the slice, which the kernel
//! clamps (`__setparam_fair` of kernel/sched/syscalls.c, Linux 6.12 to 6.18).

use super::context::Context;
use super::duration::{self, micros};
use super::policy::PolicyName;
use crate::diagnostic::Fault;
use crate::json::{Member, Node};
use crate::overrides::DeadlinePolicy;
use crate::scenario::Reservation;
use runyard_engine::attr::Slice;
use runyard_engine::task::Update;
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
    old_runtime: Option<Member<'v>>,
    old_deadline: Option<Member<'v>>,
    old_period: Option<Member<'v>>,
}

impl<'v> DeadlineFields<'v> {
    pub(super) fn of(thread: bool) -> DeadlineFields<'v> {
        DeadlineFields { of_thread: thread, ..DeadlineFields::default() }
    }

    /// Takes a member that is one of these. A `runtime` stays an event in any case, so it is not taken.
    pub(super) fn take(&mut self, member: Member<'v>) -> bool {
        let field = match &*member.key() {
            "dl-runtime" => &mut self.runtime,
            "dl-deadline" => &mut self.deadline,
            "dl-period" => &mut self.period,
            "deadline" if self.of_thread => &mut self.old_deadline,
            "period" if self.of_thread => &mut self.old_period,
            "runtime" if self.of_thread && member.value.is_number() => {
                self.old_runtime.get_or_insert(member);
                return false;
            }
            _ => return false,
        };
        *field = Some(member);
        true
    }

    /// Returns the members that concern nothing else.
    fn all(&self) -> impl Iterator<Item = Member<'v>> + use<'v> {
        let all = [self.runtime, self.deadline, self.period, self.old_deadline, self.old_period];
        all.into_iter().flatten()
    }

    /// Returns the slice that an object asks for under `policy`, and its change of the reservation. `slice` is the
    /// object's key of that name.
    pub(super) fn read(
        &self,
        slice: Option<Node<'_>>,
        policy: PolicyName,
        context: &mut Context,
    ) -> Result<(Option<Slice>, Update<Reservation>), Fault> {
        // An invalid value is an error even if it has no effect.
        self.all().try_for_each(|member| micros(member.value).map(drop))?;
        let own = slice.map(duration::slice).transpose()?;
        if let Some(node) = slice {
            takes_slices(node.at(), context);
        }
        if policy == PolicyName::Deadline {
            let native = context.deadline == DeadlinePolicy::Native;
            let reservation = if native { self.reservation()? } else { None };
            return Ok((own, reservation.map_or(Update::Keep, Update::Set)));
        }
        let fair = matches!(policy, PolicyName::Other | PolicyName::Batch);
        let asked = self.runtime.filter(|_| fair);
        let rest = self.all().find(|member| asked.is_none_or(|asked| asked.at != member.at));
        if let Some(member) = rest {
            context.warnings.once(member, "has no effect on a task of this policy");
        }
        let slice = match (own, asked) {
            (_, None) => own,
            (Some(_), Some(asked)) => {
                return Err(Fault::new(asked.at, "`slice` and `dl-runtime` in one object"));
            }
            (None, Some(asked)) => {
                takes_slices(asked.at, context);
                clamped(micros(asked.value)?)
            }
        };
        Ok((slice, Update::Clear))
    }

    /// Returns the reservation that the object gives, if it gives one.
    fn reservation(&self) -> Result<Option<Reservation>, Fault> {
        let of = |member: Option<Member<'v>>| member.map(|member| micros(member.value)).transpose();
        let Some(runtime_of) = self.runtime.or(self.old_runtime) else {
            return match self.all().next() {
                Some(member) => Err(Fault::new(member.at, "a deadline needs a `dl-runtime` too")),
                None => Ok(None),
            };
        };
        let runtime = micros(runtime_of.value)?;
        let period = of(self.period.or(self.old_period))?.unwrap_or(runtime);
        let deadline = of(self.deadline.or(self.old_deadline))?.unwrap_or(period);
        if runtime == Nanos::ZERO || runtime > deadline || deadline > period {
            let what = "the kernel takes a runtime above 0, a deadline that is no less, and a period that is no \
                        less than that";
            return Err(Fault::new(runtime_of.at, what));
        }
        Ok(Some(Reservation { runtime, deadline, period }))
    }
}

/// Warns about a slice at `at` that has no effect on this machine.
/// Warns if the fair class of the scenario's kernel takes no slices.
pub(super) fn takes_slices(at: usize, context: &mut Context) {
    if !context.model.rules().takes_slices {
        let what = format!("the fair class of {} takes no slices", context.model);
        context.warnings.instead(at, what);
    }
}

/// Returns the slice that the kernel makes of a `sched_runtime`; 0 is the default slice.
fn clamped(span: Nanos) -> Option<Slice> {
    if span == Nanos::ZERO {
        return None;
    }
    Slice::new(span.clamp(Slice::MIN.get(), Slice::MAX.get()))
}
