//! What errors say of a call, through those that they wrap.

use std::{error::Error, fmt, io, time::Duration};

use panelboard_client::{Fact, Observation, Rejected};

use crate::{cause, servers, touchy};

/// As an application wraps errors.
#[derive(Debug)]
struct Wrapped(Box<dyn Error + Send + Sync>);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the quote could not be had")
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

fn wrapped(error: impl Into<Box<dyn Error + Send + Sync>>, times: usize) -> Box<dyn Error + Send + Sync> {
    (0..times).fold(error.into(), |error, _| Wrapped(error).into())
}

#[test]
fn io_errors_are_told_apart_by_their_kind() {
    use io::ErrorKind as Kind;
    for (kind, expected) in [
        (Kind::TimedOut, Fact::TimedOut),
        (Kind::ConnectionRefused, Fact::Cause("connect")),
        (Kind::HostUnreachable, Fact::Cause("connect")),
        (Kind::ConnectionReset, Fact::Cause("reset")),
        (Kind::BrokenPipe, Fact::Cause("reset")),
        (Kind::UnexpectedEof, Fact::Cause("reset")),
        (Kind::InvalidData, Fact::Cause("malformed")),
        (Kind::PermissionDenied, Fact::Failure("other")),
    ] {
        for error in
            [io::Error::from(kind), io::Error::new(kind, "said"), io::Error::other(io::Error::from(kind))]
        {
            assert_eq!(Fact::of_error(&*wrapped(error, 2)), expected, "{kind}");
        }
    }
}

#[tokio::test]
async fn timeouts_are_known_wherever_they_come_from() {
    let elapsed = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(Fact::of_error(&*wrapped(io::Error::other(elapsed), 1)), Fact::TimedOut);
    assert_eq!(Fact::of_error(&*wrapped(tower::timeout::error::Elapsed::new(), 3)), Fact::TimedOut);
    assert_eq!(Fact::of_error(&tonic::TimeoutExpired(())), Fact::TimedOut);
    let status = tonic::Status::from_error(Box::new(tonic::TimeoutExpired(())));
    assert_eq!(status.code(), tonic::Code::Cancelled);
    assert_eq!(Fact::of_error(&status), Fact::TimedOut);
}

#[test]
fn a_status_is_its_code_and_its_hint() {
    let mut status = tonic::Status::resource_exhausted("later");
    status.metadata_mut().insert("grpc-retry-pushback-ms", "1500".parse().unwrap());
    let observed = Observation::of_error(&*wrapped(status, 1));
    assert_eq!(observed, Fact::GrpcCode(8).retry_after(Duration::from_millis(1_500)));
}

#[test]
fn a_name_that_does_not_resolve_is_dns() {
    let error = std::net::TcpStream::connect((servers::nameless(), 80)).unwrap_err();
    assert_eq!(Fact::of_error(&error), Fact::Cause("dns"), "{error:?}");
}

#[tokio::test]
async fn anothers_rejection_is_ignored_and_is_found() {
    let breaker = touchy();
    breaker.try_acquire().unwrap().failure("timeout");
    cause(&breaker).await;
    let error = wrapped(breaker.try_acquire().unwrap_err(), 3);
    assert_eq!(Fact::of_error(&*error), Fact::Ignored("rejected"));
    assert_eq!(Rejected::in_error(&*error).unwrap().breaker(), "quick/quote");
}

#[test]
fn what_says_nothing_is_a_failure_of_no_cause() {
    let error = wrapped("it is all wrong", 1);
    assert_eq!(Fact::of_error(&*error), Fact::Failure("other"));
    assert!(Rejected::in_error(&*error).is_none());
}

#[test]
fn a_chain_without_an_end_is_not_followed_for_ever() {
    let near = wrapped(io::Error::from(io::ErrorKind::TimedOut), 15);
    assert_eq!(Fact::of_error(&*near), Fact::TimedOut);
    let far = wrapped(io::Error::from(io::ErrorKind::TimedOut), 16);
    assert_eq!(Fact::of_error(&*far), Fact::Failure("other"));

    #[derive(Debug)]
    struct Ring;
    impl fmt::Display for Ring {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("round")
        }
    }
    impl Error for Ring {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Ring)
        }
    }
    assert_eq!(Fact::of_error(&Ring), Fact::Failure("other"));
}
