//! The messages of Perfetto's traces that this crate writes, with the numbers of their fields.
//!
//! They come from `protos/perfetto/trace` of <https://github.com/google/perfetto>: generic kernel events, which do not
//! depend on the version of a kernel, and track events.

use prost::{Enumeration, Message, Oneof};

/// The whole file. Packets may be written one after the other.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(oneof = "Data", tags = "11, 60, 117, 122")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
    #[prost(message, tag = "117")]
    TaskState(TaskState),
    #[prost(message, tag = "122")]
    ProcessTree(ProcessTree),
}

/// `GenericKernelTaskStateEvent`: a task's state from now on.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskState {
    /// The CPU on which it runs, or ran until now.
    #[prost(int32, optional, tag = "1")]
    pub(super) cpu: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(super) comm: Option<String>,
    #[prost(int64, optional, tag = "3")]
    pub(super) tid: Option<i64>,
    #[prost(enumeration = "State", optional, tag = "4")]
    pub(super) state: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) prio: Option<i32>,
}

/// `TaskStateEnum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum State {
    Unknown = 0,
    Runnable = 2,
    Running = 3,
    Sleeping = 4,
    Dead = 7,
}

/// `GenericKernelProcessTree`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub(super) processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub(super) threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int64, optional, tag = "1")]
    pub(super) pid: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) ppid: Option<i64>,
    #[prost(string, optional, tag = "3")]
    pub(super) cmdline: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int64, optional, tag = "1")]
    pub(super) tid: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) pid: Option<i64>,
    #[prost(string, optional, tag = "3")]
    pub(super) comm: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(enumeration = "Kind", optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    /// An arrow joins events with the same number.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum Kind {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
}
