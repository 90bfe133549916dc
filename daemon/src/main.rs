//! `ostard`: follows label and conditional shift of a deployed classifier, without labels.

mod control;
mod current;
mod health;
mod status;

/// Services of `daemon/proto`.
mod proto {
    tonic::include_proto!("ostar.v1");
}

fn main() {}
