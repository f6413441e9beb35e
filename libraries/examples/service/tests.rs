#[path = "../../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use super::load::{Client, Measured};
use super::*;
use axum::body::{Body, to_bytes};
use common::ends;
use runyard::{Nice, Policy, Runtime, spawn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use tower::ServiceExt;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).enable_tokio().build()
}

fn on_trial(runtime: &Runtime) -> Group {
    runtime.group("trial").limit(Limit::percent_of_machine(20.0)).create().unwrap()
}

/// Starts a service that serves until the runtime ends.
fn start(runtime: &Runtime, trial: Group, database: &Database) -> SocketAddr {
    runtime.block_on(async {
        let pool = database.open().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = runyard::serve(listener, app(pool, trial));
        spawn(server.into_future());
        address
    })
}

#[test]
fn answers_are_what_the_handlers_return() {
    let database = Database::new().unwrap();
    let runtime = runtime(2);
    let address = start(&runtime, on_trial(&runtime), &database);
    for (tenant, id) in [("paid", 1_001), ("trial", 1_002)] {
        let mut client = Client::connect(address, tenant);
        assert_eq!(client.ask("POST", "/orders", "700"), id.to_string());
        assert!(client.ask("GET", "/orders", "").starts_with(&format!("[[{id},700],[")));
        // A report is a fifth of the sum of 100, 200, .. 100,000.
        assert_eq!(client.ask("GET", "/report", ""), "10010000");
    }
}

#[test]
fn everybody_is_served_until_the_clients_have_gone() {
    let (send, receive) = channel();
    let tell = move |measured: &Measured| {
        let (orders, beats) = (measured.orders.len(), measured.beats.len());
        send.send((orders, beats, measured.nr_paid, measured.nr_trial)).unwrap();
    };
    let runtime = runtime(2);
    runtime.block_on(service(Load::new(Duration::from_millis(200), tell))).unwrap();
    let (orders, beats, nr_paid, nr_trial) = receive.recv().unwrap();
    assert!(orders > 0 && beats > 0 && nr_paid > 0 && nr_trial > 0);
}

#[test]
fn a_tenant_on_trial_is_throttled_and_who_pays_is_not_counted() {
    ends(|| {
        let database = Database::new().unwrap();
        let runtime = runtime(2);
        let trial = on_trial(&runtime);
        let address = start(&runtime, trial.clone(), &database);
        Client::connect(address, "paid").ask("GET", "/report", "");
        assert_eq!(trial.usage().used, Duration::ZERO);
        let mut client = Client::connect(address, "trial");
        while trial.usage().nr_throttled == 0 {
            client.ask("GET", "/report", "");
        }
    });
}

/// Returns the group and the policy of the task that handles the request.
async fn who() -> String {
    let task = Task::current();
    format!("{:?} {:?}", task.group().map(|group| group.path()), task.policy())
}

#[test]
fn requests_have_the_group_of_their_tenant_and_the_policy_of_their_route() {
    let runtime = runtime(1);
    let trial = on_trial(&runtime);
    let demoted = from_fn_with_state(Task::builder().nice(19), in_task);
    let app = Router::new()
        .route("/", get(who))
        .route("/demoted", get(who).layer(demoted))
        .layer(from_fn_with_state(trial, by_tenant));
    let ask = async move |path: &str, tenant: &str| {
        let request = Request::get(path).header("tenant", tenant).body(Body::empty()).unwrap();
        let answer = app.clone().oneshot(request).await.unwrap();
        to_bytes(answer.into_body(), usize::MAX).await.unwrap()
    };
    let policy = |nice| Policy::Normal(Nice::new(nice).unwrap());
    runtime
        .block_on(runtime.spawn(async move {
            for (path, nice) in [("/", 0), ("/demoted", 19)] {
                for (tenant, group) in [("paid", None), ("trial", Some("/trial"))] {
                    assert_eq!(ask(path, tenant).await, format!("{group:?} {:?}", policy(nice)));
                }
            }
        }))
        .unwrap();
}

/// There is one CPU. A demoted request computes until another request has been answered.
#[test]
fn a_demoted_request_lets_others_go_first() {
    let runtime = runtime(1);
    if !runtime.preempts() {
        return;
    }
    ends(move || {
        let [begun, called] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (begins, waits, calls) = (begun.clone(), called.clone(), called);
        let slow = async move || {
            begins.store(true, Ordering::SeqCst);
            while !waits.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            "slow"
        };
        let quick = async move || calls.store(true, Ordering::SeqCst);
        let demoted = from_fn_with_state(Task::builder().nice(19), in_task);
        let app =
            Router::new().route("/slow", get(slow).layer(demoted)).route("/quick", get(quick));
        let address = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            spawn(runyard::serve(listener, app).into_future());
            address
        });
        let slow = thread::spawn(move || Client::connect(address, "paid").ask("GET", "/slow", ""));
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert!(!slow.is_finished());
        Client::connect(address, "paid").ask("GET", "/quick", "");
        assert_eq!(slow.join().unwrap(), "slow");
    });
}
