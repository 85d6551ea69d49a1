//! The breaker as a middleware of [`reqwest_middleware`].

use ::reqwest::{Request, Response};
use http::Extensions;
use reqwest_middleware::{Error, Middleware, Next};

use crate::{
    breaker::Breaker,
    fact::{Fact, Observation},
    hint,
};

/// What [`BreakerMiddleware::new`] classifies with.
type ByPolicy = fn(Result<&Response, &Error>) -> Observation;

/// Puts a breaker around the requests of a reqwest client, through `reqwest-middleware`.
///
/// One client, or one stack of middleware, is one breaker: build one per dependency, once, and keep it. Never make a
/// client, or look a breaker up, per request.
///
/// An outcome is the answer's status when its headers are there, or the error, as [`Fact::of_error`] reads it;
/// `retry-after` is honoured on a 4xx or 5xx. What goes wrong with the body afterwards is not seen. In HALF_OPEN a
/// request waits for a probe up to the client's `probe_wait`.
///
/// A request that is not admitted fails with [`Error::Middleware`], in which
/// [`Rejected::in_error`](crate::Rejected::in_error) finds the rejection.
///
/// # With retries
///
/// Retry outside, so that each attempt asks the breaker: in `reqwest-middleware`, what is added first is outermost.
/// `reqwest-retry` takes an error of a middleware for final, so that rejections are not retried.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use panelboard_client::{BreakerMiddleware, Client, Rejected};
/// use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
///
/// let panel = Client::builder("http://localhost:50051").build()?;
/// let retries = ExponentialBackoff::builder().build_with_max_retries(2);
/// let shipping = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(RetryTransientMiddleware::new_with_policy(retries))
///     .with(BreakerMiddleware::new(panel.breaker("checkout/shipping-quote")))
///     .build();
///
/// match shipping.get("http://shipping:8080/quote").send().await {
///     Ok(answer) => println!("{}", answer.status()),
///     Err(error) => match Rejected::in_error(&error) {
///         Some(rejected) => println!("not made: {rejected}"),
///         None => println!("failed: {error}"),
///     },
/// }
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// A request that is dropped is abandoned.
#[derive(Clone, Debug)]
pub struct BreakerMiddleware<C = ByPolicy> {
    breaker: Breaker,
    classify: C,
}

impl BreakerMiddleware {
    /// Outcomes are read from the answers, and classified by the breaker's policy.
    pub fn new(breaker: Breaker) -> Self {
        Self { breaker, classify: by_policy }
    }
}

impl<C> BreakerMiddleware<C> {
    /// The same, with `classify` saying what a result means, as a [`Fact`] or an [`Observation`].
    ///
    /// ```no_run
    /// # fn example(panel: panelboard_client::Client) {
    /// use panelboard_client::{BreakerMiddleware, Fact};
    ///
    /// // This dependency says 404 when its index is lost.
    /// let breaker = panel.breaker("search/by-name");
    /// let middleware = BreakerMiddleware::with_classifier(breaker, |result| match result {
    ///     Ok(answer) if answer.status() == 404 => Fact::Failure("http_404"),
    ///     Ok(answer) => Fact::HttpStatus(answer.status().as_u16()),
    ///     Err(error) => Fact::of_error(error),
    /// });
    /// # drop(middleware) }
    /// ```
    pub fn with_classifier<O>(breaker: Breaker, classify: C) -> Self
    where
        C: Fn(Result<&Response, &Error>) -> O,
        O: Into<Observation>,
    {
        Self { breaker, classify }
    }
}

#[async_trait::async_trait]
impl<C, O> Middleware for BreakerMiddleware<C>
where
    C: Fn(Result<&Response, &Error>) -> O + Send + Sync + 'static,
    O: Into<Observation>,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let permit = self.breaker.acquire().await.map_err(Error::middleware)?;
        let result = next.run(request, extensions).await;
        permit.record_with(|result| (self.classify)(result.as_ref()), result)
    }
}

fn by_policy(result: Result<&Response, &Error>) -> Observation {
    match result {
        Ok(answer) => {
            let status = answer.status();
            let refused = status.is_client_error() || status.is_server_error();
            let retry_after = if refused { hint::of_headers(answer.headers()) } else { None };
            Observation { fact: Fact::HttpStatus(status.as_u16()), retry_after }
        }
        Err(error) => Observation::of_error(error),
    }
}
