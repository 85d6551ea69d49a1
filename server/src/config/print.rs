//! Settings as `--print-config` shows them.

use super::setting::Setting;
use super::{Config, Source};

/// A configuration file that gives these settings again.
pub(super) fn print(config: &Config, sources: &[(Setting, Source)]) -> String {
    let mut out = String::new();
    let mut in_limits = false;
    for (setting, source) in sources {
        if matches!(setting, Setting::Limit(_)) && !in_limits {
            in_limits = true;
            out.push_str("\n[limits]\n");
        }
        let name = setting.key();
        out.push_str(&match setting.write(config) {
            Some(value) => format!("{name} = {value} # {source}\n"),
            None => format!("# {name} is not set # {source}\n"),
        });
    }
    out
}
