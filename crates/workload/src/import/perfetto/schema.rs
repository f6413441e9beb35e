//! The messages of Perfetto's traces that tell what tasks did, with the numbers of their fields. Those of other fields
//! are passed over.
//!
//! They come from `protos/perfetto/trace` of <https://github.com/google/perfetto>. Names of tasks may be any bytes.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    pub(super) process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "34")]
    pub(super) ftrace_stats: Option<FtraceStats>,
    #[prost(message, optional, tag = "45")]
    pub(super) system_info: Option<SystemInfo>,
    /// More packets, compressed by zlib.
    #[prost(bytes = "vec", optional, tag = "50")]
    pub(super) compressed_packets: Option<Vec<u8>>,
    /// The number of the machine, of those that were recorded together. The first one has none.
    #[prost(uint32, optional, tag = "98")]
    pub(super) machine_id: Option<u32>,
    /// More packets, compressed by zstd.
    #[prost(bytes = "vec", optional, tag = "133")]
    pub(super) zstd_compressed_packets: Option<Vec<u8>>,
}

/// `FtraceEventBundle`: events of one CPU, without a gap between them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<Event>,
    /// Whether events before the first one were lost.
    #[prost(bool, optional, tag = "3")]
    pub(super) lost_events: Option<bool>,
    #[prost(message, optional, tag = "4")]
    pub(super) compact_sched: Option<CompactSched>,
}

/// `FtraceEventBundle.CompactSched`: switches and wake-ups as columns. A time is told as the difference to the one before.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub(super) switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) switch_next_prio: Vec<i32>,
    /// The names. Other columns have their places here.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(super) intern_table: Vec<Vec<u8>>,
    #[prost(uint32, repeated, tag = "6")]
    pub(super) switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub(super) waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub(super) waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "10")]
    pub(super) waking_prio: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub(super) waking_comm_index: Vec<u32>,
    /// Older recorders do not write it.
    #[prost(uint32, repeated, tag = "12")]
    pub(super) waking_common_flags: Vec<u32>,
}

/// `FtraceEvent`. Recorders leave out the kernel's flags of an event.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    /// The thread that ran.
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    pub(super) sched_switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "17")]
    pub(super) sched_wakeup: Option<Woken>,
    #[prost(message, optional, tag = "20")]
    pub(super) sched_waking: Option<Woken>,
    #[prost(message, optional, tag = "114")]
    pub(super) sched_wakeup_new: Option<Woken>,
    #[prost(message, optional, tag = "235")]
    pub(super) task_newtask: Option<NewTask>,
    #[prost(message, optional, tag = "236")]
    pub(super) task_rename: Option<Rename>,
}

/// `SchedSwitchFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedSwitch {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) prev_comm: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) next_comm: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_prio: Option<i32>,
}

/// `SchedWakingFtraceEvent`, `SchedWakeupFtraceEvent`, `SchedWakeupNewFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Woken {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) comm: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prio: Option<i32>,
    /// 0 if the task did not sleep. Newer kernels do not write it.
    #[prost(int32, optional, tag = "4")]
    pub(super) success: Option<i32>,
}

/// `TaskNewtaskFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NewTask {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) comm: Option<Vec<u8>>,
}

/// `TaskRenameFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Rename {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) newcomm: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub(super) processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub(super) threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) cmdline: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, optional, tag = "1")]
    pub(super) tid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) name: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) utsname: Option<Utsname>,
    #[prost(uint32, optional, tag = "8")]
    pub(super) num_cpus: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Utsname {
    #[prost(string, optional, tag = "3")]
    pub(super) release: Option<String>,
}

/// `FtraceStats`: the counters of the kernel's buffers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceStats {
    /// 1 at the begin of the trace, 2 at its end.
    #[prost(int32, optional, tag = "1")]
    pub(super) phase: Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) cpu_stats: Vec<CpuStats>,
}

/// `FtraceCpuStats`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CpuStats {
    /// The events that were overwritten before the recorder read them.
    #[prost(uint64, optional, tag = "3")]
    pub(super) overrun: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) dropped_events: Option<u64>,
}

/// Returns the name of a thread as text.
pub(super) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
