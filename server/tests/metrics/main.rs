//! `/metrics` as a scraper meets it: a real server, driven over gRPC, scraped over HTTP.

mod breaker;
mod docs;
mod page;
mod server;
mod world;

use page::Page;
use world::World;
