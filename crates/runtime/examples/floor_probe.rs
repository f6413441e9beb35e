//! x
use runyard::floor::{Way, handoffs};
use runyard::{Runtime, Task, spawn};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
fn show(name: &str, mut v: Vec<u64>) {
    v.sort_unstable();
    println!(
        "{name}: n {} p50 {} p99 {} max {}",
        v.len(),
        v[v.len() / 2],
        v[v.len() * 99 / 100],
        v[v.len() - 1]
    );
}
fn main() {
    for _ in 0..3 {
        for way in [Way::Signal, Way::Priority] {
            let v = std::thread::spawn(move || handoffs(way, 0, 1, 3000)).join().unwrap().unwrap();
            show(&format!("{way:?}"), v.iter().map(|n| n.0).collect());
        }
        let runtime = Runtime::builder().workers(1).build();
        let slot: Arc<Mutex<(Option<std::task::Waker>, Option<Instant>)>> = Arc::default();
        let theirs = slot.clone();
        let lat: Arc<Mutex<Vec<u64>>> = Arc::default();
        let l2 = lat.clone();
        runtime.block_on(async {
            let _hog = spawn(async {
                let e = Instant::now() + Duration::from_secs(3);
                while Instant::now() < e {}
            });
            let _p = Task::builder().fifo(50).spawn(async move {
                loop {
                    std::future::poll_fn(|cx| {
                        let n = Instant::now();
                        let mut s = theirs.lock().unwrap();
                        if let Some(t) = s.1.take() {
                            l2.lock().unwrap().push((n - t).as_nanos() as u64);
                            s.0 = None;
                            return std::task::Poll::Ready(());
                        }
                        s.0 = Some(cx.waker().clone());
                        std::task::Poll::Pending
                    })
                    .await;
                }
            });
        });
        std::thread::spawn(move || {
            rustix::thread::sched_setaffinity(None, &{
                let mut c = rustix::thread::CpuSet::new();
                c.set(1);
                c
            })
            .unwrap();
            for _ in 0..3000 {
                std::thread::sleep(Duration::from_micros(237));
                let w = {
                    let mut s = slot.lock().unwrap();
                    let w = s.0.take();
                    if w.is_some() {
                        s.1 = Some(Instant::now());
                    }
                    w
                };
                if let Some(w) = w {
                    w.wake();
                }
            }
        })
        .join()
        .unwrap();
        let v = std::mem::take(&mut *lat.lock().unwrap());
        show("runyard", v);
        std::mem::forget(runtime);
    }
    std::process::exit(0);
}
