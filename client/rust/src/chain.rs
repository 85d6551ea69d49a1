//! What an error says about a call: it itself, or one of the errors that it wraps.

use std::{error::Error, fmt, io, iter};

use crate::{
    fact::{Fact, Observation},
    hint,
    rejected::Rejected,
};

/// An error that wraps more than so many others is not looked into further: a chain may be a ring.
const LINKS_MAX: usize = 16;

impl Fact {
    /// What happened, read from an error and from those that it wraps, for the breaker's policy to classify.
    ///
    /// | somewhere in the chain | is |
    /// |---|---|
    /// | an elapsed timeout of tokio or tonic, [`io::ErrorKind::TimedOut`] | [`Fact::TimedOut`] |
    /// | [`io::Error`]: refused, no route, no such host | cause `connect`, `dns` |
    /// | [`io::Error`]: reset, aborted, broken pipe, unexpected end | cause `reset` |
    /// | [`io::Error`]: invalid data | cause `malformed`, and `tls` while connecting |
    /// | a `tonic::Status` (0.14) | [`Fact::GrpcCode`], unless what it wraps says more |
    /// | a [`Rejected`] of another breaker | ignored: that call was not made |
    /// | features `tower` and `reqwest`: an error of hyper | causes `timeout`, `malformed`, `reset`, `cancelled` |
    /// | feature `tower`: `Elapsed`, `Overloaded` of tower | [`Fact::TimedOut`], cause `pool_exhausted` |
    /// | feature `tower`: an error of hyper-util's client | cause `connect`, unless what it wraps says more |
    /// | feature `reqwest`: an error of reqwest or of its middleware | the same causes, [`Fact::HttpStatus`] |
    /// | nothing of these | a failure, cause `other` |
    ///
    /// A name that cannot be resolved and a handshake that fails are errors of no type of their own; they are known by
    /// their text and their place, and where that fails they are `connect`.
    ///
    /// ```
    /// use std::io;
    /// use panelboard_client::Fact;
    ///
    /// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    /// assert_eq!(Fact::of_error(&io::Error::other(refused)), Fact::Cause("connect"));
    /// ```
    pub fn of_error(error: &(dyn Error + 'static)) -> Self {
        Observation::of_error(error).fact
    }
}

impl Observation {
    /// What happened, as [`Fact::of_error`] reads it, and the retry-after that came with a `tonic::Status`:
    /// `grpc-retry-pushback-ms` in its metadata, else a `google.rpc.RetryInfo` in its details.
    ///
    /// ```no_run
    /// # use panelboard_client::{Breaker, CallError, Fact, Observation};
    /// # async fn ask() -> Result<u64, tonic::Status> { Ok(1) }
    /// # async fn example(quote: Breaker) -> Result<u64, CallError<tonic::Status>> {
    /// let classify = |result: &Result<_, tonic::Status>| match result {
    ///     Ok(_) => Fact::Success.into(),
    ///     Err(status) => Observation::of_error(status),
    /// };
    /// quote.call_with(classify, || ask()).await
    /// # }
    /// ```
    pub fn of_error(error: &(dyn Error + 'static)) -> Self {
        let mut vague = None;
        let mut connecting = false;
        let mut retry_after = None;
        for link in links(error) {
            if let Some(status) = link.downcast_ref::<tonic::Status>() {
                retry_after = retry_after.max(hint::of_status(status));
            }
            match clue(link, connecting) {
                Clue::Certain(fact) => return Self { fact, retry_after },
                // What lies deeper is nearer to what happened.
                Clue::Vague(fact) => vague = Some(fact),
                Clue::Connecting => connecting = true,
                Clue::None => {}
            }
        }
        let fact = match vague {
            _ if connecting => Fact::Cause("connect"),
            Some(fact) => fact,
            None => Fact::Failure("other"),
        };
        Self { fact, retry_after }
    }
}

impl Rejected {
    /// The rejection that an error is, or wraps: how to tell, above whatever layers there are, a call that was not
    /// made from one that failed.
    ///
    /// ```no_run
    /// # use panelboard_client::Rejected;
    /// # async fn ask() -> Result<u64, tonic::Status> { Ok(1) }
    /// # async fn example() -> Result<u64, tonic::Status> {
    /// match ask().await {
    ///     Err(status) if Rejected::in_error(&status).is_some() => Ok(42), // the fallback
    ///     other => other,
    /// }
    /// # }
    /// ```
    pub fn in_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        links(error).find_map(|link| link.downcast_ref())
    }
}

enum Clue {
    /// Whatever it wraps, this is what happened.
    Certain(Fact),
    /// This is what happened, if what it wraps does not say more.
    Vague(Fact),
    /// It happened while connecting.
    Connecting,
    None,
}

fn links<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |link| wrapped(*link)).take(LINKS_MAX)
}

/// The next error of the chain. Some types pass their content's `source` off as their own, which hides the content.
fn wrapped<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        return Some(inner);
    }
    #[cfg(feature = "reqwest")]
    match error.downcast_ref() {
        Some(reqwest_middleware::Error::Middleware(inner)) => return Some(inner.as_ref()),
        Some(reqwest_middleware::Error::Reqwest(inner)) => return Some(inner),
        None => {}
    }
    error.source()
}

fn clue(error: &(dyn Error + 'static), connecting: bool) -> Clue {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_io(error, connecting);
    }
    if error.is::<tokio::time::error::Elapsed>() || error.is::<tonic::TimeoutExpired>() {
        return Clue::Certain(Fact::TimedOut);
    }
    if error.is::<Rejected>() {
        return Clue::Certain(Fact::Ignored("rejected"));
    }
    if let Some(status) = error.downcast_ref::<tonic::Status>() {
        // tonic gives a status to what happened on this side, too: then it wraps that.
        return Clue::Vague(Fact::GrpcCode(code(status)));
    }
    if error.is::<tonic::ConnectError>() {
        return Clue::Connecting;
    }
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return of_hyper(error);
    }
    #[cfg(feature = "tower")]
    {
        if error.is::<tower::timeout::error::Elapsed>() {
            return Clue::Certain(Fact::TimedOut);
        }
        if error.is::<tower::load_shed::error::Overloaded>() {
            return Clue::Certain(Fact::Cause("pool_exhausted"));
        }
        if error.downcast_ref().is_some_and(hyper_util::client::legacy::Error::is_connect) {
            return Clue::Connecting;
        }
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return of_reqwest(error);
    }
    // The private type of hyper-util's connector, which reqwest and tonic use too.
    if connecting && says(error, "dns error") {
        return Clue::Certain(Fact::Cause("dns"));
    }
    Clue::None
}

fn of_io(error: &io::Error, connecting: bool) -> Clue {
    use io::ErrorKind as Kind;
    let cause = match error.kind() {
        Kind::TimedOut => return Clue::Certain(Fact::TimedOut),
        // Connecting reads nothing but the answers of a TLS handshake.
        Kind::InvalidData | Kind::UnexpectedEof if connecting => "tls",
        Kind::InvalidData => "malformed",
        Kind::ConnectionRefused
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::AddrNotAvailable => "connect",
        Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::BrokenPipe
        | Kind::NotConnected
        | Kind::UnexpectedEof => "reset",
        // What the standard library makes of a refusing resolver has no kind.
        _ if says(error, "failed to lookup address information") => "dns",
        _ => return Clue::None,
    };
    Clue::Certain(Fact::Cause(cause))
}

#[cfg(any(feature = "reqwest", feature = "tower"))]
fn of_hyper(error: &hyper::Error) -> Clue {
    if error.is_timeout() {
        Clue::Certain(Fact::TimedOut)
    } else if error.is_parse() {
        Clue::Certain(Fact::Cause("malformed"))
    } else if error.is_user() {
        // Our own side's doing: the body of our request failed, or our runtime is gone.
        Clue::Certain(Fact::Cause("cancelled"))
    } else {
        Clue::Vague(Fact::Cause("reset"))
    }
}

#[cfg(feature = "reqwest")]
fn of_reqwest(error: &reqwest::Error) -> Clue {
    if error.is_timeout() {
        Clue::Certain(Fact::TimedOut)
    } else if error.is_connect() {
        Clue::Connecting
    } else if let Some(status) = error.status() {
        Clue::Certain(Fact::HttpStatus(status.as_u16()))
    } else if error.is_builder() {
        // Our own side's doing: this is no request.
        Clue::Certain(Fact::Ignored("other"))
    } else if error.is_decode() {
        Clue::Vague(Fact::Cause("malformed"))
    } else if error.is_body() {
        Clue::Vague(Fact::Cause("reset"))
    } else {
        Clue::None
    }
}

fn code(status: &tonic::Status) -> u8 {
    // The codes end at 16.
    u8::try_from(i32::from(status.code())).unwrap_or(u8::MAX)
}

/// Whether an error's text begins like this.
fn says(error: &(dyn Error + 'static), start: &str) -> bool {
    let mut reader = Reader { expected: start };
    // It ends the formatting where the texts part.
    let _ended = fmt::write(&mut reader, format_args!("{error}"));
    reader.expected.is_empty()
}

/// Compares what is written with what is expected, and keeps nothing.
struct Reader<'a> {
    expected: &'a str,
}

impl fmt::Write for Reader<'_> {
    fn write_str(&mut self, said: &str) -> fmt::Result {
        let len = said.len().min(self.expected.len());
        let (Some(said), Some(expected)) = (said.as_bytes().get(..len), self.expected.as_bytes().get(..len))
        else {
            return Err(fmt::Error);
        };
        if said != expected || len == 0 {
            return Err(fmt::Error);
        }
        self.expected = &self.expected[len..];
        Ok(())
    }
}
