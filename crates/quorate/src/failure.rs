//! What went wrong, as one line for a person, with what to do about it.

use std::fmt::Display;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }
}

/// Says what was being done when an error came.
pub(crate) trait Context<T> {
    fn context(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

/// Errors that already are such a line.
macro_rules! told_as_they_are {
    ($($type:ty),*) => {$(
        impl From<$type> for Failure {
            fn from(error: $type) -> Failure {
                Failure(error.to_string())
            }
        }
    )*};
}

told_as_they_are!(
    quorate_server::config::ConfigError,
    quorate_server::directory::DirectoryError,
    quorate_server::ServerError
);
