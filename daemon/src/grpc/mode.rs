//! The mode of a request.

use tonic::Status;

use crate::{current::ServingMode, proto::Mode};

/// `None` for MODE_UNSPECIFIED.
pub(super) fn read_mode(number: i32) -> Result<Option<ServingMode>, Status> {
    let mode = Mode::try_from(number).map_err(|_| {
        Status::invalid_argument(format!("mode: {number} is unknown, expected 0 to 5"))
    })?;
    Ok(mode.serving())
}
