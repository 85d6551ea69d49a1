//! The body of an answer, watched for the trailers that say what became of the call.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{BoxError, grpc};
use crate::{fact::Observation, permit::Permit};

pin_project! {
    /// The body of an answer. A gRPC answer's is watched until its trailers are there.
    ///
    /// Cancel safe: dropped before its end, its call is abandoned.
    pub struct WatchedBody<B> {
        #[pin]
        body: B,
        // None: the outcome is known.
        permit: Option<Permit<'static>>,
    }
}

impl<B> WatchedBody<B> {
    pub(super) const fn plain(body: B) -> Self {
        Self { body, permit: None }
    }

    pub(super) const fn watched(body: B, permit: Permit<'static>) -> Self {
        Self { body, permit: Some(permit) }
    }

    /// The body inside. A call whose outcome is not known yet is abandoned.
    pub fn into_inner(self) -> B {
        self.body
    }
}

impl<B> Body for WatchedBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx)).map(|frame| frame.map_err(Into::into));
        if this.permit.is_some()
            && let Some(observed) = observed(frame.as_ref())
            && let Some(permit) = this.permit.take()
        {
            permit.record_fact(observed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        // Whoever believes it does not come for the end.
        self.permit.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a frame says of the call; none: it goes on.
fn observed<D>(frame: Option<&Result<Frame<D>, BoxError>>) -> Option<Observation> {
    match frame {
        Some(Ok(frame)) => {
            let trailers = frame.trailers_ref()?;
            Some(grpc::outcome(trailers).unwrap_or(grpc::NO_STATUS.into()))
        }
        Some(Err(error)) => Some(Observation::of_error(&**error)),
        None => Some(grpc::NO_STATUS.into()),
    }
}

impl<B: Default> Default for WatchedBody<B> {
    fn default() -> Self {
        Self::plain(B::default())
    }
}

impl<B: fmt::Debug> fmt::Debug for WatchedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { body, permit } = self;
        f.debug_struct("WatchedBody").field("body", body).field("watched", &permit.is_some()).finish()
    }
}
