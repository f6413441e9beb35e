//! A runtime in virtual time, for tests. The design is in docs/design/paused.md.
//!
//! The tasks, timers, groups and mutexes are those of [`crate::shared::Shared`], and the machine makes the decisions. A
//! [`clockwork`] takes the place of the workers; it is a loop on the thread of the test. The time that this loop keeps
//! ([`here`]) takes the place of the machine's clock. Polls run on [`hands`], one at a time.
//!
//! Rejected:
//! * A second set of the public functions. Each would have to be kept equal to the first.
//! * Polls on the loop's own thread. A computing task could continue only after those that began later.
//! * Preemption by signals. The progress of a task before it is stopped would depend on the machine.

pub(crate) mod clockwork;
pub(crate) mod hands;
pub mod test;

#[cfg(test)]
mod tests {
    use crate::current::runtime::current;
    use crate::os::sync::Arc;
    use crate::paused::test::{self};
    use crate::{Limit, Task, spawn, sync, time};
    use std::time::Duration;

    #[test]
    fn nothing_is_left_of_a_runtime_in_virtual_time() {
        let ms = Duration::from_millis;
        let shared = test::paused(1).cpus(2).run(async move {
            let group = test::group("some").limit(Limit::new(ms(1), ms(10))).create().unwrap();
            let lock = Arc::new(sync::Mutex::new(()));
            for _ in 0..20 {
                let lock = lock.clone();
                drop(Task::builder().group(&group).spawn(async move {
                    let _has = lock.lock().await;
                    test::compute(ms(1));
                    time::sleep(ms(7)).await;
                }));
            }
            spawn(async move { test::compute(ms(20)) }).await.unwrap();
            Arc::downgrade(&current())
        });
        assert_eq!(shared.strong_count(), 0);
    }
}
