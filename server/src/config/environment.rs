//! Settings from `PANELBOARD_*` variables: those we know, and no others.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use panelboard_policy::nearest;

use super::setting::{self, Setting};

const PREFIX: &str = "PANELBOARD_";

/// Names the configuration file, as `--config` does.
const CONFIG: &str = "PANELBOARD_CONFIG";

/// The variables that concern us.
#[derive(Debug)]
pub(super) struct Environment {
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    pub(super) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let ours = |(name, _): &(OsString, OsString)| name.to_string_lossy().starts_with(PREFIX);
        let mut variables: Vec<_> = variables.into_iter().filter(ours).collect();
        variables.sort();
        Self { variables }
    }

    pub(super) fn config_file(&self) -> Option<&Path> {
        self.value(CONFIG).map(Path::new)
    }

    /// Each known setting that is there, with its variable.
    pub(super) fn settings(&self) -> impl Iterator<Item = (Setting, String, &OsStr)> {
        setting::all().filter_map(|setting| {
            let name = setting.variable();
            let value = self.value(&name)?;
            Some((setting, name, value))
        })
    }

    /// What looks like a setting and is none.
    pub(super) fn unknown(&self) -> Vec<UnknownVariable> {
        let known: Vec<String> = setting::all().map(Setting::variable).chain([CONFIG.to_owned()]).collect();
        self.variables
            .iter()
            .map(|(name, _)| name.to_string_lossy())
            .filter(|name| !known.iter().any(|known| known == name) && !is_service_link(name))
            .map(|name| {
                let meant = nearest(&name[PREFIX.len()..], known.iter().map(|known| &known[PREFIX.len()..]));
                UnknownVariable {
                    meant: meant.map(|meant| format!("{PREFIX}{meant}")),
                    name: name.into_owned(),
                }
            })
            .collect()
    }

    fn value(&self, wanted: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_os_str())
    }
}

/// A variable with our prefix that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The one that was probably meant.
    pub meant: Option<String>,
}

impl fmt::Display for UnknownVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variable {} is not a setting and is ignored", self.name)?;
        match &self.meant {
            Some(meant) => write!(f, ": did you mean {meant}?"),
            None => f.write_str(": --print-config shows every setting"),
        }
    }
}

/// Whether Kubernetes put it there, for a Service called panelboard or panelboard-something: the service links
/// (`…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_SERVICE_PORT_GRPC`) and their older form (`…_PORT`, `…_PORT_50051_TCP_ADDR`).
fn is_service_link(name: &str) -> bool {
    let ends_or_goes_on = |rest: &str| rest.is_empty() || rest.starts_with('_');
    let after = |mark: &str| name.find(mark).map(|at| &name[at + mark.len()..]);
    let numbered = |rest: &str| rest.trim_start_matches('_').starts_with(|c: char| c.is_ascii_digit());
    name.starts_with("PANELBOARD_PORT")
        || name.starts_with("PANELBOARD_SERVICE_")
        || name.ends_with("_SERVICE_HOST")
        || after("_SERVICE_PORT").is_some_and(ends_or_goes_on)
        || after("_PORT").is_some_and(|rest| rest.is_empty() || numbered(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(names: &[&str]) -> Vec<String> {
        let variables = names.iter().map(|name| (OsString::from(name), OsString::from("x")));
        Environment::new(variables).unknown().iter().map(UnknownVariable::to_string).collect()
    }

    #[test]
    fn no_setting_looks_like_a_service_link() {
        for setting in setting::all() {
            assert!(!is_service_link(&setting.variable()), "{}", setting.variable());
        }
        assert!(!is_service_link(CONFIG));
    }

    #[test]
    fn what_kubernetes_adds_is_neither_read_nor_warned_about() {
        let links = [
            "PANELBOARD_PORT",
            "PANELBOARD_PORT_50051_TCP",
            "PANELBOARD_PORT_50051_TCP_ADDR",
            "PANELBOARD_PORT_50051_TCP_PORT",
            "PANELBOARD_PORT_50051_TCP_PROTO",
            "PANELBOARD_SERVICE_HOST",
            "PANELBOARD_SERVICE_PORT",
            "PANELBOARD_SERVICE_PORT_GRPC",
            "PANELBOARD_ADMIN_PORT",
            "PANELBOARD_ADMIN_PORT_50052_TCP_ADDR",
            "PANELBOARD_ADMIN_SERVICE_HOST",
            "PANELBOARD_ADMIN_SERVICE_PORT_GRPC",
        ];
        assert_eq!(unknown(&links), [""; 0]);
    }

    #[test]
    fn a_slip_of_the_hand_is_warned_about_with_what_was_meant() {
        let warnings = unknown(&[
            "PANELBOARD_GRPC_ADR",
            "PANELBOARD_LIMIT_BREAKERS",
            "PANELBOARD_COLOUR",
            "PANELBOARDS",
            "PATH",
        ]);
        assert_eq!(
            warnings,
            [
                "the environment variable PANELBOARD_COLOUR is not a setting and is ignored: --print-config shows every setting",
                "the environment variable PANELBOARD_GRPC_ADR is not a setting and is ignored: did you mean PANELBOARD_GRPC_ADDR?",
                "the environment variable PANELBOARD_LIMIT_BREAKERS is not a setting and is ignored: did you mean \
                 PANELBOARD_LIMITS_BREAKERS?",
            ]
        );
    }
}
