//! Traces of Perfetto: the same records as from a text.
//!
//! A trace is a stream of packets. Those of the data source `linux.ftrace` have events of one CPU each, so the records do
//! not come in the order of time. All have the clock of ftrace, whichever it is. So the trace's snapshots of other clocks
//! are not needed.
//!
//! `packets` takes packets off the stream, `bundle` makes records of one packet, `schema` has the messages.

mod bundle;
mod packets;
mod schema;

use self::bundle::Cpus;
use self::packets::{Found, Packets};
use self::schema::{FtraceStats, ProcessTree, SystemInfo, TracePacket, text};
use super::reading::Reading;
use flate2::bufread::ZlibDecoder;
use prost::Message;
use ruzstd::decoding::StreamingDecoder;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

/// No text has a byte below this.
const FIRST_OF_TEXT: u8 = b'\t';

/// The longest name of a thread, in bytes.
const LONGEST_COMM: usize = 15;

/// The phase of counters at the end of a trace.
const END_OF_TRACE: i32 = 2;

/// Returns whether a file begins as a trace: with the tag of a packet, with which a text may begin too, and with bytes
/// that no text has.
pub(super) fn begins(head: &[u8]) -> bool {
    head.first() == Some(&packets::TAG) && head.iter().any(|&byte| byte < FIRST_OF_TEXT)
}

/// Reads a trace.
///
/// # Errors
/// If reading fails.
pub(super) fn read(from: &mut dyn BufRead, reading: &mut Reading) -> io::Result<()> {
    let mut trace = Trace {
        reading,
        place: 0,
        cpus: Cpus::default(),
        names: BTreeMap::new(),
        lost: [0; 2],
        foreign: 0,
    };
    trace.stream(from, true)?;
    trace.finish();
    Ok(())
}

/// The state while a trace is read.
struct Trace<'r> {
    reading: &'r mut Reading,
    /// The number of the present packet. Packets within it have the same.
    place: u32,
    cpus: Cpus,
    /// The names of threads that the trace tells beside the events.
    names: BTreeMap<u32, String>,
    /// The numbers of lost events that the kernel counted until the begin of the trace, and until its end.
    lost: [u64; 2],
    /// The number of packets with events of other machines.
    foreign: u64,
}

impl Trace<'_> {
    /// Takes all packets of a stream: the file itself, or what is compressed in one of its packets.
    fn stream(&mut self, from: &mut dyn BufRead, is_file: bool) -> io::Result<()> {
        let mut packets = Packets::new(from);
        loop {
            self.place = self.place.saturating_add(u32::from(is_file));
            match packets.next()? {
                Found::Packet(bytes) => self.packet(bytes, is_file),
                Found::End => return Ok(()),
                Found::Broken(what) if is_file => {
                    self.reading.broken = Some(self.reading.at(self.place, 1, what));
                    return Ok(());
                }
                Found::Broken(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn packet(&mut self, bytes: &[u8], is_of_file: bool) {
        let Ok(packet) = TracePacket::decode(bytes) else {
            self.reading.skip(self.place, 1, "the packet is invalid");
            return;
        };
        if let Some(packed) = packet.compressed_packets {
            self.packed(ZlibDecoder::new(&packed[..]), is_of_file);
        }
        if let Some(packed) = packet.zstd_compressed_packets {
            match StreamingDecoder::new(&packed[..]) {
                Ok(packed) => self.packed(packed, is_of_file),
                Err(_) => self.not_unpacked(),
            }
        }
        if packet.machine_id.is_some_and(|machine| machine != 0) {
            self.foreign += u64::from(packet.ftrace_events.is_some());
            return;
        }
        if let Some(info) = packet.system_info {
            self.machine(info);
        }
        if let Some(tree) = packet.process_tree {
            self.tree(tree);
        }
        if let Some(stats) = packet.ftrace_stats {
            self.stats(&stats);
        }
        if let Some(bundle) = &packet.ftrace_events {
            self.cpus.take(bundle, self.place, &mut self.names, self.reading);
        }
    }

    /// Takes the packets that are compressed in one.
    fn packed(&mut self, packed: impl Read, is_of_file: bool) {
        // No recorder compresses what is compressed.
        if !is_of_file || self.stream(&mut BufReader::new(packed), false).is_err() {
            self.not_unpacked();
        }
    }

    fn not_unpacked(&mut self) {
        self.reading.skip(self.place, 1, "the packets in this one cannot be decompressed");
    }

    fn machine(&mut self, info: SystemInfo) {
        self.reading.cpus = self.reading.cpus.max(info.num_cpus.unwrap_or(0));
        let release = info.utsname.and_then(|name| name.release);
        self.reading.release = self.reading.release.take().or(release);
    }

    /// Takes the names of the threads that ran before the trace began. A main thread is named by its command.
    fn tree(&mut self, tree: ProcessTree) {
        for thread in tree.threads {
            let tid = thread.tid.and_then(|tid| u32::try_from(tid).ok());
            if let (Some(tid), Some(name)) = (tid, thread.name) {
                self.names.insert(tid, text(&name));
            }
        }
        for process in tree.processes {
            let pid = process.pid.and_then(|pid| u32::try_from(pid).ok());
            if let (Some(pid), [command, ..]) = (pid, &process.cmdline[..]) {
                let name = command.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                let name = text(&name[..name.len().min(LONGEST_COMM)]);
                self.names.entry(pid).or_insert(name);
            }
        }
    }

    fn stats(&mut self, stats: &FtraceStats) {
        let lost = |cpu: &schema::CpuStats| {
            cpu.overrun.unwrap_or(0).saturating_add(cpu.dropped_events.unwrap_or(0))
        };
        let sum = stats.cpu_stats.iter().map(lost).fold(0, u64::saturating_add);
        self.lost[usize::from(stats.phase == Some(END_OF_TRACE))] = sum;
    }

    fn finish(self) {
        let Trace { reading, names, lost: [before, after], foreign, .. } = self;
        // The counters do not tell when events were lost, and a place with lost events does not tell how many.
        if reading.is_all_wanted() {
            reading.lost = reading.lost.max(after.saturating_sub(before));
        }
        reading.records.name_running(&names);
        if foreign > 0 {
            let what =
                format!("{foreign} packets have events of other machines, which are left out");
            let note = reading.nowhere(what);
            reading.notes.insert(0, note);
        }
    }
}
