//! The server from outside: over real sockets, with the clients that the contract generates, and as a process of its
//! own where signals and disks matter.

mod support;

mod acquire;
mod concurrency;
mod drain;
mod errors;
mod guard;
mod http;
mod report;
mod restart;
mod store;
mod vectors;
mod watch;
