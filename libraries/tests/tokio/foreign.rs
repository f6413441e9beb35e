//! The behaviour with a tokio runtime that the program owns.

use super::a_tokio_runtime;
use crate::common::ms;
use runyard::{Runtime, spawn};
use tokio::net::TcpListener;

/// Timers of the ended tokio runtime panic and its sockets return errors, so no task waits for ever.
#[test]
fn a_tokio_runtime_that_ends_first_hangs_nobody() {
    let tokio = a_tokio_runtime();
    let runtime = Runtime::builder().workers(1).tokio(tokio.handle().clone()).build();
    let (accepts, listens) = std::sync::mpsc::channel();
    let accepts = runtime.spawn(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        accepts.send(()).unwrap();
        listener.accept().await.map(|_| ())
    });
    listens.recv().unwrap();
    drop(tokio);
    runtime.block_on(async {
        assert!(accepts.await.unwrap().is_err());
        let sleeps = spawn(async { tokio::time::sleep(ms(1)).await });
        assert!(sleeps.await.unwrap_err().is_panic());
    });
}

/// A task that tokio starts runs on tokio, and tasks of this runtime receive its result.
#[test]
fn a_task_of_tokio_is_awaited() {
    let tokio = a_tokio_runtime();
    let runtime = Runtime::builder().workers(1).tokio(tokio.handle().clone()).build();
    let seven = runtime.spawn(async { tokio::spawn(async { 7 }).await.unwrap() });
    assert_eq!(runtime.block_on(seven).unwrap(), 7);
}
