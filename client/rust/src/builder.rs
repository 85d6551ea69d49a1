//! How a client is made.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use panelboard_core::{OnDisconnect, Pattern, PatternError, Policy, PolicySpec, Violation};

use crate::{
    agent,
    cache::Cache,
    client::{Client, Shared},
    clock::Clock,
    fallback::Fallback,
    identity::{Given, Identity, host_name},
    mode::Mode,
    post::Post,
    wire,
};

/// How long `acquire` and `call` wait for a probe, if nothing else is said.
const PROBE_WAIT: Duration = Duration::from_millis(100);
/// Nobody's call waits for a probe longer than this.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Builds a [`Client`].
#[derive(Debug)]
#[must_use = "call build() to have a client"]
pub struct Builder {
    url: String,
    given: Given,
    policy: Option<PolicySpec>,
    policies: Vec<(String, PolicySpec)>,
    cache_dir: Option<PathBuf>,
    probe_wait: Duration,
    on_disconnect: Option<OnDisconnect>,
    mode: Option<Mode>,
    seed: Option<u64>,
}

impl Builder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            given: Given::default(),
            policy: None,
            policies: Vec::new(),
            cache_dir: None,
            probe_wait: PROBE_WAIT,
            on_disconnect: None,
            mode: None,
            seed: None,
        }
    }

    /// The calling service, at most 256 bytes without control characters, like each part of the identity. Default:
    /// the environment's `OTEL_SERVICE_NAME`, else none. What comes from the environment is cut to fit.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.given.service = Some(service.into());
        self
    }

    /// The instance within the service. Default: the environment's `POD_NAME`, else the host's name. Give processes
    /// that are instances of their own on one host a name of their own.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.given.instance = Some(instance.into());
        self
    }

    /// The availability zone, for people.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.given.zone = Some(zone.into());
        self
    }

    /// The policy of every breaker that the server has not told of yet, or that it does not know. Default: the one
    /// that was cached, else the documented default.
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The same for the breakers whose names match a pattern. The most specific one counts.
    pub fn policy_for(mut self, pattern: impl Into<String>, policy: PolicySpec) -> Self {
        self.policies.push((pattern.into(), policy));
        self
    }

    /// Keeps the policies that the server told in this directory, for a start without a server.
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// How long [`acquire`](crate::Breaker::acquire) and [`call`](crate::Breaker::call) wait for a probe. Default:
    /// 100 ms.
    pub const fn probe_wait(mut self, probe_wait: Duration) -> Self {
        self.probe_wait = probe_wait;
        self
    }

    /// What happens while LOCAL, whatever the policies say.
    pub const fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.on_disconnect = Some(on_disconnect);
        self
    }

    /// The mode, whatever the environment's `PANELBOARD_MODE` says.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The seed of all that is random in this client, for tests.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the client and starts its thread. Returns at once, whether there is a server or not.
    ///
    /// # Errors
    /// [`BuildError`] says what is wrong with what was given, or with the environment.
    pub fn build(self) -> Result<Client, BuildError> {
        self.build_in(|name| std::env::var(name).ok())
    }

    fn build_in(self, environment: impl Fn(&str) -> Option<String>) -> Result<Client, BuildError> {
        let mode = match (self.mode, environment(Mode::VARIABLE)) {
            (Some(mode), _) => mode,
            (None, None) => Mode::default(),
            (None, Some(value)) => Mode::parse(&value).ok_or(BuildError::Mode { value })?,
        };
        let seed = self.seed.unwrap_or_else(rand::random);
        // Not drawn from the seed: two clients with the same one are still two sessions.
        let identity = Identity::resolve(self.given, environment, host_name, rand::random())
            .map_err(|error| BuildError::Identity { message: error.to_string() })?;
        if self.probe_wait > PROBE_WAIT_MAX {
            return Err(BuildError::ProbeWait { probe_wait: self.probe_wait });
        }
        let endpoint = agent::endpoint(&self.url)
            .map_err(|message| BuildError::Url { url: self.url.clone(), message })?;
        let cache = match self.cache_dir {
            Some(dir) => Some(
                Cache::open(dir.clone())
                    .map_err(|source| BuildError::CacheDir { dir: dir.clone(), source })?,
            ),
            None => None,
        };
        let fallback = Fallback {
            by_pattern: by_pattern(self.policies)?,
            for_all: self.policy.map(|spec| policy("**", spec)).transpose()?,
            cache: cache.clone(),
        };
        let post = Arc::new(Post::new(Clock::start(), mode, self.probe_wait));
        if mode != Mode::Off {
            let told = agent::Told { url: self.url, endpoint, identity: identity.clone(), cache, seed };
            agent::start(told, Arc::clone(&post)).map_err(|source| BuildError::Thread { source })?;
        }
        Ok(Client::new(Shared {
            post,
            identity,
            fallback,
            on_disconnect: self.on_disconnect,
            seed,
            breakers: Mutex::new(HashMap::new()),
        }))
    }
}

fn by_pattern(given: Vec<(String, PolicySpec)>) -> Result<Vec<(Pattern, Arc<Policy>)>, BuildError> {
    let mut policies = Vec::new();
    for (text, spec) in given {
        let policy = policy(&text, spec)?;
        let pattern = Pattern::parse(&text).map_err(|error| BuildError::Pattern { pattern: text, error })?;
        policies.push((pattern, policy));
    }
    policies.sort_by(|a, b| b.0.specificity(&a.0));
    Ok(policies)
}

fn policy(pattern: &str, spec: PolicySpec) -> Result<Arc<Policy>, BuildError> {
    let wrong = |violations| BuildError::Policy { pattern: pattern.into(), violations };
    Policy::try_new(spec, 0).map(Arc::new).map_err(wrong)
}

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The URL is none that the client can connect to.
    #[error("{url:?} is not a server's address: {message}; give one like \"http://localhost:50051\"")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// A part of the identity is not usable.
    #[error("{message}")]
    Identity {
        /// What is wrong, and the remedy.
        message: String,
    },
    /// `PANELBOARD_MODE` is none of the modes.
    #[error("PANELBOARD_MODE is {value:?}: set it to enforce, shadow or off, or leave it out")]
    Mode {
        /// What it is.
        value: String,
    },
    /// A policy is not valid.
    #[error("the policy for {pattern:?} is not valid: {}", wire::sentence(violations))]
    Policy {
        /// What it is for.
        pattern: String,
        /// All that is wrong with it.
        violations: Vec<Violation>,
    },
    /// A pattern is none.
    #[error("{pattern:?} is not a name or a pattern: {error}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        error: PatternError,
    },
    /// The wait for a probe is too long to be a bound.
    #[error("a probe_wait of {} is too long: give at most 10 s", wire::shown(*probe_wait))]
    ProbeWait {
        /// What was given.
        probe_wait: Duration,
    },
    /// The cache directory cannot be used.
    #[error("the cache directory {dir:?} cannot be used: {source}; give one that this process may write to")]
    CacheDir {
        /// What was given.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The client's thread could not be started.
    #[error("the client's thread could not be started: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(
        change: impl FnOnce(Builder) -> Builder,
        environment: &[(&str, &str)],
    ) -> Result<Client, BuildError> {
        let look = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        change(Client::builder("http://127.0.0.1:1")).build_in(look)
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        let said = |change: fn(Builder) -> Builder, environment: &[(&str, &str)]| {
            build(change, environment).unwrap_err().to_string()
        };
        assert_eq!(
            said(|b| b, &[("PANELBOARD_MODE", "on")]),
            "PANELBOARD_MODE is \"on\": set it to enforce, shadow or off, or leave it out"
        );
        assert_eq!(
            said(|b| b.probe_wait(Duration::from_secs(60)), &[]),
            "a probe_wait of 1m is too long: give at most 10 s"
        );
        let no_rules = |b: Builder| b.policy(PolicySpec { trip: Vec::new(), ..PolicySpec::default() });
        assert!(said(no_rules, &[]).starts_with("the policy for \"**\" is not valid: trip: holds no rule"));
        assert!(
            said(|b| b.policy_for("a b", PolicySpec::default()), &[]).starts_with("\"a b\" is not a name")
        );
        let long = said(|b| b.service("s".repeat(300)), &[]);
        assert_eq!(long, "the service has 300 bytes, 256 are allowed: shorten it");
        assert!(build(|b| b, &[("POD_NAME", &"p".repeat(300))]).is_ok(), "nobody wrote that for this client");
    }

    #[test]
    fn an_address_that_cannot_be_is_refused_at_once() {
        for url in ["", "localhost:50051", "http://", "ftp://localhost", "https://localhost", "unix:/x"] {
            let error = Client::builder(url).build().unwrap_err().to_string();
            assert!(error.contains("give one like \"http://localhost:50051\""), "{url}: {error}");
        }
    }

    #[test]
    fn what_kubernetes_injects_beside_a_service_is_ignored() {
        let injected = [
            ("PANELBOARD_PORT", "tcp://10.0.0.1:50051"),
            ("PANELBOARD_SERVICE_HOST", "10.0.0.1"),
            ("PANELBOARD_SERVICE_PORT", "50051"),
        ];
        build(|b| b, &injected).unwrap();
    }

    #[test]
    fn the_most_specific_policy_counts() {
        let named = |name: &str| PolicySpec { name: name.into(), ..PolicySpec::default() };
        let policies = vec![
            ("**".to_owned(), named("all")),
            ("checkout/*".to_owned(), named("checkout")),
            ("checkout/quote".to_owned(), named("exact")),
        ];
        let fallback = Fallback { by_pattern: by_pattern(policies).unwrap(), ..Fallback::default() };
        let policy = |name: &str| {
            let name = panelboard_core::BreakerName::parse(name).unwrap();
            fallback.policy(&name).0.name().to_owned()
        };
        assert_eq!(
            [policy("checkout/quote"), policy("checkout/x"), policy("a")],
            ["exact", "checkout", "all"]
        );
    }
}
