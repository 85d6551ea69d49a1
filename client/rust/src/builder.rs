//! How a client is made.

mod error;
mod settings;

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use panelboard_core::{OnDisconnect, Pattern, Policy, PolicySpec};
use panelboard_policy::Policies;
use tonic::transport::Endpoint;

use crate::{
    agent,
    cache::Cache,
    client::{Client, Shared},
    clock::Clock,
    fallback::Fallback,
    identity::{self, Given, Identity, host_name},
    mode::Mode,
    post::Post,
};

pub use error::BuildError;
use settings::Settings;

/// How long `acquire` and `call` wait for a probe, if nothing else is said.
const PROBE_WAIT: Duration = Duration::from_millis(100);
/// Nobody's call waits for a probe longer than this.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Builds a [`Client`].
///
/// What the code does not say is looked up in the environment, and then in the file of
/// [`settings_file`](Self::settings_file), under these names:
///
/// | name | as | default |
/// |---|---|---|
/// | `PANELBOARD_URL` | the URL that [`Client::builder`] takes | none: [`Client::from_env`] needs it |
/// | `PANELBOARD_POLICIES` | [`policies_file`](Self::policies_file) | none |
/// | `PANELBOARD_CACHE_DIR` | [`cache_dir`](Self::cache_dir) | none |
/// | `PANELBOARD_PROBE_WAIT` | [`probe_wait`](Self::probe_wait), such as `50ms` | `100ms` |
/// | `PANELBOARD_ON_DISCONNECT` | [`on_disconnect`](Self::on_disconnect): `local`, `allow` or `deny` | what the policies say |
/// | `PANELBOARD_INSTANCE` | [`instance`](Self::instance) | `POD_NAME`, else the host's name |
/// | `PANELBOARD_ZONE` | [`zone`](Self::zone) | none |
/// | `PANELBOARD_MODE` | [`mode`](Self::mode): `enforce`, `shadow` or `off` | `enforce` |
///
/// `OTEL_SERVICE_NAME` and `POD_NAME` are looked up in the environment as well, and no other variable. A value that is
/// not usable is an error that names the variable, the value and the remedy; an empty one counts as not set.
#[derive(Debug)]
#[must_use = "call build() to have a client"]
pub struct Builder {
    url: Option<String>,
    given: Given,
    policy: Option<PolicySpec>,
    policies: Vec<(String, PolicySpec)>,
    policies_file: Option<PathBuf>,
    settings_file: Option<PathBuf>,
    cache_dir: Option<PathBuf>,
    probe_wait: Option<Duration>,
    on_disconnect: Option<OnDisconnect>,
    mode: Option<Mode>,
    seed: Option<u64>,
}

impl Builder {
    pub(crate) fn new(url: String) -> Self {
        Self { url: Some(url), ..Self::from_env() }
    }

    /// Leaves everything, the URL too, to the environment and the settings file.
    pub fn from_env() -> Self {
        Self {
            url: None,
            given: Given::default(),
            policy: None,
            policies: Vec::new(),
            policies_file: None,
            settings_file: None,
            cache_dir: None,
            probe_wait: None,
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

    /// The policy of every breaker that the server has not told of yet, or that it does not know, and that neither
    /// [`policy_for`](Self::policy_for) nor a policy file names. Default: the one that was cached, else the documented
    /// default.
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The same for the breakers whose names match a pattern. The most specific one counts; any beats the policy files.
    pub fn policy_for(mut self, pattern: impl Into<String>, policy: PolicySpec) -> Self {
        self.policies.push((pattern.into(), policy));
        self
    }

    /// Policies as YAML, for the breakers that the server has not told of yet, or does not know: a file, or a directory
    /// of `*.yaml` and `*.yml` files, the same ones that a server takes. They are read once, by [`build`](Self::build).
    pub fn policies_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.policies_file = Some(path.into());
        self
    }

    /// Looks up what neither the code nor the environment says in this file, which has one `NAME=value` on a line, as
    /// service managers and containers take them. Lines that begin with `#` say nothing.
    pub fn settings_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings_file = Some(path.into());
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
        self.probe_wait = Some(probe_wait);
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
        for (name, meant) in settings::misspelt(std::env::vars_os().map(|(name, _)| name)) {
            tracing::warn!(
                "the environment variable {name} is not a setting of this client: did you mean {meant}?"
            );
        }
        self.build_in(|name| std::env::var_os(name))
    }

    /// The mode that the code gives.
    #[cfg(feature = "testing")]
    pub(crate) const fn given_mode(&self) -> Option<Mode> {
        self.mode
    }

    pub(crate) fn build_in(
        self,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Client, BuildError> {
        let settings = Settings::new(&environment, self.settings_file.as_deref())?;
        let mode = settings.or(self.mode, Mode::VARIABLE, settings::mode)?.unwrap_or_default();
        let probe_wait = settings.or(self.probe_wait, settings::PROBE_WAIT, settings::probe_wait)?;
        let probe_wait = probe_wait.unwrap_or(PROBE_WAIT);
        if probe_wait > PROBE_WAIT_MAX {
            return Err(BuildError::ProbeWait { probe_wait });
        }
        let on_disconnect =
            settings.or(self.on_disconnect, settings::ON_DISCONNECT, settings::on_disconnect)?;
        let seed = self.seed.unwrap_or_else(rand::random);
        let mut given = self.given;
        let part = |part, name, code| settings.or(code, name, |text| identity::part(part, text));
        given.instance = part("instance", settings::INSTANCE, given.instance)?;
        given.zone = part("zone", settings::ZONE, given.zone)?;
        // Nobody wrote these for this client: what is not text is as good as absent.
        let foreign = |name: &str| environment(name).and_then(|value| value.into_string().ok());
        // Not drawn from the seed: two clients with the same one are still two sessions.
        let identity = Identity::resolve(given, foreign, host_name, rand::random())
            .map_err(|error| BuildError::Identity { message: error.to_string() })?;
        let address = self.url.map(address).transpose()?;
        let address = settings.or(address, settings::URL, settings::address)?;
        let cache =
            settings.or(self.cache_dir, settings::CACHE_DIR, settings::path)?.map(cache).transpose()?;
        let files = settings.or(self.policies_file, settings::POLICIES, settings::path)?;
        let fallback = Fallback {
            by_pattern: by_pattern(self.policies)?,
            files: files.as_deref().map(policies).transpose()?,
            for_all: self.policy.map(|spec| policy("**", spec)).transpose()?,
            cache: cache.clone(),
        };
        let post = Arc::new(Post::new(Clock::start(), mode, probe_wait));
        if mode != Mode::Off {
            let (url, endpoint) = address.ok_or(BuildError::NoUrl)?;
            let told = agent::Told { url, endpoint, identity: identity.clone(), cache, seed };
            agent::start(told, Arc::clone(&post)).map_err(|source| BuildError::Thread { source })?;
        }
        Ok(Client::new(Shared {
            post,
            identity,
            fallback,
            on_disconnect,
            seed,
            breakers: Mutex::new(HashMap::new()),
        }))
    }
}

fn address(url: String) -> Result<(String, Endpoint), BuildError> {
    match agent::endpoint(&url) {
        Ok(endpoint) => Ok((url, endpoint)),
        Err(message) => Err(BuildError::Url { url, message }),
    }
}

fn cache(dir: PathBuf) -> Result<Cache, BuildError> {
    Cache::open(dir.clone()).map_err(|source| BuildError::CacheDir { dir, source })
}

impl Client {
    /// A client as the environment says: see [`Builder`] for the names.
    ///
    /// # Errors
    /// [`BuildError`] says what is wrong with the environment.
    pub fn from_env() -> Result<Self, BuildError> {
        Builder::from_env().build()
    }
}

fn policies(path: &Path) -> Result<Policies, BuildError> {
    let policies = panelboard_policy::load(path, &panelboard_policy::Limits::default(), None)
        .map_err(|errors| BuildError::Policies { path: path.to_owned(), errors })?;
    for warning in policies.warnings() {
        tracing::warn!("{}", warning.as_warning());
    }
    Ok(policies)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn build(
        change: impl FnOnce(Builder) -> Builder,
        environment: &[(&str, &str)],
    ) -> Result<Client, BuildError> {
        let look = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
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
            "PANELBOARD_MODE: \"on\" is no mode: set it to enforce, shadow or off, or leave it out"
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
        let by_pattern = by_pattern(vec![
            ("**".to_owned(), named("all")),
            ("checkout/*".to_owned(), named("checkout")),
            ("checkout/quote".to_owned(), named("exact")),
        ]);
        let fallback = Fallback { by_pattern: by_pattern.unwrap(), ..Fallback::default() };
        let policy = |name: &str| {
            let name = panelboard_core::BreakerName::parse(name).unwrap();
            fallback.policy(&name).0.name().to_owned()
        };
        assert_eq!(
            [policy("checkout/quote"), policy("checkout/x"), policy("a")],
            ["exact", "checkout", "all"]
        );
    }

    const IN_FILE: &str = "policies:
  - { name: file, match: ['checkout/*'], open: { wait: 7s } }
";

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policies.yaml");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn the_code_of_a_pattern_beats_the_file_and_the_file_beats_the_code_for_all() {
        let (_dir, path) = written(IN_FILE);
        let named = |name: &str| PolicySpec { name: name.into(), ..PolicySpec::default() };
        let builder =
            |b: Builder| b.policies_file(&path).policy(named("all")).policy_for("checkout/a", named("code"));
        let client = build(builder, &[]).unwrap();
        let policy = |name: &str| client.breaker(name).status().policy.to_string();
        assert_eq!([policy("checkout/a"), policy("checkout/b"), policy("c")], ["code", "file", "all"]);
        assert_eq!(client.breaker("checkout/b").status().policy_revision, 0, "no server told it");
    }

    #[test]
    fn a_file_of_the_environment_is_read_unless_the_code_names_one() {
        let (_dir, path) = written(IN_FILE);
        let environment = [("PANELBOARD_POLICIES", path.to_str().unwrap())];
        let policy = |client: Client| client.breaker("checkout/b").status().policy.to_string();
        assert_eq!(policy(build(|b| b, &environment).unwrap()), "file");
        let (_other, other) = written(&IN_FILE.replace("name: file", "name: other"));
        assert_eq!(policy(build(|b| b.policies_file(&other), &environment).unwrap()), "other");
    }

    #[test]
    fn a_wrong_policy_file_is_named_with_line_value_and_remedy() {
        let (dir, path) = written(&IN_FILE.replace("7s", "7"));
        let said = build(|b| b.policies_file(&path), &[]).unwrap_err().to_string();
        let said = said.replace(&format!("{}/", dir.path().display()), "");
        assert_eq!(
            said,
            "the policies in \"policies.yaml\" are not valid:\npolicies.yaml:2: policies[0].open.wait: \"7\" has no \
             unit: write 7s for seconds or 7ms for milliseconds"
        );
        let missing = build(|b| b.policies_file("/nowhere/at/all"), &[]).unwrap_err().to_string();
        assert!(
            missing.contains("cannot be read") && missing.contains("give a YAML file or a directory"),
            "{missing}"
        );
    }

    #[test]
    fn all_of_it_can_come_from_the_environment() {
        let from = |environment: &[(&str, &str)]| {
            let look = |name: &str| {
                environment.iter().find(|(known, _)| *known == name).map(|(_, v)| OsString::from(v))
            };
            Builder::from_env().build_in(look)
        };
        let said = |environment: &[(&str, &str)]| from(environment).unwrap_err().to_string();
        assert!(from(&[("PANELBOARD_URL", "http://127.0.0.1:1"), ("PANELBOARD_PROBE_WAIT", "50ms")]).is_ok());
        assert!(said(&[]).contains("set PANELBOARD_URL to one like"), "{}", said(&[]));
        assert!(from(&[("PANELBOARD_MODE", "off")]).is_ok(), "who does nothing needs no server");
        assert_eq!(
            said(&[("PANELBOARD_URL", "localhost:50051")]),
            "PANELBOARD_URL: \"localhost:50051\" is not a server's address: it has no scheme; set it to \
             one like \"http://localhost:50051\""
        );
        for (name, value, part) in [
            ("PANELBOARD_PROBE_WAIT", "1m", "\"1m\" is too long: set it to at most 10s"),
            ("PANELBOARD_ON_DISCONNECT", "open", "\"open\" is none of local, allow, deny"),
            ("PANELBOARD_ZONE", "a\tb", "the zone holds the control character"),
        ] {
            let said = said(&[("PANELBOARD_URL", "http://127.0.0.1:1"), (name, value)]);
            assert!(said.starts_with(&format!("{name}: ")) && said.contains(part), "{said}");
        }
    }

    #[test]
    fn what_the_code_says_is_not_looked_up() {
        let wrong = [("PANELBOARD_URL", "x"), ("PANELBOARD_MODE", "on"), ("PANELBOARD_PROBE_WAIT", "x")];
        let code = |b: Builder| b.mode(Mode::Enforce).probe_wait(Duration::from_millis(1));
        build(code, &wrong).unwrap();
    }
}
