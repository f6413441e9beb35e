"""Compares a trace with the report of the same run.

    check.py REPORT.json TRACE.pftrace|TRACE.txt [PERMILLE]

The trace is decoded by Perfetto's own protocol buffers, or line by line with the pattern that
Perfetto's reader of ftrace text uses, and each task's and CPU's figures are computed from it anew.
They may differ from the report's by PERMILLE of the run's duration: by nothing if it is left out,
which is right for the simulator. Prints what differs; exit code 1 if anything does.
"""

import bisect
import collections
import json
import re
import sys

NAMES = {2: "runnable", 3: "running", 4: "sleeping", 7: "dead"}
BEGIN, END, INSTANT = 1, 2, 3

# (at, tid, state, cpu) of tasks; (at, cpu, begins) of overhead; arrows as [(at, end)].
Trace = collections.namedtuple("Trace", "names states overhead arrows expired throttled")


def read_perfetto(path, wrong):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    found = Trace({}, [], [], collections.defaultdict(list), [], [])
    tracks, last = {}, 0
    for packet in trace.packet:
        if packet.timestamp and packet.timestamp < last:
            wrong(f"time runs back from {last} to {packet.timestamp}")
        last = max(last, packet.timestamp)
        kind = packet.WhichOneof("data")
        if kind == "generic_kernel_task_state_event":
            event = packet.generic_kernel_task_state_event
            found.names[event.tid] = event.comm
            state = (packet.timestamp, event.tid, NAMES[event.state], event.cpu)
            found.states.append(state)
        elif kind == "generic_kernel_process_tree":
            for thread in packet.generic_kernel_process_tree.threads:
                found.names[thread.tid] = thread.comm
        elif kind == "track_descriptor":
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif kind == "track_event":
            read_track_event(packet, tracks, found, wrong)
        else:
            wrong(f"a packet of a kind that is not expected: {kind}")
    return found


def read_track_event(packet, tracks, found, wrong):
    event = packet.track_event
    if event.track_uuid not in tracks:
        return wrong(f"an event of a track that nobody declared: {event}")
    track = tracks[event.track_uuid]
    parent = tracks[track.parent_uuid].name if track.parent_uuid else ""
    if parent == "Scheduler's own work":
        cpu = int(track.name.removeprefix("CPU "))
        found.overhead.append((packet.timestamp, cpu, event.type == BEGIN))
    elif parent == "Timer expiries":
        found.expired.append(event.name)
    elif parent == "Throttled":
        found.throttled.append((packet.timestamp, track.name, event.type == BEGIN))
    for flow in event.flow_ids:
        found.arrows[flow].append((packet.timestamp, "from", track.thread.tid))
    for flow in event.terminating_flow_ids:
        found.arrows[flow].append((packet.timestamp, "to", track.thread.tid))


# Perfetto: src/trace_processor/importers/systrace/systrace_line_tokenizer.cc
LINE = re.compile(
    r"-(\d+)\s+\(?\s*(\d+|-+)?\)?\s?\[(\d+)\]\s*([a-zA-Z0-9.]{0,7})?\s+(\d+\.\d+):\s+(\S+):"
)


def read_ftrace(path, wrong):
    found = Trace({}, [], [], {}, [], [])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not text.startswith("# tracer"):
        wrong("it does not begin as ftrace text does")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = LINE.search(line)
        if not match:
            wrong(f"no line of ftrace: {line}")
            continue
        secs, nanos = match[5].split(".")
        at, cpu = int(secs) * 1_000_000_000 + int(nanos.ljust(9, "0")), int(match[3])
        words = line[match.end() :].split()
        fields = dict(word.split("=", 1) for word in words if "=" in word and word != "==>")
        if match[6] == "sched_switch":
            read_switch(at, cpu, fields, found)
        elif match[6] in ("sched_wakeup", "sched_wakeup_new"):
            found.names[int(fields["pid"])] = fields["comm"]
            found.states.append((at, int(fields["pid"]), "runnable", 0))
        elif match[6] == "hrtimer_expire_entry":
            found.expired.append("timer")
    return found


def read_switch(at, cpu, fields, found):
    prev, following = int(fields["prev_pid"]), int(fields["next_pid"])
    if prev:
        states = {"S": "sleeping", "X": "dead"}
        found.names[prev] = fields["prev_comm"]
        found.states.append((at, prev, states.get(fields["prev_state"], "runnable"), cpu))
    if following:
        found.names[following] = fields["next_comm"]
        found.states.append((at, following, "running", cpu))


def overhead_of(trace, end):
    """The spans in which each CPU works for the scheduler."""
    spans, since = collections.defaultdict(list), {}
    for at, cpu, begins in trace.overhead:
        if begins:
            since[cpu] = at
        elif cpu in since:
            spans[cpu].append((since.pop(cpu), at))
    for cpu, at in since.items():
        spans[cpu].append((at, end))
    return spans


class Figures:
    def __init__(self):
        self.spans = collections.Counter()
        self.runs = []
        self.state = self.since = None
        self.wakeups = 0
        self.switches = 0


def lives(trace, end, wrong):
    """What each task did, and who had each CPU when."""
    tasks, having = collections.defaultdict(Figures), {}
    for at, tid, state, cpu in trace.states:
        task, name = tasks[tid], trace.names[tid]
        if task.state == "running":
            task.runs.append((task.since, at, task.cpu))
            if state != "running" and (cpu != task.cpu or having.get(cpu) != tid):
                wrong(f"{name} leaves CPU {cpu} at {at}, which it has not")
            having.pop(task.cpu, None)
        if state == "running":
            if task.state == "running":
                wrong(f"{name} is switched to twice, at {at}")
            if cpu in having:
                wrong(f"CPU {cpu} has two tasks at {at}")
            having[cpu], task.cpu = tid, cpu
            task.switches += 1
        if state == "runnable" and task.state in ("sleeping", None):
            task.wakeups += 1
        if task.state == "dead":
            wrong(f"{name} goes on after its end, at {at}")
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
    """The spans of a task without what its CPU works for the scheduler meanwhile, as (CPU, length);
    one that lost its CPU before its first instruction is left out."""
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


def compare(report, trace, permille, wrong):
    end = report["duration_ns"]
    slack = end * permille // 1000
    exact = permille == 0
    overhead = overhead_of(trace, end)
    with_overhead = bool(trace.overhead)
    tasks = lives(trace, end, wrong)
    by_name = {trace.names[tid].replace("_", " "): task for tid, task in tasks.items()}

    def same(what, ours, theirs, slack=0):
        if theirs is not None and abs(ours - theirs) > slack:
            wrong(f"{what}: {ours} in the trace, {theirs} in the report")

    busy = collections.Counter()
    for told in report["tasks"]:
        name = told["name"]
        task = by_name.get(name.replace("_", " "))
        if task is None:
            if told["wakeups"]:
                wrong(f"{name} is not in the trace")
            continue
        runs = executed(task, overhead)
        ran = sum(span for _, span in runs)
        for cpu, span in runs:
            busy[cpu] += span
        if with_overhead:
            paused = task.spans["running"] - ran
            same(f"{name} ran", ran, told["runtime_ns"], slack)
            same(f"{name} waited", task.spans["runnable"] + paused, told["wait_ns"], slack)
            same(f"{name} slept", task.spans["sleeping"], told["sleep_ns"], slack)
            cpus = [cpu for cpu, _ in runs]
            moves = sum(one != other for one, other in zip(cpus, cpus[1:]))
            same(f"{name} migrated", moves, told["migrations"], slack)
        else:
            # The text does not tell the scheduler's own work from the task's.
            whole = task.spans["running"] + task.spans["runnable"]
            same(f"{name} ran and waited", whole, told["runtime_ns"] + told["wait_ns"], slack)
        if exact:
            same(f"{name} was woken", task.wakeups, told["wakeups"])
            same(f"{name} was switched in", task.switches, told["switches"])
    for told in report["cpus"] if with_overhead else []:
        cpu = told["cpu"]
        worked = sum(to - at for at, to in overhead[cpu])
        same(f"CPU {cpu} worked for the scheduler", worked, told["overhead_ns"], slack)
        same(f"CPU {cpu} was idle", end - worked - busy[cpu], told["idle_ns"], slack)
    same("timers that expired", len(trace.expired), report["timers"]["expired"])
    check_arrows(trace, wrong)


def check_arrows(trace, wrong):
    woken = {(at, tid) for at, tid, state, _ in trace.states if state == "runnable"}
    for flow, ends in trace.arrows.items():
        if [end for _, end, _ in ends] != ["from", "to"]:
            wrong(f"arrow {flow} has the ends {ends}")
        elif (ends[1][0], ends[1][2]) not in woken:
            wrong(f"arrow {flow} ends where nobody is woken: {ends}")


def main():
    report_path, trace_path = sys.argv[1:3]
    permille = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    found = []
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    read = read_perfetto if trace_path.endswith(".pftrace") else read_ftrace
    trace = read(trace_path, found.append)
    compare(report, trace, permille, found.append)
    for line in found[:20]:
        print(f"{trace_path}: {line}")
    marks = f"{len(trace.arrows)} arrows, {len(trace.expired)} expiries"
    throttles = f"{len(trace.throttled)} throttle marks"
    verdict = f"{len(found)} differences" if found else "as the report says"
    print(f"{trace_path}: {len(trace.states)} states, {marks}, {throttles}: {verdict}")
    sys.exit(1 if found else 0)


main()
