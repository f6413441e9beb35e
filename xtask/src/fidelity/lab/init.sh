#!/bin/busybox sh
# The first process of the guest. It runs what /in/list names, and sends the results through a port of virtio. A
# frame is a line "FRAME NAME KIND BYTES", and so many bytes. The last words of the kernel command line are its options.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup
for module in /lib/*.ko; do [ -e "$module" ] && insmod "$module"; done
until port=$(ls /dev/vport* 2> /dev/null); do sleep 0.1; done
trace=/sys/kernel/tracing

send() { # NAME KIND FILE
    { echo "FRAME $1 $2 $(stat -c %s "$3")"; cat "$3"; } > "$port"
}

# Waits for three seconds in a row with at most 1 % of work, or for a minute.
settle() {
    quiet=0 tries=0
    while [ $quiet -lt 3 ] && [ $tries -lt 60 ]; do
        before=$(awk '/^cpu /{print $5 + $6, $2 + $3 + $4 + $5 + $6 + $7 + $8}' /proc/stat)
        sleep 1
        after=$(awk '/^cpu /{print $5 + $6, $2 + $3 + $4 + $5 + $6 + $7 + $8}' /proc/stat)
        if echo "$before $after" | awk '{exit !(($4 - $2) - ($3 - $1) <= ($4 - $2) / 100)}'; then
            quiet=$((quiet + 1))
        else
            quiet=0
        fi
        tries=$((tries + 1))
    done
    echo "settled $quiet at $(cat /proc/uptime)"
}

traced() { # COMMAND...: its output is in /tmp/out and /tmp/err, its exit status in $status
    echo > $trace/trace
    echo 1 > $trace/tracing_on
    # The trace begins with an idle CPU, where no task has a lag.
    sleep 0.1
    "$@" > /tmp/out 2> /tmp/err
    status=$?
    echo 0 > $trace/tracing_on
}

echo 0 > $trace/tracing_on
echo mono > $trace/trace_clock
echo 131072 > $trace/buffer_size_kb
for event in switch waking wakeup_new migrate_task stat_runtime; do echo 1 > $trace/events/sched/sched_$event/enable; done
{
    uname -r
    cat /sys/kernel/debug/sched/features
    cat /sys/kernel/debug/sched/preempt 2> /dev/null || echo unknown
    cat /sys/kernel/debug/sched/base_slice_ns 2> /dev/null || cat /sys/kernel/debug/sched/min_granularity_ns
    cat /proc/sys/kernel/sched_autogroup_enabled
    cat /sys/devices/system/clocksource/clocksource0/current_clocksource
} > /tmp/facts
send - facts /tmp/facts
settle
while read -r name options; do
    echo "$name begins at $(cat /proc/uptime)"
    if [ "$name" = calibrate ]; then
        traced runyard calibrate --json
    else
        # shellcheck disable=SC2086 # The options are words.
        traced runyard linux "/in/$name.json" --json $options
    fi
    if [ $status -ne 0 ]; then
        send "$name" failed /tmp/err
        continue
    fi
    send "$name" report /tmp/out
    cat $trace/trace > /tmp/trace
    send "$name" trace /tmp/trace
done < /in/list
echo "done at $(cat /proc/uptime)"
sync
poweroff -f
