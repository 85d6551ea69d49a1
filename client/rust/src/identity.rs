//! Who this client is: the identity that rides on every request.

use panelboard_core::{Instance, Session};

/// The longest part of an identity, in bytes; the server's limit.
const PART_BYTES_MAX: usize = 128;

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
    /// # Errors
    /// The part that is too long.
    pub(crate) fn resolve(
        given: Given,
        environment: impl Fn(&str) -> Option<String>,
        host: impl FnOnce() -> Option<String>,
        random: u64,
    ) -> Result<Self, PartTooLong> {
        let named = |name: &str| environment(name).filter(|value| !value.is_empty());
        let service = given.service.or_else(|| named("OTEL_SERVICE_NAME")).unwrap_or_default();
        let instance = given.instance.or_else(|| named("POD_NAME")).or_else(host).unwrap_or_default();
        let zone = given.zone.unwrap_or_default();
        for (part, value) in [("service", &service), ("instance", &instance), ("zone", &zone)] {
            if value.len() > PART_BYTES_MAX {
                return Err(PartTooLong { part, bytes: value.len() });
            }
        }
        Ok(Self {
            instance: Instance::new(&service, &instance),
            session: Session(format!("{random:016x}").into()),
            zone,
        })
    }
}

/// A part of the identity is longer than the server takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {part} has {bytes} bytes, {PART_BYTES_MAX} are allowed: shorten it")]
pub(crate) struct PartTooLong {
    part: &'static str,
    bytes: usize,
}

/// The host's name as the kernel or the shell knows it.
pub(crate) fn host_name() -> Option<String> {
    let from_file = |path| std::fs::read_to_string(path).ok();
    let name = from_file("/proc/sys/kernel/hostname")
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .or_else(|| from_file("/etc/hostname"))?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.chars().take(PART_BYTES_MAX / 4).collect())
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
    fn a_part_that_is_too_long_is_named() {
        let given = Given { zone: Some("z".repeat(129)), ..Given::default() };
        let error = Identity::resolve(given, |_| None, || None, 1).unwrap_err();
        assert_eq!(error.to_string(), "the zone has 129 bytes, 128 are allowed: shorten it");
    }
}
