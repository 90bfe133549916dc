//! Services of `daemon/proto`. Public for the end-to-end tests, which are clients of them.

#![expect(missing_docs, reason = "generated")]

use crate::current::ServingMode;

tonic::include_proto!("ostar.v1");

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
    /// `None` if it is not specified: the daemon's own mode then holds.
    pub(crate) fn serving(self) -> Option<ServingMode> {
        match self {
            Self::Unspecified => None,
            Self::Frozen => Some(ServingMode::Frozen),
            Self::Prior => Some(ServingMode::Prior),
            Self::Adapted => Some(ServingMode::Adapted),
            Self::Shadow => Some(ServingMode::Shadow),
            Self::Auto => Some(ServingMode::Auto),
        }
    }
}
