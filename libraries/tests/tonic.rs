//! gRPC by tonic, with both sides over loopback. A tonic service is a tower service, which `serve` serves. The client
//! takes an executor. So every task is a task of the runtime, and no task escapes to tokio.
//!
//! The service is written like tonic's generated code, without the generator.

#[path = "../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, spin, until};
use runyard::hyper::Executor;
use runyard::{JoinSet, Nice, Policy, Runtime, Task, serve, spawn};
use std::convert::Infallible;
use std::future::{IntoFuture, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{Stream, StreamExt, iter};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, ServerStreamingService, UnaryService};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// The policy that the server requests for its connections.
const SERVERS: Policy = Policy::Batch(Nice::ZERO);

const WHO: &str = "/test.Numbers/Who";
const COUNT: &str = "/test.Numbers/Count";
const SLOW: &str = "/test.Numbers/Slow";

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    value: String,
}

/// A service with three methods.
#[derive(Clone, Default)]
struct Numbers {
    /// Whether the method `Slow` has begun to compute.
    begun: Arc<AtomicBool>,
    /// Whether `Who` has been called, so that `Slow` returns.
    called: Arc<AtomicBool>,
}

impl NamedService for Numbers {
    const NAME: &'static str = "test.Numbers";
}

impl Service<http::Request<Body>> for Numbers {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let numbers = self.clone();
        Box::pin(async move {
            let answer = match request.uri().path() {
                WHO => server::<Number, Text>().unary(Who(numbers), request).await,
                SLOW => server::<Number, Text>().unary(Slow(numbers), request).await,
                COUNT => server::<Number, Number>().server_streaming(Count, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            };
            Ok(answer)
        })
    }
}

/// Returns the server's side of a method that takes `T` and returns `U`.
fn server<T, U>() -> tonic::server::Grpc<ProstCodec<U, T>>
where
    T: prost::Message + Default + 'static,
    U: prost::Message + Default + 'static,
{
    tonic::server::Grpc::new(ProstCodec::default())
}

/// A method that returns the policy of its task.
struct Who(Numbers);

impl UnaryService<Number> for Who {
    type Response = Text;
    type Future = Ready<Result<Response<Text>, Status>>;

    fn call(&mut self, _: Request<Number>) -> Self::Future {
        self.0.called.store(true, Ordering::SeqCst);
        ready(Ok(Response::new(Text { value: format!("{:?}", Task::current().policy()) })))
    }
}

/// A method that computes in one poll until [`Who`] has been called.
struct Slow(Numbers);

impl UnaryService<Number> for Slow {
    type Response = Text;
    type Future = BoxFuture<Response<Text>, Status>;

    fn call(&mut self, _: Request<Number>) -> Self::Future {
        let Numbers { begun, called } = self.0.clone();
        Box::pin(async move {
            begun.store(true, Ordering::SeqCst);
            while !called.load(Ordering::SeqCst) {
                spin(ms(1));
            }
            Ok(Response::new(Text { value: "slow".to_owned() }))
        })
    }
}

/// A method that counts to a number.
struct Count;

impl ServerStreamingService<Number> for Count {
    type Response = Number;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Number>) -> Self::Future {
        let numbers = (0..request.get_ref().value).map(|value| Ok(Number { value }));
        ready(Ok(Response::new(Box::pin(iter(numbers.collect::<Vec<_>>())))))
    }
}

fn a_runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).enable_tokio().build()
}

async fn start(numbers: Numbers) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Routes::new(numbers).into_axum_router();
    spawn(serve(listener, routes).task(Task::builder().policy(SERVERS)).into_future());
    address
}

async fn connect(address: SocketAddr, executor: Executor) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    Grpc::new(endpoint.executor(executor).connect().await.unwrap())
}

async fn ask(client: &mut Grpc<Channel>, path: &'static str) -> Result<String, Status> {
    client.ready().await.unwrap();
    let codec = ProstCodec::<Number, Text>::default();
    let path = PathAndQuery::from_static(path);
    let answer = client.unary(Request::new(Number { value: 0 }), path, codec).await?;
    Ok(answer.into_inner().value)
}

async fn count(client: &mut Grpc<Channel>, value: u64) -> Vec<u64> {
    client.ready().await.unwrap();
    let codec = ProstCodec::<Number, Number>::default();
    let path = PathAndQuery::from_static(COUNT);
    let answer = client.server_streaming(Request::new(Number { value }), path, codec).await;
    let numbers: Result<Vec<Number>, _> = answer.unwrap().into_inner().collect().await;
    numbers.unwrap().iter().map(|number| number.value).collect()
}

#[test]
fn calls_are_tasks_that_inherit_from_the_connection() {
    a_runtime(2).block_on(async {
        let client = connect(start(Numbers::default()).await, Executor::new()).await;
        let mut calls = JoinSet::new();
        for _ in 0..16 {
            let mut client = client.clone();
            calls.spawn(async move { ask(&mut client, WHO).await.unwrap() });
        }
        let policies = calls.join_all().await;
        assert_eq!(policies, vec![format!("{SERVERS:?}"); 16]);
    });
}

#[test]
fn streams_and_errors_come_through() {
    a_runtime(2).block_on(async {
        let mut client = connect(start(Numbers::default()).await, Executor::new()).await;
        assert_eq!(count(&mut client, 1_000).await, (0..1_000).collect::<Vec<_>>());
        let error = ask(&mut client, "/test.Numbers/None").await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
        let error = ask(&mut client, "/test.Others/None").await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
    });
}

/// There is one CPU, and both calls are on one connection.
#[test]
fn a_method_that_computes_is_preempted() {
    let runtime = a_runtime(1);
    if !runtime.preempts() {
        return;
    }
    ends(move || {
        runtime.block_on(async {
            let numbers = Numbers::default();
            let begun = numbers.begun.clone();
            let mut client = connect(start(numbers).await, Executor::new()).await;
            let mut slow = client.clone();
            let slow = spawn(async move { ask(&mut slow, SLOW).await.unwrap() });
            until(|| begun.load(Ordering::SeqCst));
            ask(&mut client, WHO).await.unwrap();
            assert_eq!(slow.await.unwrap(), "slow");
        });
    });
}

/// Returns the largest number of tasks of tokio's while a client sends requests.
fn escaped(executor: Option<Executor>) -> usize {
    let runtime = a_runtime(1);
    let tokio = runtime.handle().tokio().unwrap().clone();
    let most = AtomicUsize::new(0);
    runtime.block_on(async {
        let address = start(Numbers::default()).await;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let endpoint = match executor {
            Some(executor) => endpoint.executor(executor),
            None => endpoint,
        };
        let mut client = Grpc::new(endpoint.connect().await.unwrap());
        for _ in 0..10 {
            ask(&mut client, WHO).await.unwrap();
            most.fetch_max(tokio.metrics().num_alive_tasks(), Ordering::SeqCst);
        }
    });
    most.into_inner()
}

#[test]
fn a_client_escapes_unless_it_has_the_executor() {
    assert_eq!(escaped(Some(Executor::new())), 0);
    // These tasks are the worker of the client's buffer, and its connection. They live as long as the client.
    assert!(escaped(None) >= 2);
}
