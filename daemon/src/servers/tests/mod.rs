//! Servers in the process, and clients that talk to them over the loopback.

mod connections;
mod heads;
mod http;
mod open_inference;
mod open_listeners;
mod overload;
mod predict;
mod security;
mod state;
mod tokens;
mod unreadable;
