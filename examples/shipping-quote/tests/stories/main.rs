//! Four stories over real sockets: a real provider, a real server, the real client. Only the waits of the breakers
//! are virtual: nobody sleeps through an open breaker.

mod flaky_supplier;
mod inventory;
mod programs;
mod shipment_booking;
mod shipping_quote;
mod stage;
