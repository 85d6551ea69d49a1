//! The Panelboard server: everything behind the binary `panelboard`, as a library so that tests can start one.

mod duration;
pub mod limits;
mod nearest;
pub mod store;
