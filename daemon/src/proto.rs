//! Services of `daemon/proto`. Public for the end-to-end tests, which are clients of them.

#![expect(missing_docs, reason = "generated")]

use serde::Serializer;
use tonic::Status;

use crate::current::ServingMode;

tonic::include_proto!("ostar.v1");

/// The mode of a state's JSON, as flags and configuration call it.
fn mode_by_name<S: Serializer>(mode: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(Mode::try_from(*mode).unwrap_or_default().name())
}

impl From<ServingMode> for Mode {
    fn from(mode: ServingMode) -> Self {
        match mode {
            ServingMode::Frozen => Self::Frozen,
            ServingMode::Prior => Self::Prior,
            ServingMode::Adapted => Self::Adapted,
            ServingMode::Shadow => Self::Shadow,
            ServingMode::Auto => Self::Auto,
        }
    }
}

impl Mode {
    /// As flags and configuration call it.
    pub(crate) fn name(self) -> &'static str {
        self.serving().map_or("unspecified", ServingMode::name)
    }

    /// `None` if it is not specified: the daemon's own mode then holds.
    pub(crate) fn serving(self) -> Option<ServingMode> {
        let mut modes = ServingMode::NAMED.into_iter().map(|(_, mode)| mode);
        modes.find(|mode| Self::from(*mode) == self)
    }

    /// The mode of a request; `None` if it is not specified.
    pub(crate) fn of_request(number: i32) -> Result<Option<ServingMode>, Status> {
        let mode = Self::try_from(number).map_err(|_| {
            Status::invalid_argument(format!("mode: {number} is unknown, expected 0 to 5"))
        })?;
        Ok(mode.serving())
    }
}
