//! A running `ostard`, a broker to run it against, and the promises that it keeps with any broker.

mod client;
pub mod daemon;
pub mod fitted;
pub mod gaussians;
mod mock;
mod place;
mod ports;
pub mod promises;
mod wait;

pub use client::Client;
pub use mock::Mock;
pub use place::Place;
pub use ports::free_port;
pub use wait::until;
