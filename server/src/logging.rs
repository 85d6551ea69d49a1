//! What the server says about itself, on standard error: lines for people, or JSON for machines.

use std::fmt;
use std::io::{self, IsTerminal};

use panelboard_policy::nearest;
use tracing::Dispatch;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One line of text.
    #[default]
    Text,
    /// One JSON object on a line, with the event's own fields at the top.
    Json,
}

/// Which lines are written: a level, or a level per module as in `info,panelboard_server::hub=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevel {
    directives: String,
}

/// The levels, the quietest first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl LogLevel {
    /// Checks a level.
    ///
    /// Stricter than the filter itself, to which any word is the name of a module: `infoo` would mute everything else.
    pub fn parse(text: &str) -> Result<Self, LogLevelError> {
        for directive in text.split(',') {
            let word = directive.trim();
            let plain = !word.contains(['=', '[']);
            if plain && !LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) {
                return Err(LogLevelError::NotALevel { word: word.to_owned(), meant: nearest(word, LEVELS) });
            }
        }
        match EnvFilter::builder().parse(text) {
            Ok(_) => Ok(Self { directives: text.to_owned() }),
            Err(err) => Err(LogLevelError::NotAFilter { reason: err.to_string() }),
        }
    }

    fn filter(&self) -> EnvFilter {
        // It was parsed before; were it refused now, the filter would say so on standard error and go on without it.
        EnvFilter::builder().parse_lossy(&self.directives)
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self { directives: "info".to_owned() }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.directives)
    }
}

/// Why a text is not a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogLevelError {
    /// A single word that is no level.
    #[error("{word:?} is not a level{}: write one of {}, or levels by module, such as info,panelboard_server=debug",
            did_you_mean(.meant), LEVELS.join(", "))]
    NotALevel {
        /// The word.
        word: String,
        /// The level that was probably meant.
        meant: Option<&'static str>,
    },
    /// Something longer that is no filter.
    #[error("{reason}: write a level for each module, such as info,panelboard_server=debug")]
    NotAFilter {
        /// What is wrong with it.
        reason: String,
    },
}

fn did_you_mean(meant: &Option<&'static str>) -> String {
    meant.map_or(String::new(), |level| format!(" (did you mean {level}?)"))
}

/// Starts logging, for the whole process. Fails if something else has started it.
pub fn init(format: LogFormat, level: &LogLevel) -> Result<(), TryInitError> {
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    dispatch(format, level, colours, io::stderr).try_init()
}

/// The same to any writer, such as a test's.
pub fn dispatch<W>(format: LogFormat, level: &LogLevel, colours: bool, writer: W) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(level.filter()).with_writer(writer);
    match format {
        LogFormat::Text => builder.with_ansi(colours).into(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panics").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What these events become.
    fn written(format: LogFormat, level: &str, events: impl FnOnce()) -> String {
        let written = Written::default();
        let level = LogLevel::parse(level).expect("a level");
        let writer = {
            let written = written.clone();
            move || written.clone()
        };
        tracing::dispatcher::with_default(&dispatch(format, &level, false, writer), events);
        let bytes = written.0.lock().expect("no writer panics").clone();
        String::from_utf8(bytes).expect("text")
    }

    fn three_levels() {
        tracing::error!("worst");
        tracing::info!(breaker = "checkout/shipping-quote", generation = 7, "it tripped");
        tracing::debug!("detail");
    }

    #[test]
    fn text_is_one_line_per_event() {
        let text = written(LogFormat::Text, "info", three_levels);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].contains(" INFO "), "{text}");
        assert!(lines[1].ends_with(r#"it tripped breaker="checkout/shipping-quote" generation=7"#), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn json_is_one_object_per_event_with_its_fields_on_top() {
        let text = written(LogFormat::Json, "info", three_levels);
        let events: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(events.len(), 2, "{text}");
        assert_eq!(events[1]["level"], "INFO");
        assert_eq!(events[1]["message"], "it tripped");
        assert_eq!(events[1]["breaker"], "checkout/shipping-quote");
        assert_eq!(events[1]["generation"], 7);
        assert!(events[1]["timestamp"].is_string(), "{text}");
    }

    #[test]
    fn the_level_decides_and_may_differ_by_module() {
        assert_eq!(written(LogFormat::Text, "off", three_levels), "");
        assert_eq!(written(LogFormat::Text, "ERROR", three_levels).lines().count(), 1);
        assert_eq!(written(LogFormat::Text, "trace", three_levels).lines().count(), 3);
        assert_eq!(
            written(LogFormat::Text, "warn,panelboard_server::logging=debug", three_levels).lines().count(),
            3
        );
        assert_eq!(
            written(LogFormat::Text, "trace,panelboard_server=error", three_levels).lines().count(),
            1
        );
    }

    #[test]
    fn what_is_no_level_is_refused() {
        let refused = |text: &str| LogLevel::parse(text).expect_err(text).to_string();
        let rest = "write one of off, error, warn, info, debug, trace, or levels by module, such as \
                    info,panelboard_server=debug";
        assert_eq!(refused("infoo"), format!("\"infoo\" is not a level (did you mean info?): {rest}"));
        assert_eq!(refused("verbose"), format!("\"verbose\" is not a level: {rest}"));
        assert_eq!(refused(""), format!("\"\" is not a level: {rest}"));
        assert_eq!(refused("info,"), format!("\"\" is not a level: {rest}"));
        assert_eq!(refused("panelboard_server"), format!("\"panelboard_server\" is not a level: {rest}"));
        assert!(refused("panelboard_server=loud").ends_with("such as info,panelboard_server=debug"));
    }
}
