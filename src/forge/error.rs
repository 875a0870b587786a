//! Why a forge did not do what was asked.

/// Why a forge did not do what was asked. Never a reason to lose an apply's result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The token may not do this (401, 403).
    #[error("{what}: the token may not do this ({status}: {message}); `kl doctor` says what a token needs")]
    Denied {
        /// What was tried, as `write the comment on #7`.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The forge's message, shortened.
        message: String,
    },
    /// There is no such thing, or the token may not see it (404).
    #[error("{what}: not found; either it does not exist, or the token may not see it")]
    NotFound {
        /// What was tried.
        what: String,
    },
    /// The forge refused the content (400, 409, 422).
    #[error("{what}: refused ({status}: {message})")]
    Refused {
        /// What was tried.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The forge's message, shortened.
        message: String,
    },
    /// The forge cannot tell the whole of it. Whoever asked which files changed may take it that all of them did.
    #[error("{what}: {message}")]
    Incomplete {
        /// What was tried.
        what: String,
        /// What stands in the way.
        message: String,
    },
    /// The forge could not be reached, failed, or asked for patience for too long.
    #[error("{what}: {message}")]
    Unavailable {
        /// What was tried.
        what: String,
        /// What happened.
        message: String,
    },
    /// What kl was told about the forge cannot be used: an address, a token, a certificate.
    #[error("the forge cannot be used: {message}")]
    Unusable {
        /// What is wrong with which setting.
        message: String,
    },
}
