//! The events that move bytes: `mem`, `memrun` and `iorun`. No host has their buffers and devices. Each event becomes
//! an amount of CPU time, at speeds that were measured once and are the same everywhere.
//!
//! The speeds are those of one CPU of a 2-CPU KVM guest (Xeon, 2026), rounded. An event with a time that matters to a
//! result should be a `run` of its duration on the machine in question.

use super::context::Context;
use super::number::MAX_INT;
use super::objects::{Access, Buffer};
use crate::diagnostic::{Fault, quoted};
use crate::json::{Member, Node};
use crate::scenario::Step;
use crate::shape::{self, Event};
use runyard_engine::time::Nanos;
use std::borrow::Cow;

/// The speed of `mem`, which clears a buffer of 4 MiB again and again; 23 to 25 bytes a nanosecond measured.
const CLEARED_BYTES_PER_NS: u32 = 20;

/// The speed of `memrun`, which reads and writes byte by byte, about one a cycle; 3.8 to 5.1 measured.
const TOUCHED_BYTES_PER_NS: u32 = 4;

/// The speed of `iorun`, which writes bytes that a file system copies; 2.8 to 5.3 measured. The default device,
/// /dev/null, copies nothing, so there rt-app takes only the time of a system call.
const WRITTEN_BYTES_PER_NS: u32 = 4;

/// The time of one pointer of a sequential `memrun` of the type `chase`, which the CPU prefetches: 1 to 8 ns measured,
/// for 32 KiB to 128 MiB.
const FORESEEN_CHASE: Nanos = Nanos(5);

/// The time of one pointer of a random chase. 45 to 216 ns measured in buffers that exceed the CPU's own caches. A
/// smaller buffer takes 1 to 6 ns, which is not distinguished here.
const RANDOM_CHASE: Nanos = Nanos(100);

/// The default distance of two pointers of a chase, in bytes.
const STRIDE: u32 = 64;

/// Reads `mem` or `iorun`: a number of bytes.
pub(super) fn moved(event: Event, value: Node<'_>) -> Result<Step, Fault> {
    let speed = if event == Event::Mem { CLEARED_BYTES_PER_NS } else { WRITTEN_BYTES_PER_NS };
    Ok(Step::Memory(time(value.natural("bytes", 0..=MAX_INT)?, speed)))
}

fn time(bytes: u32, bytes_per_ns: u32) -> Nanos {
    Nanos(bytes.div_ceil(bytes_per_ns).into())
}

/// The members of a `memrun`.
#[derive(Default)]
struct Fields<'v> {
    access: Option<Access>,
    size: Option<u32>,
    count: Option<u32>,
    stride: Option<u32>,
    in_order: bool,
    shared: Option<Cow<'v, str>>,
}

fn in_order(pattern: Node<'_>) -> Result<bool, Fault> {
    match &*pattern.text()? {
        "sequential" => Ok(true),
        "random" => Ok(false),
        _ => Err(pattern.expected("\"random\" or \"sequential\"")),
    }
}

/// Reads `{"type": "read", "write" or "chase", "size": bytes, "count": bytes or pointers, "stride": bytes,
/// "pattern": "random" or "sequential", "ref": name}`.
pub(super) fn memrun(event: Member<'_>, context: &mut Context) -> Result<Step, Fault> {
    let value = event.value;
    let mut fields = Fields::default();
    for member in value.object()? {
        let value = member.value;
        match &*member.key() {
            "type" => fields.access = Some(access(value)?),
            "size" => fields.size = Some(value.natural("bytes", 1..=MAX_INT)?),
            "count" => fields.count = Some(value.natural("a number", 0..=MAX_INT)?),
            "stride" => fields.stride = Some(value.natural("bytes", 1..=MAX_INT)?),
            "pattern" => fields.in_order = in_order(value)?,
            "ref" => fields.shared = Some(value.text()?),
            _ => context.warnings.unknown(member, shape::MEMRUN),
        }
    }
    let (Some(access), Some(size), Some(count)) = (fields.access, fields.size, fields.count) else {
        return Err(Fault::new(value.at(), "a `memrun` needs `type`, `size` and `count`"));
    };
    let chase = (fields.stride.unwrap_or(STRIDE), fields.in_order);
    let chase = Some(chase).filter(|_| access == Access::Chase);
    if let Some(name) = &fields.shared
        && !context.names.agrees(name, Buffer { access, size, chase })
    {
        let what = format!(
            "the buffer {} has another size, stride or pattern in an earlier event",
            quoted(name)
        );
        return Err(Fault::new(value.at(), what));
    }
    Ok(Step::Memory(match access {
        Access::Read | Access::Write => time(count, TOUCHED_BYTES_PER_NS),
        Access::Chase if fields.in_order => Nanos(FORESEEN_CHASE.0 * u64::from(count)),
        Access::Chase => Nanos(RANDOM_CHASE.0 * u64::from(count)),
    }))
}

fn access(value: Node<'_>) -> Result<Access, Fault> {
    match &*value.text()? {
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        "chase" => Ok(Access::Chase),
        _ => Err(value.expected("\"read\", \"write\" or \"chase\"")),
    }
}
