"""Compares a trace with the report of the same run.

    check.py [--arrows] [--throttling] REPORT.json TRACE.pftrace|TRACE.txt

A .pftrace is decoded by Perfetto's own protocol buffers. A .txt is decoded line by line with the
pattern that Perfetto's reader of ftrace text uses. The program computes the figures of each task
and CPU anew from the trace. They must equal those of the report to the nanosecond.

A .txt neither separates the scheduler's own work from the task's nor contains the moment when a
task was created. So for a .txt, a task's runtime and waits are compared as a sum, its sleep is
compared from its first wake-up on, and CPUs and migrations are not compared. But each line must
begin with the task that has its CPU.

`--arrows` and `--throttling` are for runs in which tasks wake others and are throttled: the trace
must contain such marks. Prints the differences; the exit code is 1 if there are any.
"""

import argparse
import bisect
import collections
import json
import re
import sys

NAMES = {2: "runnable", 3: "running", 4: "sleeping", 7: "dead"}
BEGIN = 1
LEFT_AS = {"S": "sleeping", "X": "dead", "R": "runnable", "R+": "runnable"}

WAKEUPS = ("sched_wakeup", "sched_wakeup_new")
THROTTLED = "C|0|throttled_CPU"
THE_END = "the run ends"
# The kernel's priority number below which priorities are those of real-time tasks.
LEAST_PRIO = 100


class Trace:
    """The contents that both forms share. `wrong` takes a message for each impossible event."""

    def __init__(self, wrong):
        self.wrong = wrong
        self.names = {}
        self.states = []  # (at, tid, state, CPU)
        self.overhead = []  # (at, CPU, begins)
        self.forced = []  # (at, CPU, begins to be forced idle)
        self.arrows = collections.defaultdict(list)  # of (at, "from" or "to", tid)
        self.expired = 0
        self.throttled = []  # (at, CPU, group, begins)
        self.important = []  # (at, CPU) at which a real-time task is switched to
        self.ends = []
        self.last = 0

    def pass_to(self, at):
        if at < self.last:
            self.wrong(f"time goes back from {self.last} to {at}")
        if self.ends:
            self.wrong(f"the trace has an event after its end, at {at}")
        self.last = max(self.last, at)

    def name(self, tid, name):
        if self.names.setdefault(tid, name) != name:
            self.wrong(f"task {tid} is {self.names[tid]} and {name}")


def read_perfetto(path, trace):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    packets = perfetto_trace_pb2.Trace()
    with open(path, "rb") as file:
        packets.ParseFromString(file.read())
    tracks, listed = {}, set()
    for packet in packets.packet:
        kind = packet.WhichOneof("data")
        if kind != "track_descriptor":
            trace.pass_to(packet.timestamp)
        if kind == "generic_kernel_task_state_event":
            event = packet.generic_kernel_task_state_event
            trace.name(event.tid, event.comm)
            state = (packet.timestamp, event.tid, NAMES[event.state], event.cpu)
            trace.states.append(state)
            if state[2] == "running" and event.prio < LEAST_PRIO:
                trace.important.append((packet.timestamp, event.cpu))
        elif kind == "generic_kernel_process_tree":
            for thread in packet.generic_kernel_process_tree.threads:
                trace.name(thread.tid, thread.comm)
                listed.add(thread.tid)
        elif kind == "track_descriptor":
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif kind == "track_event":
            read_track_event(packet, tracks, trace)
        else:
            trace.wrong(f"a packet of a kind that is not expected: {kind}")
    for tid in trace.names.keys() - listed:
        trace.wrong(f"{trace.names[tid]} is a thread of no process")


def read_track_event(packet, tracks, trace):
    event = packet.track_event
    if event.track_uuid not in tracks:
        return trace.wrong(f"an event of a track that is not declared: {event}")
    track = tracks[event.track_uuid]
    if track.parent_uuid and track.parent_uuid not in tracks:
        return trace.wrong(f"a track below one that is not declared: {track}")
    parent = tracks[track.parent_uuid].name if track.parent_uuid else ""
    if parent == "Scheduler's own work":
        cpu = int(track.name.removeprefix("CPU "))
        trace.overhead.append((packet.timestamp, cpu, event.type == BEGIN))
    elif parent == "Forced idle":
        cpu = int(track.name.removeprefix("CPU "))
        trace.forced.append((packet.timestamp, cpu, event.type == BEGIN))
    elif parent == "Timer expiries":
        trace.expired += 1
    elif parent == "Throttled":
        group, cpu = track.name.rsplit(" on CPU ", 1)
        trace.throttled.append((packet.timestamp, int(cpu), group, event.type == BEGIN))
    elif event.name == THE_END:
        trace.ends.append(packet.timestamp)
    for flow in event.flow_ids:
        trace.arrows[flow].append((packet.timestamp, "from", track.thread.tid))
    for flow in event.terminating_flow_ids:
        trace.arrows[flow].append((packet.timestamp, "to", track.thread.tid))


# Perfetto: src/trace_processor/importers/systrace/systrace_line_tokenizer.cc
LINE = re.compile(
    r"-(\d+)\s+\(?\s*(\d+|-+)?\)?\s?\[(\d+)\]\s*([a-zA-Z0-9.]{0,7})?\s+(\d+\.\d+):\s+(\S+):"
)

# Runyard writes forced idle as a comment, since to the kernel such a CPU is idle.
FORCED = re.compile(r"# (\d+)\.(\d{9}): CPU (\d+) is forced idle (while|no longer)")

# `by`: the task that has the CPU, from the beginning of the line.
# `left`: the text after the event's name.
Line = collections.namedtuple("Line", "text at cpu comm by flags event left fields")


def line_of(text):
    match = LINE.search(text)
    if not match:
        return None
    secs, nanos = match[5].split(".")
    at = int(secs) * 1_000_000_000 + int(nanos.ljust(9, "0"))
    left = text[match.end() :].strip()
    words = [word.split("=", 1) for word in left.split() if "=" in word and word != "==>"]
    comm = text[: match.start()].strip()
    by, cpu = int(match[1]), int(match[3])
    return Line(text, at, cpu, comm, by, match[4], match[6], left, dict(words))


class FtraceReader:
    """Reads line after line, and keeps the task that has each CPU and the wake-up that has begun."""

    def __init__(self, trace):
        self.trace = trace
        self.having = {}
        self.waking = None

    def read(self, line):
        self.trace.pass_to(line.at)
        had = self.having.get(line.cpu, 0)
        if line.by != had:
            self.trace.wrong(f"CPU {line.cpu} has task {had}: {line.text}")
        if line.by:
            self.trace.name(line.by, line.comm)
        elif line.comm != "<idle>":
            self.trace.wrong(f"task 0 is not called idle: {line.text}")
        if self.waking and line.event not in WAKEUPS:
            self.trace.wrong(f"no wake-up follows: {self.waking.text}")
            self.waking = None
        if line.event == "sched_switch":
            self.switch(line)
        elif line.event == "sched_waking":
            self.waking = line
        elif line.event in WAKEUPS:
            self.wakeup(line)
        elif line.event == "hrtimer_expire_entry":
            self.trace.expired += 1
            if int(line.fields["now"]) != line.at:
                self.trace.wrong(f"a timer that expires at another time: {line.text}")
        elif line.event == "tracing_mark_write" and line.left.startswith(THROTTLED):
            track, value = line.left.removeprefix(THROTTLED).rsplit("|", 1)
            cpu, group = track.split("_", 1)
            self.trace.throttled.append((line.at, int(cpu), group, value == "1"))
        elif line.event == "print" and line.left == THE_END:
            self.trace.ends.append(line.at)
        else:
            self.trace.wrong(f"a line of a kind that is not expected: {line.text}")

    def switch(self, line):
        prev, following = int(line.fields["prev_pid"]), int(line.fields["next_pid"])
        if prev != line.by:
            self.trace.wrong(f"a task that does not have the CPU leaves it: {line.text}")
        if prev:
            state = LEFT_AS[line.fields["prev_state"]]
            self.trace.name(prev, line.fields["prev_comm"])
            self.trace.states.append((line.at, prev, state, line.cpu))
        if following:
            self.trace.name(following, line.fields["next_comm"])
            self.trace.states.append((line.at, following, "running", line.cpu))
            if int(line.fields["next_prio"]) < LEAST_PRIO:
                self.trace.important.append((line.at, line.cpu))
        self.having[line.cpu] = following

    def wakeup(self, line):
        waking, self.waking = self.waking, None
        told = (line.at, line.cpu, line.by, line.flags, line.fields)
        if not waking or told != (waking.at, waking.cpu, waking.by, waking.flags, waking.fields):
            return self.trace.wrong(f"no `sched_waking` before: {line.text}")
        woken = int(line.fields["pid"])
        if (line.event == "sched_wakeup_new") == (woken in self.trace.names):
            self.trace.wrong(f"only the first wake-up of a task is `sched_wakeup_new`: {line.text}")
        self.trace.name(woken, line.fields["comm"])
        self.trace.states.append((line.at, woken, "runnable", 0))
        if "h" not in line.flags:
            ends = [(line.at, "from", line.by), (line.at, "to", woken)]
            self.trace.arrows[len(self.trace.arrows)] = ends


def read_ftrace(path, trace):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not text.startswith("# tracer"):
        trace.wrong("the file does not begin with `# tracer`, as ftrace text does")
    reader = FtraceReader(trace)
    for text in text.splitlines():
        if text.startswith("#"):
            if forced := FORCED.match(text):
                at, cpu, how = int(forced[1] + forced[2]), int(forced[3]), forced[4]
                trace.forced.append((at, cpu, how == "while"))
            continue
        line = line_of(text)
        if line:
            reader.read(line)
        else:
            trace.wrong(f"not a line of ftrace: {text}")


def spans_of(trace, marks, what, end):
    """Returns for each CPU the spans between the marks; `what` names their state in messages."""
    spans, since = collections.defaultdict(list), {}
    for at, cpu, begins in marks:
        if begins == (cpu in since):
            trace.wrong(f"CPU {cpu} begins or ends {what} twice, at {at}")
        elif begins:
            since[cpu] = at
        else:
            spans[cpu].append((since.pop(cpu), at))
    for cpu, at in since.items():
        spans[cpu].append((at, end))
    return spans


class Figures:
    def __init__(self):
        self.spans = collections.Counter()
        self.runs = []
        self.state = self.since = self.first = None
        self.wakeups = 0
        self.switches = 0


def lives(trace, end):
    """Returns the figures of each task, and checks that each CPU has one task at a time."""
    tasks, having = collections.defaultdict(Figures), {}
    for at, tid, state, cpu in trace.states:
        task, name = tasks[tid], trace.names[tid]
        if task.first is None:
            task.first = at
        if task.state == "running":
            task.runs.append((task.since, at, task.cpu))
            if state != "running" and (cpu != task.cpu or having.get(cpu) != tid):
                trace.wrong(f"{name} leaves CPU {cpu} at {at}, but does not have it")
            having.pop(task.cpu, None)
        if state == "running":
            if task.state != "runnable":
                trace.wrong(f"{name} is {task.state} and switched to, at {at}")
            if cpu in having:
                trace.wrong(f"CPU {cpu} has two tasks at {at}")
            having[cpu], task.cpu = tid, cpu
            task.switches += 1
        if state == "runnable" and task.state in ("sleeping", None):
            task.wakeups += 1
        elif state == "runnable" and task.state == "runnable":
            trace.wrong(f"{name} is woken twice, at {at}")
        if task.state == "dead":
            trace.wrong(f"{name} has an event after its end, at {at}")
        if task.state:
            task.spans[task.state] += at - task.since
        task.state, task.since = state, at
    for task in tasks.values():
        if task.state == "running":
            task.runs.append((task.since, end, task.cpu))
        if task.state:
            task.spans[task.state] += end - task.since
    return tasks


def within(spans, since, until):
    return sum(max(0, min(until, to) - max(since, at)) for at, to in spans)


def executed(task, overhead):
    """Returns the spans of a task as (CPU, length), without the scheduler's own work on its CPU.

    A span in which the task lost its CPU before its first instruction is left out.
    """
    result = []
    for since, until, cpu in task.runs:
        spans = overhead[cpu]
        low = bisect.bisect_right(spans, since, key=lambda span: span[1])
        if low < len(spans) and spans[low][0] <= since and spans[low][1] > until:
            continue
        busy = 0
        while low < len(spans) and spans[low][0] < until:
            busy += within([spans[low]], since, until)
            low += 1
        result.append((cpu, until - since - busy))
    return result


def compare(report, trace, is_perfetto):
    end = report["duration_ns"]
    tasks = lives(trace, end)
    by_name = {trace.names[tid].replace("_", " "): task for tid, task in tasks.items()}

    def same(what, ours, theirs, untold=0):
        if theirs is not None and not ours <= theirs <= ours + untold:
            trace.wrong(f"{what}: {ours} in the trace, {theirs} in the report")

    for name in by_name.keys() - {told["name"].replace("_", " ") for told in report["tasks"]}:
        trace.wrong(f"{name} is not in the report")
    overhead = spans_of(trace, trace.overhead, "the scheduler's work", end)
    forced = spans_of(trace, trace.forced, "to be forced idle", end)
    busy = collections.Counter()
    for told in report["tasks"]:
        name = told["name"]
        task = by_name.get(name.replace("_", " "))
        if task is None:
            if told["wakeups"]:
                trace.wrong(f"{name} is not in the trace")
            continue
        runs = executed(task, overhead)
        for cpu, span in runs:
            busy[cpu] += span
        waited = task.spans["running"] + task.spans["runnable"]
        if is_perfetto:
            ran = sum(span for _, span in runs)
            same(f"{name} ran", ran, told["runtime_ns"])
            same(f"{name} waited", waited - ran, told["wait_ns"])
            cpus = [cpu for cpu, _ in runs]
            moves = sum(one != other for one, other in zip(cpus, cpus[1:]))
            same(f"{name} migrated", moves, told["migrations"])
        else:
            same(f"{name} ran and waited", waited, told["runtime_ns"] + told["wait_ns"])
        unborn = 0 if is_perfetto else task.first
        same(f"{name} slept", task.spans["sleeping"], told["sleep_ns"], untold=unborn)
        same(f"{name} was woken", task.wakeups, told["wakeups"])
        same(f"{name} was switched in", task.switches, told["switches"])
    for told in report["cpus"]:
        was_forced = sum(to - at for at, to in forced[told["cpu"]])
        same(f"CPU {told['cpu']} was forced idle", was_forced, told["forced_idle_ns"])
    for told in report["cpus"] if is_perfetto else []:
        cpu = told["cpu"]
        worked = sum(to - at for at, to in overhead[cpu])
        same(f"CPU {cpu} worked for the scheduler", worked, told["overhead_ns"])
        same(f"CPU {cpu} was idle", end - worked - busy[cpu], told["idle_ns"])
    same("timers that expired", trace.expired, report["timers"]["expired"])
    if trace.ends != [end]:
        trace.wrong(f"the run ends at {end}: {trace.ends} in the trace")
    check_arrows(trace, tasks)
    check_throttling(trace, is_told_at_once=report["host"] == "sim")


def check_arrows(trace, tasks):
    """Checks that each arrow begins at a task that has a CPU and ends at a task woken at that time."""
    woken = {(at, tid) for at, tid, state, _ in trace.states if state == "runnable"}
    for flow, ends in trace.arrows.items():
        if [end for _, end, _ in ends] != ["from", "to"]:
            trace.wrong(f"arrow {flow} has the ends {ends}")
            continue
        (begun, _, waker), (at, _, target) = ends
        runs = tasks[waker].runs
        last = bisect.bisect_right(runs, at, key=lambda run: run[0]) - 1
        if last < 0 or runs[last][1] < begun:
            trace.wrong(f"arrow {flow} begins at a task without a CPU: {ends}")
        if begun != at or (at, target) not in woken:
            trace.wrong(f"arrow {flow} ends where no task is woken: {ends}")


def check_throttling(trace, is_told_at_once):
    """Checks that begins and ends alternate, and that no real-time task is switched to while `/` is
    throttled on its CPU.

    `live` records the end of throttling late, after such a switch, so the second check is for `sim`.
    """
    since, spans = {}, collections.defaultdict(list)
    for at, cpu, group, begins in trace.throttled:
        if begins == ((cpu, group) in since):
            trace.wrong(f"throttling of {group} on CPU {cpu} begins or ends twice, at {at}")
        elif begins:
            since[cpu, group] = at
        else:
            spans[cpu, group].append((since.pop((cpu, group)), at))
    for key, at in since.items():
        spans[key].append((at, trace.last))
    for at, cpu in trace.important if is_told_at_once else []:
        if any(begun < at < ended for begun, ended in spans[cpu, "/"]):
            trace.wrong(f"a real-time task is switched to on CPU {cpu}, which has it throttled, at {at}")


def main():
    parser = argparse.ArgumentParser(description="Compares a trace with the report of its run.")
    parser.add_argument("--arrows", action="store_true", help="tasks wake others")
    parser.add_argument("--throttling", action="store_true", help="tasks are throttled")
    parser.add_argument("report")
    parser.add_argument("trace")
    options = parser.parse_args()
    with open(options.report, encoding="utf-8") as file:
        report = json.load(file)
    found = []
    trace = Trace(found.append)
    is_perfetto = options.trace.endswith(".pftrace")
    (read_perfetto if is_perfetto else read_ftrace)(options.trace, trace)
    compare(report, trace, is_perfetto)
    if options.arrows and not trace.arrows:
        trace.wrong("no task wakes another")
    if options.throttling and not trace.throttled:
        trace.wrong("no task is throttled")
    for line in found[:20]:
        print(f"{options.trace}: {line}")
    marks = f"{len(trace.arrows)} arrows, {trace.expired} expiries"
    throttles = f"{len(trace.throttled)} throttle marks"
    verdict = f"{len(found)} differences" if found else "as the report says"
    print(f"{options.trace}: {len(trace.states)} states, {marks}, {throttles}: {verdict}")
    sys.exit(1 if found else 0)


main()
