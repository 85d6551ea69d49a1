//! What a layer makes of an answer, of an error, and of a rejection.

use std::error::Error;

use http_body::Body;

use super::{
    BoxError,
    body::WatchedBody,
    grpc,
    judge::{self, Verdict},
};
use crate::{fact::Observation, permit::Permit, rejected::Rejected};

/// How a layer deals with requests of one kind. Sealed: it is implemented by [`Failing`], [`Answering`] and
/// [`ByResult`].
pub trait Handling<Req, Res, E>: Clone + sealed::Sealed {
    /// What a call answers.
    type Response;
    /// What a call fails with.
    type Error;
    /// What is kept of a request while its call runs.
    #[doc(hidden)]
    type Call;

    #[doc(hidden)]
    fn begin(&self, request: &Req) -> Self::Call;
    #[doc(hidden)]
    fn ended(
        call: Self::Call,
        result: Result<Res, E>,
        permit: Permit<'static>,
    ) -> Result<Self::Response, Self::Error>;
    #[doc(hidden)]
    fn rejected(call: Self::Call, rejected: Rejected) -> Result<Self::Response, Self::Error>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Failing {}
    impl Sealed for super::Answering {}
    impl<F> Sealed for super::ByResult<F> {}
}

/// Outcomes are read from HTTP and gRPC answers, a rejection is an error. See
/// [`BreakerLayer::new`](super::BreakerLayer::new).
#[derive(Clone, Copy, Debug)]
pub struct Failing {
    pub(super) headers_only: bool,
}

/// Outcomes are read from HTTP and gRPC answers, a rejection is an answer. See
/// [`BreakerLayer::answering`](super::BreakerLayer::answering).
#[derive(Clone, Copy, Debug)]
pub struct Answering {
    pub(super) headers_only: bool,
}

/// A closure says what a result means, a rejection is an error. See
/// [`BreakerLayer::by_result`](super::BreakerLayer::by_result).
#[derive(Clone, Copy, Debug)]
pub struct ByResult<F> {
    pub(super) classify: F,
}

/// What the outcome of an HTTP request is read from.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub(super) grpc: bool,
    pub(super) headers_only: bool,
}

impl<B, RB, E> Handling<http::Request<B>, http::Response<RB>, E> for Failing
where
    RB: Body,
    E: Into<BoxError>,
{
    type Response = http::Response<WatchedBody<RB>>;
    type Error = BoxError;
    type Call = Reading;

    fn begin(&self, request: &http::Request<B>) -> Reading {
        Reading { grpc: grpc::is_grpc(request.headers()), headers_only: self.headers_only }
    }

    fn ended(
        reading: Reading,
        result: Result<http::Response<RB>, E>,
        permit: Permit<'static>,
    ) -> Result<Self::Response, BoxError> {
        match result {
            Ok(response) => Ok(watch(response, reading, permit)),
            Err(error) => {
                let error = error.into();
                permit.record_fact(Observation::of_error(&*error));
                Err(error)
            }
        }
    }

    fn rejected(reading: Reading, rejected: Rejected) -> Result<Self::Response, BoxError> {
        Err(if reading.grpc { grpc::status(rejected).into() } else { rejected.into() })
    }
}

impl<B, RB, E> Handling<http::Request<B>, http::Response<RB>, E> for Answering
where
    RB: Body + Default,
    E: Error + 'static,
{
    type Response = http::Response<WatchedBody<RB>>;
    type Error = E;
    type Call = Reading;

    fn begin(&self, request: &http::Request<B>) -> Reading {
        Reading { grpc: grpc::is_grpc(request.headers()), headers_only: self.headers_only }
    }

    fn ended(
        reading: Reading,
        result: Result<http::Response<RB>, E>,
        permit: Permit<'static>,
    ) -> Result<Self::Response, E> {
        match result {
            Ok(response) => Ok(watch(response, reading, permit)),
            Err(error) => {
                permit.record_fact(Observation::of_error(&error));
                Err(error)
            }
        }
    }

    fn rejected(reading: Reading, rejected: Rejected) -> Result<Self::Response, E> {
        let answer = if reading.grpc { grpc::answer(&rejected) } else { judge::answer(&rejected) };
        let mut answer = answer.map(|()| WatchedBody::plain(RB::default()));
        answer.extensions_mut().insert(rejected);
        Ok(answer)
    }
}

impl<Req, Res, E, F, O> Handling<Req, Res, E> for ByResult<F>
where
    E: Into<BoxError>,
    F: Fn(Result<&Res, &E>) -> O + Clone,
    O: Into<Observation>,
{
    type Response = Res;
    type Error = BoxError;
    type Call = F;

    fn begin(&self, _: &Req) -> F {
        self.classify.clone()
    }

    fn ended(classify: F, result: Result<Res, E>, permit: Permit<'static>) -> Result<Res, BoxError> {
        permit.record_fact(classify(result.as_ref()));
        result.map_err(Into::into)
    }

    fn rejected(_: F, rejected: Rejected) -> Result<Res, BoxError> {
        Err(rejected.into())
    }
}

fn watch<RB: Body>(
    response: http::Response<RB>,
    reading: Reading,
    permit: Permit<'static>,
) -> http::Response<WatchedBody<RB>> {
    match judge::verdict(&response, reading) {
        Verdict::Now(observed) => {
            permit.record_fact(observed);
            response.map(WatchedBody::plain)
        }
        Verdict::InTrailers => response.map(|body| WatchedBody::watched(body, permit)),
    }
}
