//! New credentials on live connections: what has changed since they were made, and one `AUTH` after the other.

use std::time::{Duration, Instant};

use pilotlight_resp::Value;
use tokio::sync::watch;

use crate::credentials::Credentials;
use crate::error::{ErrorKind, ServerError};
use crate::proto::handshake::encode_auth;

/// The credentials' changes from the moment at which a connection began to be made.
#[derive(Debug)]
pub(crate) struct Changes(Option<watch::Receiver<Option<Credentials>>>);

impl Changes {
    /// From now on. To be made before the connection is, so that none is missed.
    pub(crate) fn new(changes: Option<watch::Receiver<Option<Credentials>>>) -> Self {
        Self(changes.map(|mut changes| {
            changes.mark_unchanged();
            changes
        }))
    }

    /// The newest credentials, once, if they are others than `known`.
    pub(crate) fn take(&mut self, known: Option<&Credentials>) -> Option<Credentials> {
        let changes = self.0.as_mut()?;
        if !changes.has_changed().unwrap_or(false) {
            return None;
        }
        let newest = changes.borrow_and_update().clone();
        newest.filter(|newest| Some(newest) != known)
    }

    /// Waits for a change that was not taken.
    ///
    /// # Cancel safety
    /// Nothing is lost: the change is still there to be taken.
    pub(crate) async fn changed(&self) {
        // A clone, as waiting marks the change as seen. Without a provider, or when it has gone, there are no more.
        if let Some(mut changes) = self.0.clone()
            && changes.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// A server that does not answer `AUTH` for so long will not.
const PATIENCE: Duration = Duration::from_secs(5);

/// New credentials on a live connection: one `AUTH` from the wish to its answer.
///
/// Invariant: it is sent when nothing is awaited, and nothing is sent behind it before its answer (redis/redis#15640).
#[derive(Debug, Default)]
pub(crate) enum Renewal {
    #[default]
    None,
    /// It is to be sent, alone.
    Wanted(Credentials),
    /// Its answer has to come by then.
    Sent(Credentials, Instant),
}

impl Renewal {
    /// Whether anything else has to wait.
    #[inline]
    pub(crate) fn holds_up(&self) -> bool {
        !matches!(self, Self::None)
    }

    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self, Self::Sent(..))
    }

    /// Appends `AUTH`, if it is wanted.
    pub(crate) fn send(&mut self, out: &mut Vec<u8>, now: Instant) {
        if let Self::Wanted(credentials) = self {
            encode_auth(out, credentials);
            *self = Self::Sent(credentials.clone(), now + PATIENCE);
        }
    }

    /// When its answer has to be there, if it is sent.
    ///
    /// # Errors
    /// It is overdue.
    pub(crate) fn until(&self, now: Instant) -> Result<Option<Instant>, ErrorKind> {
        match self {
            Self::Sent(_, until) if *until <= now => {
                Err(ErrorKind::Connection("the server does not answer AUTH".into()))
            }
            Self::Sent(_, until) => Ok(Some(*until)),
            Self::None | Self::Wanted(_) => Ok(None),
        }
    }

    /// What the server says: who it takes the client for now. A connection whose new credentials are refused is given
    /// up: its old ones are about to end.
    pub(crate) fn answered(&mut self, reply: &Value) -> Result<Option<Credentials>, ErrorKind> {
        match (std::mem::take(self), reply) {
            (Self::Sent(credentials, _), Value::Simple(_)) => Ok(Some(credentials)),
            // The text is not repeated: some servers put arguments into it.
            (_, Value::Error(text)) => {
                let code = ServerError::parse(text);
                Err(ErrorKind::Connection(format!("the new credentials were refused: {}", code.code()).into()))
            }
            _ => Err(ErrorKind::Protocol("the reply to AUTH is no status".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_answered_or_overdue() {
        let (now, new) = (Instant::now(), Credentials::password("new"));
        let sent = || {
            let (mut renewal, mut out) = (Renewal::Wanted(new.clone()), Vec::new());
            assert!(renewal.holds_up() && !renewal.is_sent());
            renewal.send(&mut out, now);
            renewal.send(&mut out, now);
            assert_eq!(out, b"*2\r\n$4\r\nAUTH\r\n$3\r\nnew\r\n", "once");
            renewal
        };
        assert_eq!(sent().until(now).unwrap(), Some(now + PATIENCE));
        assert!(matches!(sent().until(now + PATIENCE), Err(ErrorKind::Connection(_))));
        let mut renewal = sent();
        assert_eq!(renewal.answered(&Value::Simple("OK".into())).unwrap(), Some(new.clone()));
        assert!(!renewal.holds_up() && renewal.until(now + PATIENCE).is_ok());
        assert!(matches!(sent().answered(&Value::Error("WRONGPASS secret".into())), Err(ErrorKind::Connection(_))));
        assert!(matches!(sent().answered(&Value::Null), Err(ErrorKind::Protocol(_))));
    }

    #[tokio::test]
    async fn a_change_is_taken_once_and_only_if_it_is_one() {
        let (old, new) = (Credentials::password("old"), Credentials::password("new"));
        let sender = watch::Sender::new(Some(old.clone()));
        let mut changes = Changes::new(Some(sender.subscribe()));
        assert_eq!(changes.take(None), None, "what was known before is not new");
        sender.send_replace(Some(old.clone()));
        changes.changed().await;
        assert_eq!(changes.take(Some(&old)), None, "the same again");
        sender.send_replace(Some(new.clone()));
        changes.changed().await;
        assert_eq!(changes.take(Some(&old)), Some(new));
        assert_eq!(changes.take(Some(&old)), None, "taken");
        drop(sender);
        assert_eq!(changes.take(Some(&old)), None);
        assert_eq!(Changes::new(None).take(None), None);
    }
}
