//! Who this client is: the identity that rides on every request.

use panelboard_core::{Instance, Session};

/// The longest part of an identity, in bytes; the server's limit.
const PART_BYTES_MAX: usize = 256;

/// The service, the instance, and this run of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) instance: Instance,
    pub(crate) session: Session,
    pub(crate) zone: String,
}

/// What the builder was given, and what the environment says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) service: Option<String>,
    pub(crate) instance: Option<String>,
    pub(crate) zone: Option<String>,
}

impl Identity {
    /// What was given, else OTEL_SERVICE_NAME, and POD_NAME else the host's name. Only these names are read.
    ///
    /// What the environment says is made to fit: nobody wrote it for this client, and it must not stop a start.
    ///
    /// # Errors
    /// The part that was given and that the server would not take.
    pub(crate) fn resolve(
        given: Given,
        environment: impl Fn(&str) -> Option<String>,
        host: impl FnOnce() -> Option<String>,
        random: u64,
    ) -> Result<Self, PartError> {
        for (part, value) in
            [("service", &given.service), ("instance", &given.instance), ("zone", &given.zone)]
        {
            value.as_deref().map_or(Ok(()), |value| check(part, value))?;
        }
        let named = |name: &str| environment(name).and_then(|value| fitting(&value));
        let host = || host().and_then(|value| fitting(&value));
        let service = given.service.or_else(|| named("OTEL_SERVICE_NAME")).unwrap_or_default();
        let instance = given.instance.or_else(|| named("POD_NAME")).or_else(host).unwrap_or_default();
        let zone = given.zone.unwrap_or_default();
        Ok(Self {
            instance: Instance::new(&service, &instance),
            session: Session(format!("{random:016x}").into()),
            zone,
        })
    }
}

/// A part of the identity is none that the server takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartError {
    #[error("the {part} has {bytes} bytes, {PART_BYTES_MAX} are allowed: shorten it")]
    TooLong { part: &'static str, bytes: usize },
    #[error("the {part} holds the control character {control:?}: remove it")]
    Control { part: &'static str, control: char },
}

/// A part that somebody wrote for this client.
///
/// # Errors
/// What is wrong with it, and the remedy.
pub(crate) fn part(part: &'static str, value: &str) -> Result<String, String> {
    check(part, value).map(|()| value.to_owned()).map_err(|error| error.to_string())
}

fn check(part: &'static str, value: &str) -> Result<(), PartError> {
    if value.len() > PART_BYTES_MAX {
        return Err(PartError::TooLong { part, bytes: value.len() });
    }
    match value.chars().find(|c| c.is_control()) {
        Some(control) => Err(PartError::Control { part, control }),
        None => Ok(()),
    }
}

/// As much of a value as the server takes: without control characters, cut between two characters. None if nothing
/// is left.
fn fitting(value: &str) -> Option<String> {
    let mut fitting = String::new();
    for c in value.chars().filter(|c| !c.is_control()) {
        if fitting.len() + c.len_utf8() > PART_BYTES_MAX {
            break;
        }
        fitting.push(c);
    }
    (!fitting.is_empty()).then_some(fitting)
}

/// The host's name as the kernel or the shell knows it.
pub(crate) fn host_name() -> Option<String> {
    let from_file = |path| std::fs::read_to_string(path).ok();
    let name = from_file("/proc/sys/kernel/hostname")
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .or_else(|| from_file("/etc/hostname"))?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(given: Given, environment: &[(&str, &str)]) -> Identity {
        let look = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Identity::resolve(given, look, || Some("host-7".into()), 42).unwrap()
    }

    #[test]
    fn what_is_given_wins_over_the_environment_and_that_over_the_host() {
        let environment = [("OTEL_SERVICE_NAME", "checkout"), ("POD_NAME", "pod-1")];
        let plain = resolve(Given::default(), &environment);
        assert_eq!(plain.instance, Instance::new("checkout", "pod-1"));
        let given = Given { service: Some("cart".into()), instance: Some("a".into()), zone: None };
        assert_eq!(resolve(given, &environment).instance, Instance::new("cart", "a"));
        assert_eq!(resolve(Given::default(), &[("POD_NAME", "")]).instance, Instance::new("", "host-7"));
    }

    #[test]
    fn what_kubernetes_injects_beside_a_service_is_never_read() {
        let look = |name: &str| -> Option<String> {
            assert!(matches!(name, "OTEL_SERVICE_NAME" | "POD_NAME"), "{name} was read");
            None
        };
        Identity::resolve(Given::default(), look, || None, 1).unwrap();
    }

    #[test]
    fn what_was_given_and_the_server_would_refuse_is_named() {
        let said = |zone: String| {
            let given = Given { zone: Some(zone), ..Given::default() };
            Identity::resolve(given, |_| None, || None, 1).map_err(|error| error.to_string())
        };
        assert!(said("z".repeat(256)).is_ok());
        assert_eq!(said("z".repeat(257)), Err("the zone has 257 bytes, 256 are allowed: shorten it".into()));
        assert_eq!(said("a\nb".into()), Err("the zone holds the control character '\\n': remove it".into()));
    }

    #[test]
    fn what_the_environment_says_is_made_to_fit() {
        let instance = |pod: &str| resolve(Given::default(), &[("POD_NAME", pod)]).instance;
        let pod = "p".repeat(200);
        assert_eq!(instance(&pod), Instance::new("", &pod), "the server takes that");
        assert_eq!(instance(&"p".repeat(300)), Instance::new("", &"p".repeat(256)));
        // 255 bytes are whole characters, the next one has three.
        assert_eq!(instance(&"\u{20ac}".repeat(100)), Instance::new("", &"\u{20ac}".repeat(85)));
        assert_eq!(instance("pod\t-1\n"), Instance::new("", "pod-1"));
        assert_eq!(instance("\n"), Instance::new("", "host-7"), "nothing is left of it");
        let host = || Some(format!("h\u{7}{}", "o".repeat(300)));
        let named_by_host = Identity::resolve(Given::default(), |_| None, host, 1).unwrap();
        assert_eq!(named_by_host.instance, Instance::new("", &format!("h{}", "o".repeat(255))));
        let service = resolve(Given::default(), &[("OTEL_SERVICE_NAME", &"s".repeat(300))]).instance;
        assert_eq!(service, Instance::new(&"s".repeat(256), "host-7"));
    }
}
