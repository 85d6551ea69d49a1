//! The shape of the machine.

use std::{fs, process::Command, thread};

pub(crate) fn print() {
    let cores = thread::available_parallelism().map_or_else(|_| "?".into(), |n| n.to_string());
    println!("machine    {cores} cores, {}", cpu_model());
    println!("kernel     {}", first_line(fs::read_to_string("/proc/sys/kernel/osrelease").ok()));
    println!("compiler   {}", rustc());
}

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    model.and_then(|rest| rest.split_once(':')).map_or("an unknown processor", |(_, name)| name.trim()).into()
}

fn rustc() -> String {
    let said = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-V").output();
    first_line(said.ok().and_then(|output| String::from_utf8(output.stdout).ok()))
}

fn first_line(text: Option<String>) -> String {
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".into())
}
