//! Asks for a permit, and then makes the call.

use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{breaker::Breaker, permit::Permit, rejected::Rejected};

/// A permit that outlives the call of `Service::call`.
type Owned = Permit<'static>;

type Acquire = Pin<Box<dyn Future<Output = Result<Owned, Rejected>> + Send>>;

pin_project! {
    /// Ends with the call's result and its permit, or with the rejection.
    #[project = Step]
    pub(super) enum Admission<S, Req>
    where
        S: Service<Req>,
    {
        Calling {
            #[pin]
            call: S::Future,
            permit: Option<Owned>,
        },
        /// In a box of its own: rare, and large with its request.
        Waiting { waiting: Option<Box<Waiting<S, Req>>> },
        Rejected { rejected: Option<Rejected> },
    }
}

pub(super) struct Waiting<S, Req> {
    acquire: Acquire,
    /// The one that said it was ready.
    service: S,
    request: Req,
}

impl<S: Service<Req> + Clone, Req> Admission<S, Req> {
    pub(super) fn ask(breaker: &Breaker, service: &mut S, request: Req) -> Self {
        match breaker.acquire_at_once() {
            Some(Ok(permit)) => {
                Self::Calling { call: service.call(request), permit: Some(permit.into_owned()) }
            }
            Some(Err(rejected)) => Self::Rejected { rejected: Some(rejected) },
            None => {
                let breaker = breaker.clone();
                let acquire = Box::pin(async move { breaker.acquire().await.map(Permit::into_owned) });
                let next = service.clone();
                let service = mem::replace(service, next);
                Self::Waiting { waiting: Some(Box::new(Waiting { acquire, service, request })) }
            }
        }
    }
}

impl<S: Service<Req>, Req> Future for Admission<S, Req> {
    type Output = Result<(Result<S::Response, S::Error>, Owned), Rejected>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const ENDED: &str = "a future that has ended is not polled again";
        loop {
            let next = match self.as_mut().project() {
                Step::Calling { call, permit } => {
                    let result = ready!(call.poll(cx));
                    let permit = permit.take().expect(ENDED);
                    return Poll::Ready(Ok((result, permit)));
                }
                Step::Waiting { waiting } => {
                    let answer = ready!(waiting.as_mut().expect(ENDED).acquire.as_mut().poll(cx));
                    let waited = waiting.take().expect(ENDED);
                    match answer {
                        Ok(permit) => {
                            let Waiting { mut service, request, .. } = *waited;
                            Self::Calling { call: service.call(request), permit: Some(permit) }
                        }
                        Err(rejected) => return Poll::Ready(Err(rejected)),
                    }
                }
                Step::Rejected { rejected } => return Poll::Ready(Err(rejected.take().expect(ENDED))),
            };
            self.set(next);
        }
    }
}
