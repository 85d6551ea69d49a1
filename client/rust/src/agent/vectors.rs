//! Runs the scripts of `tests/vectors/client/*.json`, and of every `*.json` in the directory that
//! `PANELBOARD_CLIENT_VECTORS` names. They go through the streams' reader, the conversions and the cells as real
//! messages do; the script's time takes the place of clock, thread and socket.

mod expect;
mod message;
mod rules;
mod script;
mod world;

use std::{
    collections::BTreeSet,
    env, fs,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use panelboard_core::Timestamp;
use script::{File, Script, Step};
use world::World;

/// Each script is run with so many seeds: whatever is drawn must lie within what it says.
const SEEDS: u64 = 16;

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/client")
}

#[test]
fn every_script_comes_out_as_it_says() {
    let mut outcome = Outcome::default();
    outcome.run_all(&own());
    if let Some(dir) = env::var_os("PANELBOARD_CLIENT_VECTORS") {
        outcome.run_all(Path::new(&dir));
    }
    // Not by println, which libtest swallows.
    let said = format!("ran {} client scripts, {} failed\n", outcome.ran, outcome.failed.len());
    drop(std::io::stdout().write_all(said.as_bytes()));
    assert!(outcome.failed.is_empty(), "\n{}", outcome.failed.join("\n"));
    assert!(outcome.ran > 0, "there are no scripts in {}", own().display());
}

#[test]
fn each_rule_names_its_scripts_and_each_script_its_rules() {
    let mut outcome = Outcome::default();
    outcome.run_all(&own());
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/client-protocol.md");
    let text = fs::read_to_string(text).unwrap();
    let wrong = rules::disagreements(&text, &outcome.rules);
    assert!(wrong.is_empty(), "docs/client-protocol.md and the scripts disagree:\n{}", wrong.join("\n"));
}

#[derive(Default)]
struct Outcome {
    ran: usize,
    failed: Vec<String>,
    /// Which script is of which rule.
    rules: BTreeSet<(String, String)>,
    ids: BTreeSet<String>,
}

impl Outcome {
    fn run_all(&mut self, dir: &Path) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => return self.failed.push(format!("{}: {error}", dir.display())),
        };
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        if paths.is_empty() {
            self.failed.push(format!("{}: no *.json is there", dir.display()));
        }
        for path in paths {
            if let Err(error) = self.run_file(&path) {
                self.failed.push(format!("{}: {error}", path.display()));
            }
        }
    }

    fn run_file(&mut self, path: &Path) -> Result<(), String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: File = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if file.schema != 1 {
            return Err(format!("schema {} is not known: only 1 is", file.schema));
        }
        if file.scripts.is_empty() {
            return Err("it has no scripts".into());
        }
        for (n, value) in file.scripts.into_iter().enumerate() {
            let id = value.get("id").and_then(|id| id.as_str()).map_or(format!("number {n}"), String::from);
            self.ran += 1;
            let script = serde_json::from_value::<Script>(value).map_err(|error| error.to_string());
            if let Err(error) = script.and_then(|script| self.run_script(&script)) {
                self.failed.push(format!("{}: script {id}: {error}", path.display()));
            }
        }
        Ok(())
    }

    fn run_script(&mut self, script: &Script) -> Result<(), String> {
        if !self.ids.insert(script.id.clone()) {
            return Err("another script has the same id".into());
        }
        if script.rules.is_empty() {
            return Err("it names no rule of docs/client-protocol.md".into());
        }
        self.rules.extend(script.rules.iter().map(|rule| (rule.clone(), script.id.clone())));
        for seed in 0..SEEDS {
            run(script, seed).map_err(|error| format!("{error} (seed {seed})"))?;
        }
        Ok(())
    }
}

fn run(script: &Script, seed: u64) -> Result<(), String> {
    let mut world = World::new(script, seed)?;
    if script.steps.is_empty() {
        return Err("it has no steps".into());
    }
    for (index, value) in script.steps.iter().enumerate() {
        let named = |error: String| format!("step {index} {value}: {error}");
        let step: Step = serde_json::from_value(value.clone()).map_err(|error| named(error.to_string()))?;
        let op = step.op().map_err(named)?;
        // A panic of the client is a finding like any other, and names its step.
        let done = catch_unwind(AssertUnwindSafe(|| {
            world.advance(Timestamp::from_millis(step.at_ms))?;
            world.apply(&step, &op)
        }));
        let done = done
            .map_err(|panic| named(format!("panicked: {}", text(&*panic))))
            .and_then(|d| d.map_err(named))?;
        let breaker = world.shown(&step).map_err(named)?;
        let wrong = expect::mismatches(&step.expect, &done, &breaker);
        if !wrong.is_empty() {
            return Err(named(wrong.join("; ")));
        }
    }
    Ok(())
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("")
}
