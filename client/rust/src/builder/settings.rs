//! What the code leaves open: from the environment, else from a file of the same names.
//!
//! Only the names below are read. Kubernetes puts `PANELBOARD_PORT*` and `PANELBOARD_SERVICE_*` beside every Service
//! called panelboard: none of ours begins so.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use panelboard_core::OnDisconnect;
use panelboard_policy::{duration, nearest};
use tonic::transport::Endpoint;

use super::{BuildError, PROBE_WAIT_MAX};
use crate::{agent, limits::SETTINGS_BYTES_MAX, mode::Mode};

const PREFIX: &str = "PANELBOARD_";

pub(super) const URL: &str = "PANELBOARD_URL";
pub(super) const POLICIES: &str = "PANELBOARD_POLICIES";
pub(super) const CACHE_DIR: &str = "PANELBOARD_CACHE_DIR";
pub(super) const PROBE_WAIT: &str = "PANELBOARD_PROBE_WAIT";
pub(super) const ON_DISCONNECT: &str = "PANELBOARD_ON_DISCONNECT";
pub(super) const INSTANCE: &str = "PANELBOARD_INSTANCE";
pub(super) const ZONE: &str = "PANELBOARD_ZONE";

pub(super) const ALL: [&str; 8] =
    [URL, POLICIES, CACHE_DIR, PROBE_WAIT, ON_DISCONNECT, INSTANCE, ZONE, Mode::VARIABLE];

/// Where settings are looked up: the environment first.
pub(super) struct Settings<E> {
    environment: E,
    file: Vec<Line>,
}

/// One setting of the file.
#[derive(Debug)]
struct Line {
    place: String,
    name: &'static str,
    value: String,
}

impl<E: Fn(&str) -> Option<OsString>> Settings<E> {
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn new(environment: E, file: Option<&Path>) -> Result<Self, BuildError> {
        Ok(Self { environment, file: file.map_or(Ok(Vec::new()), read)? })
    }

    /// What the code says; if it says nothing, [`Self::get`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn or<T>(
        &self,
        code: Option<T>,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, BuildError> {
        code.map_or_else(|| self.get(name, read), |value| Ok(Some(value)))
    }

    /// The value of a setting, as `read` understands it. An empty one counts as none: that is what a template leaves of
    /// a variable that nobody set.
    ///
    /// # Errors
    /// What `read` says is wrong, with the setting and where it stands.
    fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, BuildError> {
        let wrong = |setting: String| move |message| BuildError::Setting { setting, message };
        if let Some(value) = (self.environment)(name).filter(|value| !value.is_empty()) {
            let not_text = |value: OsString| format!("{value:?} is not UTF-8: write it as UTF-8");
            let text = value.into_string().map_err(not_text);
            return text.and_then(|text| read(&text)).map(Some).map_err(wrong(name.to_owned()));
        }
        match self.file.iter().find(|line| line.name == name) {
            Some(line) if !line.value.is_empty() => {
                read(&line.value).map(Some).map_err(wrong(format!("{}: {name}", line.place)))
            }
            _ => Ok(None),
        }
    }
}

/// A file or directory.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

/// A server's address.
pub(super) fn address(text: &str) -> Result<(String, Endpoint), String> {
    match agent::endpoint(text) {
        Ok(endpoint) => Ok((text.to_owned(), endpoint)),
        Err(message) => Err(format!(
            "{text:?} is not a server's address: {message}; set it to one like \"http://localhost:50051\""
        )),
    }
}

/// `enforce`, `shadow` or `off`.
pub(super) fn mode(text: &str) -> Result<Mode, String> {
    let wrong = || format!("{text:?} is no mode: set it to enforce, shadow or off, or leave it out");
    Mode::parse(text).ok_or_else(wrong)
}

/// A wait that is short enough to be a bound.
pub(super) fn probe_wait(text: &str) -> Result<Duration, String> {
    let wait = duration::parse(text).map_err(|error| error.to_string())?;
    if wait > PROBE_WAIT_MAX {
        return Err(format!("{text:?} is too long: set it to at most {}", duration::format(PROBE_WAIT_MAX)));
    }
    Ok(wait)
}

/// `local`, `allow` or `deny`.
pub(super) fn on_disconnect(text: &str) -> Result<OnDisconnect, String> {
    match text {
        "local" => Ok(OnDisconnect::Local),
        "allow" => Ok(OnDisconnect::Allow),
        "deny" => Ok(OnDisconnect::Deny),
        _ => Err(format!("{text:?} is none of local, allow, deny: set it to one of them, or leave it out")),
    }
}

/// Variables that look like a slip of the hand, each with what was probably meant. The server's own have our prefix too,
/// so what is like none of ours is left alone.
pub(super) fn misspelt(names: impl Iterator<Item = OsString>) -> Vec<(String, &'static str)> {
    let known = || ALL.into_iter().map(|name| &name[PREFIX.len()..]);
    let meant = |name: OsString| {
        let name = name.into_string().ok()?;
        let rest = name.strip_prefix(PREFIX).filter(|rest| !known().any(|known| known == *rest))?;
        let injected = rest.starts_with("PORT") || rest.starts_with("SERVICE");
        let meant = nearest(rest, known()).filter(|_| !injected)?;
        let meant = ALL.into_iter().find(|name| name.ends_with(meant))?;
        Some((name, meant))
    };
    names.filter_map(meant).collect()
}

/// Reads a file of lines such as `PANELBOARD_URL=http://localhost:50051`, as service managers and containers take them:
/// blank lines and lines that begin with `#` say nothing, one pair of quotes around a value is taken off.
fn read(path: &Path) -> Result<Vec<Line>, BuildError> {
    let wrong = |place: String, message: String| Err(BuildError::SettingsFile { place, message });
    let text = match whole(path) {
        Ok(text) => text,
        Err(message) => return wrong(path.display().to_string(), message),
    };
    let mut lines: Vec<Line> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), index + 1);
        let Some((name, value)) = line.split_once('=') else {
            return wrong(place, format!("{:?} is no setting: write NAME=value", shortened(line)));
        };
        let name = name.trim_end();
        let Some(name) = ALL.into_iter().find(|known| *known == name) else {
            let remedy = match nearest(name, ALL) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("remove it, or use one of {}", ALL.join(", ")),
            };
            return wrong(place, format!("unknown setting {:?}: {remedy}", shortened(name)));
        };
        if let Some(first) = lines.iter().find(|line| line.name == name) {
            return wrong(place, format!("{name} is given twice, first at {}: keep one", first.place));
        }
        let value = value.trim();
        let quoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value).to_owned();
        lines.push(Line { place, name, value });
    }
    Ok(lines)
}

fn whole(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("cannot be read: {error}: give a file that this process may read");
    // A pipe would be waited for without end, so the kind is looked at before the file is opened.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is no regular file: give a file of lines such as PANELBOARD_URL=...".into());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(SETTINGS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > SETTINGS_BYTES_MAX {
        return Err(format!("is larger than {SETTINGS_BYTES_MAX} bytes: settings are a few lines"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8: save it as UTF-8".into())
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.env");
        fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn refused(text: &str) -> String {
        let (dir, path) = file(text);
        let said = Settings::new(|_: &str| None, Some(&path)).err().expect(text).to_string();
        said.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn the_environment_beats_the_file_and_empty_is_not_set() {
        let (_dir, path) = file("# where\n\nPANELBOARD_URL = \"http://file:1\"\nPANELBOARD_ZONE='z'\n");
        let environment = |name: &str| match name {
            URL => Some("http://environment:1".into()),
            ZONE => Some("".into()),
            _ => None,
        };
        let settings = Settings::new(environment, Some(&path)).unwrap();
        let value = |name| settings.get(name, text).unwrap();
        assert_eq!(value(URL).as_deref(), Some("http://environment:1"));
        assert_eq!(value(ZONE).as_deref(), Some("z"));
        assert_eq!(value(INSTANCE), None);
        let settings = Settings::new(|_: &str| None, Some(&path)).unwrap();
        assert_eq!(settings.get(URL, text).unwrap().as_deref(), Some("http://file:1"));
    }

    #[test]
    fn a_wrong_line_is_named_with_its_remedy() {
        assert_eq!(
            refused("\nPANELBOARD_ULR=x\n"),
            "client.env:2: unknown setting \"PANELBOARD_ULR\": did you mean PANELBOARD_URL?"
        );
        assert!(
            refused("COLOUR=red")
                .contains("unknown setting \"COLOUR\": remove it, or use one of PANELBOARD_URL")
        );
        assert_eq!(refused("url: x"), "client.env:1: \"url: x\" is no setting: write NAME=value");
        let twice = refused("PANELBOARD_ZONE=a\nPANELBOARD_ZONE=b\n");
        assert!(twice.starts_with("client.env:2: PANELBOARD_ZONE is given twice, first at "), "{twice}");
        assert!(refused(&"#".repeat(SETTINGS_BYTES_MAX + 1)).contains("is larger than"));
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| Settings::new(|_: &str| None, Some(path)).err().unwrap().to_string();
        assert!(said(dir.path()).contains("is no regular file"));
        assert!(said(&dir.path().join("missing")).contains("cannot be read"));
    }

    #[test]
    fn a_wrong_value_in_a_file_is_named_with_file_and_line() {
        let (_dir, path) = file("PANELBOARD_PROBE_WAIT=100\n");
        let settings = Settings::new(|_: &str| None, Some(&path)).unwrap();
        let said = settings.get(PROBE_WAIT, probe_wait).unwrap_err().to_string();
        assert!(
            said.contains("client.env:1: PANELBOARD_PROBE_WAIT: \"100\" has no unit: write 100s"),
            "{said}"
        );
    }

    #[test]
    fn a_slip_of_the_hand_in_the_environment_is_found_and_nothing_else() {
        let names = [
            "PANELBOARD_MOED",
            "PANELBOARD_MODE",
            "PANELBOARD_PORT",
            "PANELBOARD_SERVICE_HOST",
            "PANELBOARD_GRPC_ADDR",
            "PANELBOARD_DATA_DIR",
            "MODE",
        ];
        assert_eq!(
            misspelt(names.into_iter().map(OsString::from)),
            [("PANELBOARD_MOED".to_owned(), Mode::VARIABLE)]
        );
    }

    #[test]
    fn no_name_of_ours_is_one_that_kubernetes_injects() {
        for name in ALL {
            let rest = name.strip_prefix(PREFIX).unwrap();
            assert!(!rest.starts_with("PORT") && !rest.starts_with("SERVICE"), "{name}");
        }
    }
}
