//! The Panelboard server: everything behind the binary `panelboard`, as a library so that tests can start one.

pub mod config;
mod duration;
pub mod limits;
pub mod logging;
mod nearest;
pub mod store;
