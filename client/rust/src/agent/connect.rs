//! The address, and the connections to it.

use std::time::Duration;

use tonic::transport::{Endpoint, Uri};

use crate::limits::{CONNECT_TIMEOUT, KEEPALIVE};

/// An endpoint for `url`.
///
/// # Errors
/// What is wrong with the address.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("this client has no TLS".into()),
        Some(scheme) => return Err(format!("the scheme {scheme:?} is not http")),
        None => return Err("it has no scheme".into()),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err("it has no host".into());
    }
    let endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    Ok(endpoint)
}
