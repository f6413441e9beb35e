//! Long polls are reported, with their backtraces.
//!
//! Other processes may have the CPUs for a while, and then a short poll lasts long as well. So a test that asserts that
//! nothing is reported has a limit of half a second.
#![cfg(all(target_os = "linux", not(any(loom, runyard_portable))))]

use runyard::{NoBacktrace, Runtime, StallReport, Task, blocking, spawn, yield_now};
use std::backtrace::Backtrace;
use std::hint::black_box;
use std::io::{Read, Write, pipe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_millis(500);

/// Time for which a test waits for a report, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The reports of a runtime.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<StallReport>>>);

impl Reports {
    fn runtime(&self, workers: usize, after: Duration) -> Runtime {
        let reports = self.clone();
        let tells = move |report: &StallReport| reports.0.lock().unwrap().push(report.clone());
        Runtime::builder().workers(workers).on_stall(after, tells).build()
    }

    /// Returns the number of reports of the task with that name.
    fn of(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|report| report.name.as_deref() == Some(name)).count()
    }

    fn first(&self) -> StallReport {
        self.0.lock().unwrap()[0].clone()
    }
}

/// Computes until `done` returns true.
#[inline(never)]
fn computes_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !black_box(done()) {
        assert!(began.elapsed() < LIMIT, "no report came");
    }
}

/// Calls nothing: a backtrace ends at a function without unwind tables, such as those of the C library in a static
/// program.
#[inline(never)]
fn spins_until(enough: &AtomicBool) {
    while !enough.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

#[test]
fn a_long_poll_is_reported_once_with_its_name_and_its_place() {
    let (tell, told) = channel();
    let tells = move |report: &StallReport| tell.send(report.clone()).unwrap();
    let runtime = Runtime::builder().workers(1).on_stall(SHORT, tells).build();
    let enough = Arc::new(AtomicBool::new(false));
    let spins = enough.clone();
    let hog = async move { spins_until(&spins) };
    let hog = Task::builder().name("hog").nice(3).spawn_on(hog, runtime.handle());
    let id = hog.id();
    let report = told.recv_timeout(LIMIT);
    thread::sleep(5 * SHORT);
    enough.store(true, Ordering::SeqCst);
    runtime.block_on(hog).unwrap();
    drop(runtime);
    assert!(told.try_recv().is_err(), "it is reported once");
    let report = report.expect("a report came");
    assert!(report.task == id && report.lasted >= SHORT, "{report}");
    let said = report.to_string();
    assert!(said.contains("`hog`") && said.contains("spins_until"), "{said}");
}

#[test]
fn short_polls_are_not_reported_however_many_they_are() {
    let reports = Reports::default();
    let runtime = reports.runtime(1, LONG);
    runtime.block_on(async {
        let yields = async {
            let begin = Instant::now();
            while begin.elapsed() < 2 * LONG {
                yield_now().await;
            }
        };
        spawn(yields).await.unwrap();
    });
    drop(runtime);
    assert!(reports.0.lock().unwrap().is_empty());
}

#[test]
fn two_stalls_give_two_reports() {
    let reports = Reports::default();
    let runtime = reports.runtime(1, SHORT);
    let seen = reports.clone();
    let twice = async move {
        computes_until(|| seen.of("twice") == 1);
        yield_now().await;
        computes_until(|| seen.of("twice") == 2);
    };
    runtime.block_on(Task::builder().name("twice").spawn_on(twice, runtime.handle())).unwrap();
    drop(runtime);
    assert_eq!(reports.of("twice"), 2);
}

#[test]
fn a_poll_that_waits_in_a_system_call_is_reported_and_goes_on() {
    let (mut reader, mut writer) = pipe().unwrap();
    let reports = Arc::new(AtomicUsize::new(0));
    let (tell, told) = channel();
    let count = reports.clone();
    let tells = move |report: &StallReport| {
        // Another poll may last long as well, if its CPU is taken away meanwhile.
        if report.name.as_deref() == Some("reads") && count.fetch_add(1, Ordering::SeqCst) == 0 {
            tell.send(report.to_string()).unwrap();
        }
    };
    let runtime = Runtime::builder().workers(1).on_stall(SHORT, tells).build();
    let reads = async move {
        let mut byte = [0];
        // The signal does not end the read.
        reader.read(&mut byte).map(|len| (len, byte[0]))
    };
    let reads = Task::builder().name("reads").spawn_on(reads, runtime.handle());
    // Other tasks have its CPU meanwhile.
    let others = runtime.spawn(async { 7 });
    assert_eq!(runtime.block_on(others).unwrap(), 7);
    let said = told.recv_timeout(LIMIT).unwrap();
    writer.write_all(&[5]).unwrap();
    assert_eq!(runtime.block_on(reads).unwrap().unwrap(), (1, 5));
    assert!(said.contains("read"), "{said}");
    drop(runtime);
    assert_eq!(reports.load(Ordering::SeqCst), 1);
}

/// The other long poll is reported, and would be reported after this one.
#[test]
fn a_function_that_was_said_to_block_is_not_reported() {
    let reports = Reports::default();
    let runtime = reports.runtime(1, LONG);
    let seen = reports.clone();
    runtime.block_on(async move {
        let (release, released) = channel::<()>();
        let (begins, has_begun) = channel();
        let function = Task::builder().name("function").spawn_blocking(move || {
            begins.send(()).unwrap();
            released.recv_timeout(LIMIT).unwrap();
        });
        let other = Task::builder().name("other").spawn(async move {
            blocking(|| has_begun.recv().unwrap());
            yield_now().await;
            computes_until(|| seen.of("other") > 0);
            release.send(()).unwrap();
        });
        other.await.unwrap();
        function.await.unwrap();
    });
    drop(runtime);
    assert_eq!((reports.of("other"), reports.of("function")), (1, 0));
}

/// The same holds in a poll that announced only its sections.
#[test]
fn neither_a_section_that_blocks_nor_a_stopped_poll_is_reported() {
    let reports = Reports::default();
    let runtime = reports.runtime(1, LONG);
    let seen = reports.clone();
    runtime.block_on(async move {
        let (release, released) = channel();
        let blocks = Task::builder().name("blocks").spawn(async move {
            blocking(|| released.recv_timeout(LIMIT).unwrap());
        });
        let (begun, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_begun, is_over) = (begun.clone(), over.clone());
        let stopped = Task::builder().name("stopped").spawn(async move {
            begun.store(true, Ordering::SeqCst);
            computes_until(|| over.load(Ordering::SeqCst));
        });
        let urgent = Task::builder().name("urgent").fifo(5).spawn(async move {
            while !is_begun.load(Ordering::SeqCst) {
                runyard::time::sleep(Duration::from_micros(100)).await;
            }
            computes_until(|| seen.of("urgent") > 0);
            is_over.store(true, Ordering::SeqCst);
            release.send(()).unwrap();
        });
        urgent.await.unwrap();
        stopped.await.unwrap();
        blocks.await.unwrap();
    });
    drop(runtime);
    assert_eq!(["urgent", "stopped", "blocks"].map(|name| reports.of(name)), [1, 0, 0]);
}

/// Stacks are copied all the time, from threads that allocate and unwind.
#[test]
fn a_stack_may_be_taken_in_the_allocator_and_while_others_unwind() {
    let reports = Arc::new(AtomicUsize::new(0));
    let (count, whole) = (reports.clone(), Arc::new(AtomicUsize::new(0)));
    let taken = whole.clone();
    let tells = move |report: &StallReport| {
        count.fetch_add(1, Ordering::SeqCst);
        // The backtrace reaches down to the poll.
        let deep = report.backtrace.as_ref().is_ok_and(|backtrace| backtrace.addresses().len() > 5);
        taken.fetch_add(usize::from(deep), Ordering::SeqCst);
    };
    let after = Duration::from_micros(100);
    let runtime = Runtime::builder().workers(2).on_stall(after, tells).build();
    let allocates = || {
        let lists: Vec<Vec<u8>> = (1..300).map(|len| vec![1; 37 * len]).collect();
        assert_eq!(black_box(lists).len(), 299);
    };
    let unwinds = || drop(black_box(Backtrace::force_capture()));
    let reported = reports.clone();
    runtime.block_on(async {
        let tasks = (0..6).map(|nth| {
            let reports = reported.clone();
            spawn(async move {
                let began = Instant::now();
                while reports.load(Ordering::SeqCst) < 1_000 && began.elapsed() < LIMIT {
                    (0..8).for_each(|_| if nth % 2 == 0 { allocates() } else { unwinds() });
                    yield_now().await;
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    drop(runtime);
    let (reports, whole) = (reports.load(Ordering::SeqCst), whole.load(Ordering::SeqCst));
    println!("{reports} reports, {whole} with a backtrace");
    assert!(reports >= 1_000 && whole > 0, "{reports} reports, {whole} with a backtrace");
}

#[test]
fn the_callback_may_panic_spawn_and_be_called_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (count, ran) = (calls.clone(), Arc::new(AtomicBool::new(false)));
    let runs = ran.clone();
    let tells = move |_: &StallReport| match count.fetch_add(1, Ordering::SeqCst) {
        0 => panic!("a callback may panic"),
        _ => {
            let runs = runs.clone();
            spawn(async move { runs.store(true, Ordering::SeqCst) });
        }
    };
    let runtime = Runtime::builder().workers(2).on_stall(SHORT, tells).build();
    runtime.block_on(async {
        let (first, second) = (calls.clone(), ran.clone());
        spawn(async move { computes_until(|| first.load(Ordering::SeqCst) > 0) }).await.unwrap();
        spawn(async move { computes_until(|| second.load(Ordering::SeqCst)) }).await.unwrap();
    });
    assert!(calls.load(Ordering::SeqCst) >= 2);
}

#[test]
fn the_end_of_a_runtime_waits_for_a_report_that_is_under_way() {
    let (begins, has_begun) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let tells = move |_: &StallReport| {
        begins.send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        is_over.store(true, Ordering::SeqCst);
    };
    let runtime = Runtime::builder().workers(1).on_stall(SHORT, tells).build();
    let ends = Arc::new(AtomicBool::new(false));
    let hog = ends.clone();
    runtime.spawn(async move { computes_until(|| hog.load(Ordering::SeqCst)) });
    has_begun.recv_timeout(LIMIT).unwrap();
    ends.store(true, Ordering::SeqCst);
    let ending = thread::spawn(move || drop(runtime));
    thread::sleep(SHORT);
    assert!(!ending.is_finished());
    release.send(()).unwrap();
    ending.join().unwrap();
    assert!(over.load(Ordering::SeqCst));
}

/// The callback has the last handle.
#[test]
fn the_callback_may_end_the_runtime() {
    let runtime = Arc::new(Mutex::new(None::<Runtime>));
    let (ends, has_ended) = (Arc::new(AtomicBool::new(false)), channel());
    let (taken, is_ending) = (runtime.clone(), ends.clone());
    let tells = move |_: &StallReport| {
        let runtime = taken.lock().unwrap().take();
        is_ending.store(true, Ordering::SeqCst);
        drop(runtime);
        let _ = has_ended.0.send(());
    };
    let mut filled = runtime.lock().unwrap();
    let runtime = filled.insert(Runtime::builder().workers(1).on_stall(SHORT, tells).build());
    runtime.spawn(async move { computes_until(|| ends.load(Ordering::SeqCst)) });
    drop(filled);
    has_ended.1.recv_timeout(LIMIT).unwrap();
}

#[test]
fn who_cooperates_is_reported_without_a_backtrace() {
    let reports = Reports::default();
    let (seen, tells) = (reports.clone(), reports.clone());
    let tells = move |report: &StallReport| tells.0.lock().unwrap().push(report.clone());
    let runtime = Runtime::builder().workers(1).preempt(false).on_stall(SHORT, tells).build();
    let hog = async move { computes_until(|| seen.of("hog") > 0) };
    runtime.block_on(Task::builder().name("hog").spawn_on(hog, runtime.handle())).unwrap();
    assert_eq!(reports.first().backtrace.unwrap_err(), NoBacktrace::Cooperative);
}

/// The detector's thread rests after a second without a poll.
#[test]
fn a_stall_after_a_long_rest_is_reported() {
    let reports = Reports::default();
    let runtime = reports.runtime(1, SHORT);
    thread::sleep(Duration::from_millis(1_500));
    let seen = reports.clone();
    let hog = async move { computes_until(|| seen.of("hog") > 0) };
    runtime.block_on(Task::builder().name("hog").spawn_on(hog, runtime.handle())).unwrap();
}
