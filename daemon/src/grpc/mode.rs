//! Conversion between the modes of `ostar.v1` and of the daemon.

use tonic::Status;

use crate::{current::ServingMode, proto::Mode};

impl From<ServingMode> for Mode {
    fn from(mode: ServingMode) -> Self {
        match mode {
            ServingMode::Frozen => Self::Frozen,
            ServingMode::Prior => Self::Prior,
            ServingMode::Adapted => Self::Adapted,
            ServingMode::Shadow => Self::Shadow,
        }
    }
}

/// `None` for MODE_UNSPECIFIED.
pub(super) fn read_mode(number: i32) -> Result<Option<ServingMode>, Status> {
    let unknown =
        |_| Status::invalid_argument(format!("mode: {number} is unknown, expected 0 to 4"));
    Ok(match Mode::try_from(number).map_err(unknown)? {
        Mode::Unspecified => None,
        Mode::Frozen => Some(ServingMode::Frozen),
        Mode::Prior => Some(ServingMode::Prior),
        Mode::Adapted => Some(ServingMode::Adapted),
        Mode::Shadow => Some(ServingMode::Shadow),
    })
}
