#!/bin/sh
# The workloads of `cargo xtask replay`, each before and after a change of the machine or of its tasks.
#
#     workloads.sh record NAME VARIANT FOLDER    records NAME into FOLDER/NAME-VARIANT.txt and .snapshot
#     workloads.sh run NAME VARIANT FOLDER       runs it alone, for some four seconds
#
# VARIANT begins with `after` for the changed workload; any other word is the workload as it was. It needs root, for ftrace, groups
# and CPUs. $RUNYARD is the command and $SNAPSHOT the script of the guide.
set -eu
action=$1 name=$2 variant=$3 folder=$4
script=$0
scratch=/tmp/runyard-replay
tracing=/sys/kernel/tracing
events="sched_switch sched_waking sched_wakeup_new sched_stat_runtime"

# changed BEFORE AFTER: prints the one of this variant.
changed() { case $variant in after*) echo "$2" ;; *) echo "$1" ;; esac; }

# hogs NUMBER NICE: starts tasks without an end, nearly all of whose work is in user mode.
hogs() {
    hogs=
    for _ in $(seq "$1"); do
        nice -n "$2" gzip -9 < /dev/zero > /dev/null &
        hogs="$hogs $!"
    done
}

# The CPU controller's directory of a group for a limited workload.
group() {
    if [ -d /sys/fs/cgroup/cpu ]; then echo /sys/fs/cgroup/cpu/runyard-replay; else echo /sys/fs/cgroup/runyard-replay; fi
}

limit() {
    mkdir -p "$(group)"
    if [ -e "$(group)/cpu.max" ]; then
        echo "$1 100000" > "$(group)/cpu.max"
    else
        echo "$1" > "$(group)/cpu.cfs_quota_us"
    fi
}

postgres() { su postgres -c "PATH=$(echo /usr/lib/postgresql/*/bin | tr ' ' ':'):\$PATH; cd $scratch; $1"; }

# What a workload needs around it: servers, a group, a CPU less.
start() {
    rm -rf $scratch
    mkdir -p $scratch
    case $name in
    pipeline)
        changed 1 0 > /sys/devices/system/cpu/cpu1/online
        ;;
    web)
        mkdir $scratch/www
        seq 1 3000 > $scratch/www/index.html
        printf 'function delay() return math.random(5, 15) end\n' > $scratch/delay.lua
        cat > $scratch/nginx.conf <<END
worker_processes 1;
pid $scratch/pid;
error_log $scratch/errors;
events { worker_connections 256; }
http {
    access_log off; gzip on; gzip_comp_level 6; gzip_types text/plain;
    server { listen 127.0.0.1:8099; root $scratch/www; }
}
END
        chmod -R a+rX $scratch
        setsid nginx -c $scratch/nginx.conf
        ;;
    batch)
        slice=$(changed '' '"slice": 20000, ')
        echo "{\"tasks\": {\"hog\": {\"instance\": 4, $slice\"loop\": -1, \"run\": 100000}}, \"global\": {\"duration\": 4}}" \
            > $scratch/hogs.json
        ;;
    limit)
        limit "$(changed 80000 150000)"
        echo $$ > "$(group)/cgroup.procs"
        ;;
    database)
        chown postgres $scratch
        cat > $scratch/hot.sql <<'END'
\set id random(1, 3)
BEGIN;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = :id;
SELECT sum(abalance) FROM pgbench_accounts WHERE aid < 500;
COMMIT;
END
        postgres "initdb -D data -A trust && pg_ctl -D data -o '-k $scratch -c fsync=off -c listen_addresses=' -l log -w start &&
            createdb -h $scratch bench && pgbench -h $scratch -i -q -s 3 bench" > $scratch/started 2>&1
        ;;
    esac
}

stop() {
    case $name in
    pipeline) echo 1 > /sys/devices/system/cpu/cpu1/online ;;
    web) nginx -c $scratch/nginx.conf -s stop ;;
    database) postgres "pg_ctl -D data -m fast -w stop" > $scratch/stopped 2>&1 ;;
    esac
}

run() {
    case $name in
    pipeline)
        # The reader ends first, so all stages end.
        timeout 4 sh -c 'seq 1 100000000 | gawk "{print \$1*3}" | gzip -1 > /dev/null' || true
        ;;
    web)
        hogs 2 "$(changed 0 10)"
        wrk -t1 -c16 -d4 -H 'Accept-Encoding: gzip' -s $scratch/delay.lua http://127.0.0.1:8099/ > $scratch/wrk
        kill $hogs
        ;;
    compile)
        hogs 1 0
        chrt $(changed '-o 0' '-i 0') timeout 12 cargo build -q --offline -p runyard-macros --target-dir $scratch/target
        kill $hogs
        ;;
    batch)
        "$RUNYARD" linux $scratch/hogs.json > $scratch/hogs 2>&1 &
        timeout 6 cyclictest -q --policy=other -i 4000 -t1 -D 4 > $scratch/cyclictest
        wait
        ;;
    limit)
        timeout 4 sh -c 'head -c 2000000000 /dev/urandom | pigz -p 3 > /dev/null' || true
        ;;
    database)
        hogs "$(changed 2 4)" 0
        pgbench -U postgres -h $scratch -n -f $scratch/hot.sql -c 6 -j 2 -R 600 -T 4 bench > $scratch/pgbench 2>&1
        kill $hogs
        ;;
    esac
    wait
}

record() {
    echo 0 > $tracing/tracing_on
    echo > $tracing/set_event
    echo > $tracing/trace
    echo 98304 > $tracing/buffer_size_kb
    for event in $events; do echo 1 > $tracing/events/sched/$event/enable; done
    echo 1 > $tracing/tracing_on
    sh "$SNAPSHOT" "$folder/$name-$variant.snapshot" timeout 60 sh "$script" run "$name" "$variant" "$folder"
    echo 0 > $tracing/tracing_on
    cat $tracing/trace > "$folder/$name-$variant.txt"
    echo > $tracing/set_event
    echo > $tracing/trace
    echo 1408 > $tracing/buffer_size_kb
}

case $action in
record)
    # Also after a failure: a CPU may be off.
    trap stop EXIT
    start
    record
    ;;
run) run ;;
esac
