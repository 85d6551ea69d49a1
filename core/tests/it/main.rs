//! The rules through their public doors.

mod cost;
mod guard;
mod half_open;
mod invariants;
mod model;
mod regressions;
mod table;
mod theorem;
#[allow(dead_code, reason = "each module uses its part of it")]
mod world;
