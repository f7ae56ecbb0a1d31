//! Why something failed: in words, and by the error behind it.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Why there is no connection: the text, and the [error behind it](Reason::cause), if it was one error.
///
/// ```no_run
/// use pilotlight_redis::{Client, Commands};
///
/// # async fn example(client: Client) {
/// if let Err(error) = client.get("name").await {
///     if let Some(reason) = error.reason() {
///         eprintln!("not answered, as {reason}");
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Reason {
    text: Arc<str>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl Reason {
    /// That an error happened.
    pub(crate) fn of(cause: impl Error + Send + Sync + 'static) -> Self {
        Self { text: cause.to_string().into(), cause: Some(Arc::new(cause)) }
    }

    /// The same cause in other words.
    pub(crate) fn told(&self, text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), cause: self.cause.clone() }
    }

    /// The error behind it: a [`ConnectError`](crate::ConnectError), most often.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }
}

/// The text.
impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

macro_rules! from_text {
    ($($text:ty),*) => {$(
        impl From<$text> for Reason {
            fn from(text: $text) -> Self {
                Self { text: text.into(), cause: None }
            }
        }
    )*};
}
from_text!(&str, String, Arc<str>);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// By their texts.
impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Reason {}
