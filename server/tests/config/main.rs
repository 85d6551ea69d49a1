//! The settings as an operator meets them: files, variables and flags in, values or messages out.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use panelboard_server::config::{Command, Config, ConfigError, Loaded, ServeFlags, StoreKind, load};
use panelboard_server::logging::{LogFormat, LogLevel};

/// Flags, variables and the text of a file, if any.
#[derive(Default)]
struct Given<'a> {
    args: &'a [&'a str],
    env: &'a [(&'a str, &'a str)],
    file: Option<&'a str>,
}

impl Given<'_> {
    fn load(&self) -> Result<Loaded, ConfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut args: Vec<OsString> = self.args.iter().map(OsString::from).collect();
        if let Some(text) = self.file {
            args.extend(["--config".into(), in_file(dir.path(), text).into_os_string()]);
        }
        load(&serve(args), self.env.iter().map(|(name, value)| (name.into(), value.into())))
    }

    /// What is printed on failure, with the directory's name taken out.
    fn errors(&self) -> Vec<String> {
        let err = self.load().expect_err("this is refused");
        let message = err.to_string();
        message.lines().map(|line| line[line.find("panelboard.toml").unwrap_or(0)..].to_owned()).collect()
    }

    /// What is printed by `--print-config` about one setting.
    fn printed(&self, name: &str) -> String {
        let printed = self.load().unwrap_or_else(|err| panic!("{err}")).print();
        let line = printed.lines().find(|line| line.starts_with(&format!("{name} = "))).expect(name);
        match (line.find("# file "), line.find("panelboard.toml:")) {
            (Some(at), Some(file)) => format!("{}{}", &line[..at + 7], &line[file..]),
            _ => line.to_owned(),
        }
    }
}

fn in_file(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("panelboard.toml");
    fs::write(&path, text).expect("a file");
    path
}

fn serve(args: impl IntoIterator<Item = OsString>) -> ServeFlags {
    match Command::parse([OsString::from("panelboard")].into_iter().chain(args)) {
        Ok(Command::Serve(flags)) => flags,
        other => panic!("{other:?}"),
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn without_anything_there_are_the_defaults() {
    let loaded = Given::default().load().expect("the defaults are valid");
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.config.grpc_addr, addr("127.0.0.1:50051"));
    assert_eq!(loaded.config.http_addr, addr("127.0.0.1:50080"));
    assert_eq!(loaded.config.data_dir, PathBuf::from("./panelboard-data"));
    assert_eq!(loaded.config.policies, None);
    assert_eq!(loaded.config.store, StoreKind::Embedded);
    assert_eq!(loaded.config.log_format, LogFormat::Text);
    assert_eq!(loaded.config.drain_timeout, Duration::from_secs(10));
    assert_eq!(loaded.config.limits.entries_per_report, 1_000);
    assert_eq!(loaded.warnings, []);
}

#[test]
fn each_layer_covers_the_one_below() {
    let file = "store = \"memory\"\ngrpc-addr = \"127.0.0.1:1\"\n";
    let env = [("PANELBOARD_GRPC_ADDR", "127.0.0.1:2")];
    let args = ["--grpc-addr", "127.0.0.1:3"];
    let check = |given: Given<'_>, line: &str| assert_eq!(given.printed("grpc-addr"), line);
    check(Given::default(), r#"grpc-addr = "127.0.0.1:50051" # default"#);
    let mut given = Given { file: Some(file), ..Given::default() };
    assert_eq!(given.printed("grpc-addr"), r#"grpc-addr = "127.0.0.1:1" # file panelboard.toml:2"#);
    given.env = &env;
    assert_eq!(given.printed("grpc-addr"), r#"grpc-addr = "127.0.0.1:2" # environment PANELBOARD_GRPC_ADDR"#);
    given.args = &args;
    assert_eq!(given.printed("grpc-addr"), r#"grpc-addr = "127.0.0.1:3" # flag --grpc-addr"#);
    assert_eq!(given.printed("store"), r#"store = "memory" # file panelboard.toml:1"#);
    check(
        Given { args: &args, env: &env, ..Given::default() },
        r#"grpc-addr = "127.0.0.1:3" # flag --grpc-addr"#,
    );
}

#[test]
fn every_setting_can_come_from_every_layer() {
    let by_flag = [
        "--grpc-addr",
        "0.0.0.0:1",
        "--http-addr",
        "[::]:2",
        "--data-dir",
        "/d",
        "--policies",
        "/p",
        "--store",
        "memory",
        "--log-format",
        "json",
        "--log-level",
        "debug,h2=warn",
        "--drain-timeout",
        "1.5s",
    ];
    let by_env: Vec<(String, &str)> = by_flag
        .chunks(2)
        .map(|pair| (format!("PANELBOARD_{}", pair[0][2..].replace('-', "_").to_uppercase()), pair[1]))
        .collect();
    let by_env: Vec<(&str, &str)> = by_env.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let by_file: String =
        by_flag.chunks(2).map(|pair| format!("{} = '{}'\n", &pair[0][2..], pair[1])).collect();
    let expected = Config {
        grpc_addr: addr("0.0.0.0:1"),
        http_addr: addr("[::]:2"),
        data_dir: "/d".into(),
        policies: Some("/p".into()),
        store: StoreKind::Memory,
        log_format: LogFormat::Json,
        log_level: LogLevel::parse("debug,h2=warn").unwrap(),
        drain_timeout: Duration::from_millis(1_500),
        ..Config::default()
    };
    for given in [
        Given { args: &by_flag, ..Given::default() },
        Given { env: &by_env, ..Given::default() },
        Given { file: Some(&by_file), ..Given::default() },
    ] {
        let loaded = given.load().unwrap_or_else(|err| panic!("{err}"));
        assert_eq!(loaded.config, expected);
    }
}

#[test]
fn limits_come_from_the_file_and_the_environment() {
    let given = Given {
        file: Some("[limits]\nbreakers = 5_000\nincident-age = \"36h\"\nwatch-streams = \"7\"\n"),
        env: &[("PANELBOARD_LIMITS_WATCH_STREAMS", "9"), ("PANELBOARD_LIMITS_ENTRIES_PER_REPORT", "11")],
        ..Given::default()
    };
    let limits = given.load().unwrap().config.limits;
    assert_eq!((limits.breakers, limits.watch_streams, limits.entries_per_report), (5_000, 9, 11));
    assert_eq!(limits.incident_age, Duration::from_secs(36 * 3_600));
    assert_eq!(given.printed("breakers"), "breakers = 5000 # file panelboard.toml:2");
    assert_eq!(
        given.printed("watch-streams"),
        "watch-streams = 9 # environment PANELBOARD_LIMITS_WATCH_STREAMS"
    );
}

#[test]
fn the_environment_may_name_the_file_and_the_flag_wins() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let by_env = in_file(dirs[0].path(), "store = 'memory'");
    let by_flag = in_file(dirs[1].path(), "log-format = 'json'");
    let env = [("PANELBOARD_CONFIG".into(), by_env.into_os_string())];
    let loaded = load(&serve([]), env.clone()).unwrap();
    assert_eq!((loaded.config.store, loaded.config.log_format), (StoreKind::Memory, LogFormat::Text));
    let loaded = load(&serve(["--config".into(), by_flag.into_os_string()]), env).unwrap();
    assert_eq!((loaded.config.store, loaded.config.log_format), (StoreKind::Embedded, LogFormat::Json));
}

#[test]
fn what_is_printed_is_a_file_that_gives_the_same_again() {
    let given = Given {
        args: &["--policies", "/etc/\"odd\"\\name", "--log-level", "debug", "--drain-timeout", "90s"],
        env: &[("PANELBOARD_LIMITS_IDLE_BREAKER_AGE", "90m"), ("PANELBOARD_LIMITS_BREAKERS", "12")],
        file: Some("http-addr = '127.0.0.1:0'"),
    };
    for given in [given, Given::default()] {
        let first = given.load().unwrap();
        let printed = first.print();
        let again =
            Given { file: Some(&printed), ..Given::default() }.load().unwrap_or_else(|err| panic!("{err}"));
        assert_eq!(again.config, first.config);
    }
}

#[test]
fn every_setting_is_printed_once_with_its_source() {
    let printed = Given::default().load().unwrap().print();
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty() && *line != "[limits]").collect();
    assert!(lines.iter().all(|line| line.ends_with(" # default")), "{printed}");
    assert_eq!(lines[0], r#"grpc-addr = "127.0.0.1:50051" # default"#);
    assert!(lines.contains(&"# policies is not set # default"), "{printed}");
    assert!(lines.contains(&"entries-per-report = 1000 # default"), "{printed}");
    assert!(lines.contains(&r#"incident-age = "7d" # default"#), "{printed}");
}

#[test]
fn the_source_of_a_setting_can_be_asked_for() {
    let loaded = Given { args: &["--store", "memory"], ..Given::default() }.load().unwrap();
    assert_eq!(loaded.source("store").map(ToString::to_string).as_deref(), Some("flag --store"));
    assert_eq!(loaded.source("limits.breakers").map(ToString::to_string).as_deref(), Some("default"));
    assert_eq!(loaded.source("colour"), None);
}

#[test]
fn a_bad_value_is_named_with_its_place_and_the_remedy() {
    let check = |args: &[&str], message: &str| {
        assert_eq!(Given { args, ..Given::default() }.errors(), [message]);
    };
    let address =
        "write an IP address and a port, such as 127.0.0.1:50051, or 0.0.0.0 to listen on every interface";
    check(
        &["--grpc-addr", "localhost:50051"],
        &format!("flag --grpc-addr: grpc-addr cannot be \"localhost:50051\": {address}"),
    );
    check(
        &["--grpc-addr", "127.0.0.1:99999"],
        &format!("flag --grpc-addr: grpc-addr cannot be \"127.0.0.1:99999\": {address}"),
    );
    check(&["--store", "memori"], "flag --store: store cannot be \"memori\": did you mean memory?");
    check(&["--store", "sql"], "flag --store: store cannot be \"sql\": write one of embedded, memory");
    check(
        &["--log-format", "xml"],
        "flag --log-format: log-format cannot be \"xml\": write one of text, json",
    );
    check(
        &["--data-dir", ""],
        "flag --data-dir: data-dir cannot be \"\": write a path, or leave the setting out",
    );
    check(
        &["--drain-timeout", "10"],
        "flag --drain-timeout: drain-timeout cannot be \"10\": \"10\" has no unit: write 10s for seconds or 10ms for milliseconds",
    );
    check(
        &["--drain-timeout", "-5s"],
        "flag --drain-timeout: drain-timeout cannot be \"-5s\": \"-5s\" is negative: a duration is zero or more",
    );
    check(
        &["--drain-timeout", "2h"],
        "flag --drain-timeout: drain-timeout cannot be \"2h\": give at most 1h",
    );
    check(
        &["--log-level", "loud"],
        "flag --log-level: log-level cannot be \"loud\": \"loud\" is not a level: write one of off, error, warn, info, debug, \
         trace, or levels by module, such as info,panelboard_server=debug",
    );
}

#[test]
fn everything_wrong_is_reported_at_once_each_with_its_place() {
    let given = Given {
        args: &["--store", "tape"],
        env: &[("PANELBOARD_LIMITS_BREAKERS", "many"), ("PANELBOARD_DATA_DIR", "")],
        file: Some("# settings\ndrain-timeout = 10\n\n[limits]\nbreakers = -1\nwatch-streams = 0\n"),
    };
    assert_eq!(
        given.errors(),
        [
            "panelboard.toml:2: drain-timeout cannot be \"10\": \"10\" has no unit: write 10s for seconds or 10ms for milliseconds",
            "panelboard.toml:5: limits.breakers cannot be \"-1\": write a whole number, such as 10000000",
            "panelboard.toml:6: limits.watch-streams cannot be \"0\": give at least 1 and at most 1000000",
            "environment PANELBOARD_DATA_DIR: data-dir cannot be \"\": write a path, or leave the setting out",
            "environment PANELBOARD_LIMITS_BREAKERS: limits.breakers cannot be \"many\": write a whole number, such as 10000000",
            "flag --store: store cannot be \"tape\": write one of embedded, memory",
        ]
    );
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
    let given = Given {
        file: Some("grpc_addr = 'x'\ncolour = 'red'\nbreakers = 5\n[limits]\nbreaker = 1\n[server]\nx = 1\n"),
        ..Given::default()
    };
    assert_eq!(
        given.errors(),
        [
            "panelboard.toml:1: unknown key \"grpc_addr\": did you mean grpc-addr?",
            "panelboard.toml:2: unknown key \"colour\": --print-config shows every key",
            "panelboard.toml:3: unknown key \"breakers\": it belongs under [limits]",
            "panelboard.toml:5: unknown key \"breaker\": did you mean limits.breakers?",
            "panelboard.toml:6: unknown key \"server\": --print-config shows every key",
        ]
    );
}

#[test]
fn a_value_of_a_foreign_type_is_named_with_its_line() {
    for (value, found) in [
        ("true", "boolean"),
        ("1.5", "float"),
        ("[1]", "array"),
        ("{a = 1}", "table"),
        ("1979-05-27", "datetime"),
        ("0xff", "number that is not decimal"),
    ] {
        let file = format!("\n[limits]\nbreakers = {value}\n");
        let message = format!(
            "panelboard.toml:3: limits.breakers cannot be a value of type {found}: write a text in quotes or a whole number"
        );
        assert_eq!(Given { file: Some(&file), ..Given::default() }.errors(), [message]);
    }
    let limits = Given { file: Some("limits = 5"), ..Given::default() };
    let message =
        "panelboard.toml:1: limits is a table: write [limits] on a line of its own and the limits below it";
    assert_eq!(limits.errors(), [message]);
}

#[test]
fn what_is_not_toml_is_named_with_its_line() {
    for (file, line) in [
        ("store = 'memory'\nstore = 'memory'\n", 2),
        ("\n\nstore = memory\n", 3),
        ("store: memory\n", 1),
        ("store = 'memory\n", 1),
        ("[limits\n", 1),
    ] {
        let errors = Given { file: Some(file), ..Given::default() }.errors();
        assert!(
            errors.len() == 1 && errors[0].starts_with(&format!("panelboard.toml:{line}: ")),
            "{errors:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let errors =
        |path: &Path| load(&serve(["--config".into(), path.into()]), []).expect_err("refused").to_string();
    let missing = dir.path().join("missing.toml");
    let message = format!("cannot read the configuration file {}: ", missing.display());
    assert!(errors(&missing).starts_with(&message), "{}", errors(&missing));
    assert!(errors(dir.path()).starts_with("cannot read the configuration file "), "{}", errors(dir.path()));

    let binary = dir.path().join("panelboard.toml");
    fs::write(&binary, b"store = '\xff'").unwrap();
    assert!(errors(&binary).ends_with(": it is not UTF-8 from byte 9 on"), "{}", errors(&binary));
    fs::write(&binary, "#".repeat(1_048_577)).unwrap();
    assert!(errors(&binary).ends_with(": it is larger than 1048576 bytes"), "{}", errors(&binary));
}

#[test]
fn two_listeners_on_one_address_are_refused_unless_the_port_is_chosen_for_them() {
    let same = Given { args: &["--http-addr", "127.0.0.1:50051"], ..Given::default() };
    let message = "grpc-addr (default) and http-addr (flag --http-addr) are both 127.0.0.1:50051: give them different ports";
    assert_eq!(same.errors(), [message]);
    let free =
        Given { args: &["--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0"], ..Given::default() };
    assert!(free.load().is_ok());
}

#[test]
fn what_kubernetes_adds_changes_nothing_and_slips_are_warned_about() {
    let given = Given {
        env: &[
            ("PANELBOARD_PORT", "tcp://10.0.0.1:50051"),
            ("PANELBOARD_PORT_50051_TCP_ADDR", "10.0.0.1"),
            ("PANELBOARD_SERVICE_HOST", "10.0.0.1"),
            ("PANELBOARD_SERVICE_PORT_GRPC", "50051"),
            ("PANELBOARD_STOER", "memory"),
            ("HOME", "/"),
        ],
        ..Given::default()
    };
    let loaded = given.load().unwrap();
    assert_eq!(loaded.config, Config::default());
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let warning = "the environment variable PANELBOARD_STOER is not a setting and is ignored: did you mean PANELBOARD_STORE?";
    assert_eq!(warnings, [warning]);
}

#[cfg(unix)]
#[test]
fn paths_need_not_be_text_and_everything_else_must() {
    use std::os::unix::ffi::OsStringExt;

    let odd = OsString::from_vec(b"/data/\xff".to_vec());
    let env = |name: &str| [(OsString::from(name), odd.clone())];
    assert_eq!(
        load(&serve([]), env("PANELBOARD_DATA_DIR")).unwrap().config.data_dir,
        PathBuf::from(odd.clone())
    );
    let refused = load(&serve([]), env("PANELBOARD_STORE")).expect_err("not text").to_string();
    assert_eq!(refused, "environment PANELBOARD_STORE: store cannot be \"/data/\\xFF\": it is not UTF-8");
    assert_eq!(load(&serve([]), [(odd.clone(), odd.clone())]).unwrap().warnings, []);
}

#[test]
fn serve_is_what_happens_without_a_subcommand() {
    let flags = |args: &[&str]| serve(args.iter().map(OsString::from));
    assert_eq!(flags(&[]), ServeFlags::default());
    assert_eq!(flags(&["serve"]), ServeFlags::default());
    assert_eq!(flags(&["--store", "memory"]), flags(&["serve", "--store", "memory"]));
    assert_eq!(
        flags(&["--store=memory", "serve", "--print-config"]),
        flags(&["--print-config", "--store", "memory"])
    );
    // The one nearer to the end counts.
    assert_eq!(flags(&["--store", "embedded", "serve", "--store", "memory"]), flags(&["--store", "memory"]));
}

#[test]
fn check_takes_a_path_and_nothing_else() {
    let parse = |args: &[&str]| Command::parse(["panelboard"].iter().chain(args));
    assert_eq!(parse(&["check", "policies.yaml"]).unwrap(), Command::Check { path: "policies.yaml".into() });
    for args in [
        &["check"][..],
        &["check", "a", "b"],
        &["--store", "memory", "check", "a"],
        &["check", "a", "--store", "memory"],
    ] {
        let err = parse(args).expect_err("refused");
        assert_eq!(err.exit_code(), 2, "{args:?}: {err}");
    }
}

#[test]
fn the_help_tells_every_flag_with_its_variable_and_default() {
    let help = Command::parse(["panelboard", "--help"]).expect_err("it is printed");
    assert_eq!(help.exit_code(), 0);
    let help: String = help.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let printed = Given::default().load().unwrap().print();
    for line in printed.lines().take_while(|line| !line.is_empty()) {
        let Some((name, rest)) = line.split_once(" = ") else { continue };
        let default = rest.trim_end_matches(" # default").trim_matches('"');
        let variable = format!("PANELBOARD_{}", name.replace('-', "_").to_uppercase());
        assert!(help.contains(&format!("--{name} <")), "{name}: {help}");
        assert!(help.contains(&format!("[env: {variable}] [default: {default}]")), "{name}: {help}");
    }
    for word in [
        "--policies <FILE|DIR>",
        "[env: PANELBOARD_POLICIES]",
        "[env: PANELBOARD_CONFIG]",
        "--print-config",
        "check",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn the_version_is_the_crates() {
    let version = Command::parse(["panelboard", "--version"]).expect_err("it is printed");
    assert_eq!(version.exit_code(), 0);
    assert_eq!(version.to_string(), format!("panelboard {}\n", env!("CARGO_PKG_VERSION")));
}
