//! A runtime in virtual time, for tests: docs/design/paused.md tells why it is as it is.
//!
//! The tasks, timers, groups and mutexes are those of [`crate::shared::Shared`], and the decisions are those of the
//! machine. In place of workers there is a [`clockwork`], which is a loop on the thread of the test, and in place of
//! the machine's clock the time that this loop keeps ([`here`]). Polls run on [`hands`], one at a time.
//!
//! Rejected: a second set of the public functions (each would have to be kept equal to the first); polls on the
//! loop's own thread (a task that computes could go on only after those that began later); preemption by signals
//! (what a task did before it was stopped would depend on the machine).

pub(crate) mod clockwork;
pub(crate) mod hands;
pub(crate) mod host;
pub mod test;

#[cfg(test)]
mod tests {
    use crate::os::sync::Arc;
    use crate::paused::test::{self};
    use crate::runtime::current;
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
