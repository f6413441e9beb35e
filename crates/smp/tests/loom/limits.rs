//! Races for the budget of a task group.

use crate::host::{self, Bench, Handle, normal, on};
use crate::{explore_ways, machine, rt_only};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;

/// Lets CPU 0 and CPU 1 run tasks of a group with 10 ms, of which CPU 0 has drawn half.
fn limited() -> (Bench, [Handle; 2]) {
    let mut bench = machine(2, rt_only());
    bench.act(|cpu| cpu.set_limit(Some(10)));
    let tasks = [0, 1].map(|cpu| {
        let task = bench.spawn(normal(), &[cpu]);
        let moved = task.clone();
        bench.act(move |cpu| cpu.set_group(&moved, host::GROUP));
        task
    });
    (bench, tasks)
}

/// No CPU is left waiting for budget that another CPU gives back at the same moment.
#[test]
fn giving_budget_back_races_being_throttled() {
    explore_ways(None, || {
        let (mut bench, [_, other]) = limited();
        let late = Time(6_000_000);
        bench.race([
            on(0, |cpu| cpu.block_at(Time(1_000_000))),
            on(1, move |cpu| {
                cpu.expire(late);
                cpu.reschedule_at(late);
            }),
        ]);
        assert!(bench.runs(&other), "of 10 ms 7 are used");
        assert_eq!(bench.machine().waits_in_vain(late, host::GROUP), None);
        bench.machine().usage(late, host::GROUP).nr_throttled
    });
}

#[test]
fn a_new_limit_races_a_switch_and_the_end_of_a_grant() {
    explore_ways(Some(3), || {
        let (mut bench, [_, other]) = limited();
        let late = Time(12_000_000);
        bench.race([
            on(0, |cpu| cpu.block_at(Time(1_000_000))),
            on(2, |cpu| cpu.set_limit(Some(20))),
            on(1, move |cpu| {
                cpu.expire(late);
                cpu.reschedule_at(late);
            }),
        ]);
        assert!(bench.runs(&other), "there is a whole new budget");
        bench.machine().cpu(CpuId(1)).inspect(|rq| rq.queues().held(host::GROUP))
    });
}
