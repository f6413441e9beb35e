//! The end of the runtime.

use super::*;

#[test]
fn the_end_drops_futures_on_the_thread_that_ends_the_runtime() {
    ends(|| {
        let kinds: [fn(Runtime); 3] =
            [drop, |it| it.shutdown_timeout(10_000 * MS), Runtime::shutdown_background];
        for end in kinds {
            let dropped = Arc::default();
            let runtime = runtime();
            drop(runtime.spawn(noted(&dropped)));
            runtime.block_on(yield_now());
            drop(runtime.spawn(noted(&dropped)));
            assert!(dropped.lock().unwrap().is_empty());
            let elsewhere = thread::spawn(move || {
                end(runtime);
                here()
            });
            let on = elsewhere.join().unwrap();
            assert_eq!(*dropped.lock().unwrap(), [on, on]);
        }
    });
}

#[test]
fn the_end_waits_for_blocking_functions_unless_it_has_no_time() {
    ends(|| {
        let done = Arc::new(AtomicBool::new(false));
        let runtime = runtime();
        let tells = done.clone();
        drop(runtime.spawn_blocking(move || {
            thread::sleep(20 * MS);
            tells.store(true, Ordering::SeqCst);
        }));
        drop(runtime);
        assert!(done.load(Ordering::SeqCst), "it ran, although it had not begun");
        let runtime = self::runtime();
        let (ends, ended) = channel::<()>();
        drop(runtime.spawn_blocking(move || ended.recv()));
        runtime.block_on(yield_now());
        let began = Instant::now();
        runtime.shutdown_timeout(20 * MS);
        assert!(began.elapsed() < 10_000 * MS);
        drop(ends);
    });
}

#[test]
fn a_runtime_that_is_dropped_in_its_own_task_ends() {
    ends(|| {
        let dropped = Arc::default();
        let runtime = Arc::new(runtime());
        let waits = runtime.spawn(noted(&dropped));
        let own = runtime.clone();
        let handle = runtime.handle().clone();
        let (give, given) = channel::<Runtime>();
        let drops = runtime.spawn(async move {
            yield_now().await;
            drop(given.recv().unwrap());
        });
        drop(own);
        give.send(Arc::into_inner(runtime).unwrap()).unwrap();
        // It is cancelled as the runtime ends, or was over before.
        let _ = handle.block_on(drops);
        assert!(handle.block_on(waits).unwrap_err().is_cancelled());
        assert_eq!(dropped.lock().unwrap().len(), 1);
        // The handle outlives the runtime.
        assert!(handle.block_on(handle.spawn(async {})).unwrap_err().is_cancelled());
        handle.block_on(time::sleep(MS));
    });
}

#[test]
fn a_call_goes_on_when_the_runtime_ends_elsewhere() {
    ends(|| {
        let runtime = runtime();
        let handle = runtime.handle().clone();
        let dropped = Arc::default();
        drop(handle.spawn(noted(&dropped)));
        let (began, begins) = channel();
        let calls = thread::spawn(move || {
            handle.block_on(async {
                began.send(()).unwrap();
                time::sleep(60 * MS).await;
                assert!(spawn(async {}).await.unwrap_err().is_cancelled());
                time::sleep(MS).await;
                here()
            })
        });
        begins.recv().unwrap();
        drop(runtime);
        let on = dropped.lock().unwrap().clone();
        assert_eq!(calls.join().unwrap(), on[0], "it ran the tasks");
    });
}

/// Seen failing: there was no current runtime, and the rest of the destructor was skipped.
#[test]
fn the_end_drops_futures_inside_the_runtime() {
    struct Spawns(Arc<AtomicUsize>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            assert!(Handle::try_current().is_ok());
            drop(spawn(async { unreachable!("the runtime ends") }));
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    ends(|| {
        let kinds: [fn(Runtime); 3] =
            [drop, |it| it.shutdown_timeout(10_000 * MS), Runtime::shutdown_background];
        for end in kinds {
            let (runtime, drops) = (runtime(), Arc::new(AtomicUsize::new(0)));
            let waits = |spawns| async move {
                pending::<()>().await;
                drop(spawns);
            };
            drop(runtime.spawn(waits(Spawns(drops.clone()))));
            runtime.block_on(yield_now());
            drop(runtime.spawn(waits(Spawns(drops.clone()))));
            end(runtime);
            assert_eq!(drops.load(Ordering::SeqCst), 2);
        }
    });
}
