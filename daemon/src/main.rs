//! `ostard`: follows label and conditional shift of a deployed classifier, without labels.

#[cfg_attr(not(test), expect(dead_code, reason = "wired by the pipeline"))]
mod control;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the pipeline"))]
mod current;
mod grpc;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the pipeline"))]
mod health;
mod http;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the pipeline"))]
mod metrics;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the pipeline"))]
mod serving;
mod status;

/// Services of `daemon/proto`.
#[expect(unreachable_pub, reason = "generated")]
mod proto {
    tonic::include_proto!("ostar.v1");
}

fn main() {}
