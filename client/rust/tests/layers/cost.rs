//! What the layer adds to a call: no allocation, whichever way the outcome is known.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::Empty;
use hyper::body::Bytes;
use panelboard_client::{BreakerLayer, Client, Fact, State};
use tower::{Layer, Service};

const CALLS: usize = 1_000;

/// Answers with what was laid down before.
struct Laid<B>(Arc<Mutex<Vec<Response<B>>>>);

impl<B> Clone for Laid<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Req, B> Service<Req> for Laid<B> {
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Ready<Result<Response<B>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Req) -> Self::Future {
        ready(Ok(self.0.lock().unwrap().pop().expect("one per call")))
    }
}

fn laid<B>(answer: impl Fn() -> Response<B>) -> Laid<B> {
    Laid(Arc::new(Mutex::new((0..=CALLS).map(|_| answer()).collect())))
}

struct Trailers(Option<HeaderMap>);

impl Body for Trailers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

/// Makes the calls, and drops what they allocated before: the answers.
fn allocated(mut call: impl FnMut()) -> u64 {
    call();
    allocation_counter::measure(|| (0..CALLS).for_each(|_| call())).count_total
}

#[test]
fn an_admitted_call_allocates_nothing() {
    let client = Client::builder("http://127.0.0.1:1").build().unwrap();
    let breaker = client.breaker("quick/quote");

    let mut http = BreakerLayer::new(breaker.clone()).layer(laid(|| Response::new(Empty::<Bytes>::new())));
    assert_eq!(allocated(|| drop(now(http.call(Request::new(()))).unwrap())), 0, "HTTP");

    let mut answering =
        BreakerLayer::answering(breaker.clone()).layer(laid(|| Response::new(Empty::<Bytes>::new())));
    assert_eq!(allocated(|| drop(now(answering.call(Request::new(()))).unwrap())), 0, "answering");

    let classify = |_: Result<&Response<()>, &Infallible>| Fact::Success;
    let mut any = BreakerLayer::by_result(breaker.clone(), classify).layer(laid(|| Response::new(())));
    assert_eq!(allocated(|| drop(now(any.call(7_u8)).unwrap())), 0, "any service");

    let grpc = HeaderValue::from_static("application/grpc");
    let mut trailing = BreakerLayer::new(breaker.clone()).layer(laid(|| {
        let trailers =
            HeaderMap::from_iter([(header::HeaderName::from_static("grpc-status"), "0".parse().unwrap())]);
        let mut answer = Response::new(Trailers(Some(trailers)));
        answer.headers_mut().insert(header::CONTENT_TYPE, grpc.clone());
        answer
    }));
    let mut requests: Vec<_> = (0..=CALLS)
        .map(|_| Request::post("/").header(header::CONTENT_TYPE, &grpc).body(()).unwrap())
        .collect();
    let call = || {
        let mut body = now(trailing.call(requests.pop().unwrap())).unwrap().into_body();
        let frame = now(http_body_util::BodyExt::frame(&mut body));
        assert!(frame.unwrap().unwrap().is_trailers());
    };
    assert_eq!(allocated(call), 0, "gRPC");
    assert_eq!(breaker.state(), State::Closed);
}
