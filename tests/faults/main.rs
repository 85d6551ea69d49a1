//! Never in the way: each fault that a control plane and its network can have, made on purpose, against the real server
//! as a process and the real client over real sockets, and what the client's application sees of it.
//!
//! A target without libtest, because it prints a table of what it measured: `tests/run faults`, or
//! `cargo test --test faults -- --matrix [FAULT...]`. Without `--matrix` it does nothing, so that `cargo test` of the
//! whole workspace does not wait for what takes most of a minute.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod application;
mod eventually;
mod gate;
mod matrix;
mod panel;
mod place;
mod relay;
mod scene;
mod scenes;
mod trial;

use std::{env, process::ExitCode};

use matrix::{Outcome, Row};
use scenes::{ALL, Scene};

/// Runs all scenes, or the named ones, and prints the table.
const MATRIX: &str = "--matrix";
/// Runs one scene in this process, which was put into a place of its own for it, and prints its row for the one that
/// did that.
const HERE: &str = "--here";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [MATRIX, ref names @ ..] => matrix(names),
        [HERE, name] => here(name),
        _ => {
            println!("faults take most of a minute: tests/run faults, or this with {MATRIX} [FAULT...]");
            ExitCode::SUCCESS
        }
    }
}

fn matrix(names: &[&str]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| scenes::find(name).is_none()) {
        let known = ALL.iter().map(|scene| format!("  {}\n", scene.name)).collect::<String>();
        eprintln!("there is no fault {unknown:?}; there are:\n{known}");
        return ExitCode::from(2);
    }
    panel::binary();
    eventually::keep_time();
    let is_wanted = |scene: &&Scene| names.is_empty() || names.contains(&scene.name);
    // What keeps the machine busy goes before, so that it is not what the others' times are of.
    let (busy, waiting): (Vec<_>, Vec<_>) = ALL.iter().filter(is_wanted).partition(|scene| scene.is_busy());
    let outcomes: Vec<_> = [busy, waiting].iter().flat_map(|scenes| at_once(scenes)).collect();
    matrix::print(&outcomes);
    if outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_))) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Plays scenes, all at once, each with a server of its own: they wait for seconds, and compute hardly anything.
fn at_once(scenes: &[&'static Scene]) -> Vec<(&'static str, Outcome)> {
    let play = |scene: &&'static Scene| {
        let (scene, thread) = (*scene, std::thread::Builder::new().name(scene.name.into()));
        (scene.name, thread.spawn(|| place::run(scene)).expect("a thread"))
    };
    let running: Vec<_> = scenes.iter().map(play).collect();
    let end = |(name, thread): (_, std::thread::JoinHandle<Outcome>)| {
        (name, thread.join().unwrap_or_else(|panic| Outcome::Failed(said(&*panic))))
    };
    running.into_iter().map(end).collect()
}

fn here(name: &str) -> ExitCode {
    let Some(scene) = scenes::find(name) else { return ExitCode::from(2) };
    eventually::keep_time();
    println!("{}", run(scene).to_json());
    ExitCode::SUCCESS
}

/// Plays a scene in this process, on a runtime of its own.
fn run(scene: &Scene) -> Row {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let play = async { tokio::time::timeout(scenes::BOUND, (scene.play)()).await };
    match runtime.block_on(play) {
        Ok(row) => row,
        Err(_) => panic!("not over within {:?}", scenes::BOUND),
    }
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".into())
}
