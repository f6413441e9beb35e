//! Several calls of `block_on`: at once, within each other, and in tasks of other runtimes.

use super::*;

#[test]
fn of_two_calls_one_runs_the_tasks_and_the_other_takes_over() {
    ends(|| {
        let runtime = runtime();
        let (began, goes_on) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                runtime.block_on(async {
                    began.wait();
                    while !goes_on.load(Ordering::SeqCst) {
                        time::sleep(MS).await;
                    }
                    here()
                })
            });
            began.wait();
            let ran_on = runtime.block_on(async { spawn(async { here() }).await.unwrap() });
            assert_eq!(ran_on, first.thread().id(), "the first call runs the tasks");
            let handle = runtime.handle();
            let last = runtime.block_on(async {
                let task = handle.spawn(async {
                    let mut on = vec![here()];
                    while on.len() < 2 {
                        yield_now().await;
                        time::sleep(MS).await;
                        if here() != on[0] {
                            on.push(here());
                        }
                    }
                    on
                });
                time::sleep(10 * MS).await;
                goes_on.store(true, Ordering::SeqCst);
                task.await.unwrap()
            });
            assert_eq!(last, [first.join().unwrap(), here()]);
        });
    });
}

/// Many threads call at once, and each one's future needs a task.
#[test]
fn calls_come_and_go() {
    ends(|| {
        let runtime = runtime();
        thread::scope(|scope| {
            for nth in 0..8_u64 {
                let runtime = &runtime;
                scope.spawn(move || {
                    for round in 0..200_u64 {
                        let told = runtime.block_on(async {
                            let task = spawn(async move {
                                yield_now().await;
                                nth * round
                            });
                            if round % 16 == nth {
                                time::sleep(MS / 10).await;
                            }
                            task.await.unwrap()
                        });
                        assert_eq!(told, nth * round);
                    }
                });
            }
        });
    });
}

#[test]
fn a_call_within_the_call_is_refused() {
    ends(|| {
        let (one, other) = (runtime(), runtime());
        let refused = |panic: Box<dyn std::any::Any + Send>| {
            message(&*panic).contains("await the future instead")
        };
        one.block_on(async {
            let nested = catch_unwind(AssertUnwindSafe(|| Handle::current().block_on(async {})));
            assert!(nested.is_err_and(refused));
            let nested = spawn(async { Handle::current().block_on(async {}) }).await;
            assert!(nested.is_err_and(|error| refused(error.into_panic())));
            // The tasks of another runtime run, and then the code belongs to this one again.
            let inner =
                other.block_on(async { spawn(async { Handle::current().id() }).await.unwrap() });
            assert_eq!(inner, other.handle().id());
            assert_eq!(Handle::current().id(), one.handle().id());
        });
        assert_eq!(one.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    });
}

#[test]
fn a_call_in_a_task_of_a_runtime_with_workers_works() {
    ends(|| {
        let outer = Runtime::builder().workers(2).build();
        let hog = Arc::new(AtomicBool::new(true));
        let goes = hog.clone();
        let hogs = outer.spawn(async move {
            while goes.load(Ordering::Relaxed) {
                spin(MS / 10);
                yield_now().await;
            }
        });
        let tasks: Vec<_> = (0..6)
            .map(|nth| {
                outer.spawn_blocking(move || {
                    let outside = Task::current().id();
                    let inner = runtime();
                    let mutex = Arc::new(Mutex::new(0));
                    let set = LocalSet::new();
                    for _ in 0..20 {
                        let locks = mutex.clone();
                        let sum = set.block_on(&inner, async move {
                            let own = Rc::new(nth);
                            let local = spawn_local(async move { *own });
                            let tasks: Vec<_> = (0..10)
                                .map(|_| {
                                    let mutex = locks.clone();
                                    spawn(async move {
                                        let mut locked = mutex.lock().await;
                                        spin(MS / 50);
                                        yield_now().await;
                                        *locked += 1;
                                    })
                                })
                                .collect();
                            for task in tasks {
                                task.await.unwrap();
                            }
                            time::sleep(MS / 10).await;
                            local.await.unwrap()
                        });
                        assert_eq!(sum, nth);
                    }
                    assert_eq!(*mutex.blocking_lock(), 200);
                    assert_eq!(Task::current().id(), outside, "it is the outer task again");
                })
            })
            .collect();
        outer.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
            hog.store(false, Ordering::Relaxed);
            hogs.await.unwrap();
        });
    });
}

/// Seen failing: the panic named a line of this crate.
#[test]
fn a_call_within_another_one_is_refused_with_the_line_of_the_caller() {
    ends(|| {
        let (send, receive) = channel();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|it| (it.file().to_owned(), it.line()));
            let _ = send.send(place);
        }));
        let runtime = runtime();
        let line = line!() + 1;
        let nested =
            AssertUnwindSafe(|| runtime.block_on(async { runtime.handle().block_on(async {}) }));
        let refused = catch_unwind(nested);
        std::panic::set_hook(before);
        assert!(refused.is_err());
        assert!(
            receive
                .try_iter()
                .flatten()
                .any(|(file, at)| file == file!() && at.abs_diff(line) <= 3)
        );
    });
}

/// Seen failing: the function belonged to no task, and its tasks had the default attributes.
#[test]
fn a_blocking_function_belongs_to_its_task() {
    ends(|| {
        let runtime = runtime();
        let task = Task::builder().nice(5).spawn_blocking_on(
            || (Task::current().id(), spawn(async { Task::current().policy() })),
            runtime.handle(),
        );
        let id = task.id();
        runtime.block_on(async {
            let (own, child) = task.await.unwrap();
            assert_eq!(own, id);
            assert_eq!(child.await.unwrap(), Policy::Normal(runyard::Nice::new(5).unwrap()));
        });
    });
}
