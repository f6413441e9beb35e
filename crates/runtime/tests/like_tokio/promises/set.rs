//! `JoinSet`.

use super::rt;
use crate::{Flag, HOUR, ends, ms};
use rt::JoinSet;
use std::future::pending;

#[test]
fn tasks_are_joined_in_the_order_in_which_they_end() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mut set = JoinSet::new();
            assert!(set.is_empty() && set.join_next().await.is_none());
            let flags: Vec<_> = (0..4).map(|_| Flag::default()).collect();
            for (nth, flag) in flags.iter().cloned().enumerate() {
                set.spawn(async move {
                    while !flag.is_set() {
                        rt::time::sleep(ms(1)).await;
                    }
                    nth
                });
            }
            assert!(set.len() == 4 && set.try_join_next().is_none());
            for nth in [2, 0, 3, 1] {
                flags[nth].set();
                assert_eq!(set.join_next().await.unwrap().unwrap(), nth);
            }
            assert!(set.is_empty() && set.join_next().await.is_none());
            assert!(set.try_join_next().is_none());
        });
    });
}

#[test]
fn a_panic_and_an_abort_are_joined_as_errors() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mut set = JoinSet::<()>::new();
            set.spawn(async { panic!("as the test wants it") });
            assert!(set.join_next().await.unwrap().unwrap_err().is_panic());
            let handle = set.spawn(pending());
            handle.abort();
            assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
            set.spawn_blocking(|| ());
            assert!(set.join_next().await.unwrap().is_ok());
        });
    });
}

#[test]
fn a_set_that_is_given_up_while_it_joins_loses_nothing() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mut set = JoinSet::new();
            let may_end = Flag::default();
            let may = may_end.clone();
            set.spawn(async move {
                while !may.is_set() {
                    rt::time::sleep(ms(1)).await;
                }
                7
            });
            assert!(rt::time::timeout(ms(2), set.join_next()).await.is_err());
            may_end.set();
            assert_eq!(set.join_next().await.unwrap().unwrap(), 7);
        });
    });
}

/// Returns a set of three tasks that never end, and the flags that are set when they are dropped.
fn endless() -> (JoinSet<()>, Vec<Flag>) {
    let mut set = JoinSet::new();
    let flags: Vec<_> = (0..3).map(|_| Flag::default()).collect();
    for flag in &flags {
        let held = flag.at_drop();
        set.spawn(async move {
            let _held = held;
            rt::time::sleep(HOUR).await;
        });
    }
    (set, flags)
}

#[test]
fn a_set_that_is_dropped_aborts_its_tasks() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let (set, flags) = endless();
            drop(set);
            for flag in flags {
                while !flag.is_set() {
                    rt::time::sleep(ms(1)).await;
                }
            }
        });
    });
}

#[test]
fn tasks_that_are_aborted_stay_in_the_set_until_they_are_joined() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let (mut set, flags) = endless();
            set.abort_all();
            assert_eq!(set.len(), 3);
            while let Some(joined) = set.join_next().await {
                assert!(joined.unwrap_err().is_cancelled());
            }
            assert!(flags.iter().all(Flag::is_set));
        });
    });
}

#[test]
fn a_shutdown_waits_until_all_are_dropped() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let (mut set, flags) = endless();
            set.shutdown().await;
            assert!(set.is_empty() && flags.iter().all(Flag::is_set));
        });
    });
}

#[test]
fn tasks_that_are_detached_go_on() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mut set = JoinSet::new();
            let (may_end, done) = (Flag::default(), Flag::default());
            let (may, does) = (may_end.clone(), done.clone());
            set.spawn(async move {
                while !may.is_set() {
                    rt::time::sleep(ms(1)).await;
                }
                does.set();
            });
            set.detach_all();
            assert!(set.is_empty());
            drop(set);
            may_end.set();
            while !done.is_set() {
                rt::time::sleep(ms(1)).await;
            }
        });
    });
}

#[test]
fn all_values_come_in_some_order() {
    ends(|| {
        rt::runtime(2).block_on(async {
            let set: JoinSet<_> = (0..20).map(|nth| async move { nth }).collect();
            let mut all = set.join_all().await;
            all.sort_unstable();
            assert_eq!(all, (0..20).collect::<Vec<_>>());
        });
    });
}
