//! New credentials on a live connection: what is known of one `AUTH` from the wish to its answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pilotlight_resp::Value;
use tokio::time::Sleep;

use crate::credentials::Credentials;
use crate::error::{ErrorKind, ServerError};
use crate::net::stream::InlineWriter;
use crate::out::Out;
use crate::proto::handshake::encode_auth;

/// A server that does not answer `AUTH` for so long will not.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Renewal {
    credentials: Credentials,
    /// Kept from the callers until the answer is there.
    inline: Option<InlineWriter>,
    has_begun: bool,
    /// Since it was sent.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl Renewal {
    pub(super) fn new(credentials: Credentials, inline: Option<InlineWriter>) -> Self {
        Self { credentials, inline, has_begun: false, overdue: None }
    }

    /// True the first time.
    pub(super) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    /// Appends `AUTH` to an empty wave, once.
    pub(super) fn send(&mut self, wave: &mut Out) {
        if self.overdue.is_none() {
            encode_auth(wave.page(), &self.credentials);
            self.overdue = Some(Box::pin(tokio::time::sleep(PATIENCE)));
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.overdue.is_some()
    }

    /// Fails when the answer is overdue.
    pub(super) fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Result<(), ErrorKind> {
        match self.overdue.as_mut().map(|overdue| overdue.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Err(ErrorKind::Connection("the server does not answer AUTH".into())),
            _ => Ok(()),
        }
    }

    /// What the server says. A connection whose new credentials are refused is given up: its old ones are about to end.
    pub(super) fn finish(self, reply: &Value) -> Result<(Credentials, Option<InlineWriter>), ErrorKind> {
        match reply {
            Value::Simple(_) => Ok((self.credentials, self.inline)),
            Value::Error(text) => {
                let code = ServerError::parse(text);
                Err(ErrorKind::Connection(format!("the new credentials were refused: {}", code.code()).into()))
            }
            _ => Err(ErrorKind::Protocol("the reply to AUTH is no status".into())),
        }
    }
}
