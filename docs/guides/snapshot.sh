#!/bin/sh
# Writes down what recorders of the scheduler leave out: the policies, CPUs and task groups of all tasks, the sessions that
# the kernel groups (autogroups), and the limits and weights of the groups. It needs awk, and takes a fraction of a second.
#
#     perf sched record -- sh snapshot.sh snapshot.txt sleep 5
#     perf script --ns --header > recorded.txt
#     runyard replay recorded.txt --snapshot snapshot.txt
#
# It writes the file, runs the command, and writes again. The first time knows the tasks that end during the recording, the
# second time those that begin.
snapshot() {
    echo runyard-snapshot 1
    echo /proc/[0-9]*/task/[0-9]* | tr ' ' '\n' | awk '
function first(file,    text) { text = ""; getline text < file; close(file); return text }

# The directory of a group of cgroup v2, or of version 1.
function v2(path) { return (unified ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup") path }
function v1(path) { return "/sys/fs/cgroup/cpu" path }

function parent(path) { sub(/\/[^\/]*$/, "", path); return path == "" ? "/" : path }

# Prints a group once, after the groups above it.
function tell(path,    keys, value, period) {
    if (path == "/" || path in told) return
    told[path] = 1
    tell(parent(path))
    keys = ""
    if ((value = first(v2(path) "/cpu.max")) != "") keys = keys "\tcpu.max=" value
    if ((value = first(v2(path) "/cpu.weight")) != "") keys = keys "\tcpu.weight=" value
    if ((value = first(v2(path) "/cpu.idle")) != "") keys = keys "\tcpu.idle=" value
    if ((value = first(v1(path) "/cpu.shares")) != "") keys = keys "\tweight=" value
    if ((value = first(v1(path) "/cpu.cfs_quota_us")) > 0) {
        period = first(v1(path) "/cpu.cfs_period_us")
        keys = keys "\tcpu.max=" value " " period
    }
    print "group\t" path keys
}

BEGIN {
    unified = first("/sys/fs/cgroup/unified/cgroup.procs") != "" || first("/sys/fs/cgroup/cpu/tasks") != ""
    sessions = first("/proc/sys/kernel/sched_autogroup_enabled") == 1
}

{
    split($0, part, "/")
    stat = first($0 "/stat")
    if (!match(stat, /^.*\) /)) next
    # The state is the third field.
    split(substr(stat, RLENGTH + 1), field, " ")
    policy = field[39]
    cpus = "-"
    while ((getline text < ($0 "/status")) > 0)
        if (text ~ /^Cpus_allowed_list:/) { sub(/^[^\t]*\t/, "", text); cpus = text }
    close($0 "/status")
    old = ""; group = "/"
    while ((getline text < ($0 "/cgroup")) > 0) {
        split(text, part_of, ":")
        path = text; sub(/^[^:]*:[^:]*:/, "", path)
        if (part_of[1] == "0") group = path
        else if (("," part_of[2] ",") ~ /,cpu,/) old = path
    }
    close($0 "/cgroup")
    if (old != "") group = old
    else while (group != "/" && first(v2(group) "/cpu.weight") == "") group = parent(group)
    session = sessions && group == "/" ? first("/proc/" part[3] "/autogroup") : ""
    if (session != "" && split(session, words, " ") == 3) {
        group = words[1]
        if (!(group in told)) print "group\t" group "\tcpu.weight.nice=" words[3]
        told[group] = 1
    }
    tell(group)
    print "task\t" part[5] "\t" policy "\t" cpus "\t" group
}'
}

file=$1
shift
snapshot > "$file"
"$@"
status=$?
snapshot >> "$file"
exit $status
