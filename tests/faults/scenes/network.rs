//! The server is there and does not answer, and nothing says so: no FIN, no RST.

use std::{
    net::Ipv4Addr,
    process::{Command, Stdio},
};

use crate::{
    application::Application,
    matrix::Row,
    panel::Site,
    scene::{POLICIES, World, client},
    trial::{self, Expected},
};

/// SIGSTOP: its kernel still acknowledges what is sent, and accepts connections.
pub(crate) async fn frozen() -> Row {
    let mut world = World::start().await;
    let stop = async |world: &mut World| world.panel().signal("STOP").await;
    let go_on = async |world: &mut World| world.panel().signal("CONT").await;
    trial::run(&mut world, Expected::MUTE, stop, go_on).await
}

const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// Nobody has this hardware address, so that frames to it are lost without a word to anybody.
const NOBODY: &str = "02:00:00:00:00:99";

/// The network swallows packets, in both directions. This process is in a network namespace of its own.
pub(crate) async fn black_holed() -> Row {
    let site = Site::at(THERE, vec!["unshare", "--net"], POLICIES);
    let panel = site.start().await;
    let there = panel.pid().to_string();
    ip(None, &["link", "set", "dev", "lo", "up"]);
    ip(None, &["link", "add", "dev", "here0", "type", "veth", "peer", "name", "there0", "netns", &there]);
    for (namespace, device, address) in [(None, "here0", HERE), (Some(&*there), "there0", THERE)] {
        ip(namespace, &["address", "add", &format!("{address}/30"), "dev", device]);
        ip(namespace, &["link", "set", "dev", device, "up"]);
    }
    let client = client(site.url()).build().expect("a client");
    let application = Application::start(&client);
    let mut world = World::with(site, panel, None, client, application).await;
    let directions = [(None, "here0", THERE), (Some(there), "there0", HERE)];
    let swallow = async |_: &mut World| {
        for (namespace, device, to) in &directions {
            let to = to.to_string();
            let rule = ["neigh", "replace", &to, "lladdr", NOBODY, "dev", device, "nud", "permanent"];
            ip(namespace.as_deref(), &rule);
        }
    };
    let let_through = async |_: &mut World| {
        for (namespace, device, to) in &directions {
            ip(namespace.as_deref(), &["neigh", "del", &to.to_string(), "dev", device]);
        }
    };
    trial::run(&mut world, Expected::MUTE, swallow, let_through).await
}

/// Runs `ip`, in the network namespace of that process or in this one.
fn ip(namespace: Option<&str>, arguments: &[&str]) {
    let mut command = match namespace {
        None => Command::new("ip"),
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["--net", "--target", pid, "ip"]);
            command
        }
    };
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("ip and nsenter");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
