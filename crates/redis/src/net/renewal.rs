//! New credentials for connections that are no lane's: what changed since they were made, and what the server says to
//! `AUTH`.

use pilotlight_resp::Value;
use tokio::sync::watch;

use crate::config::Credentials;
use crate::error::{ErrorKind, ServerError};

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

/// What the server says to `AUTH`. A connection whose new credentials are refused is given up: its old ones are about
/// to end.
pub(crate) fn check_answer(reply: &Value) -> Result<(), ErrorKind> {
    match reply {
        Value::Simple(_) => Ok(()),
        // The text is not repeated: some servers put arguments into it.
        Value::Error(text) => {
            let code = ServerError::parse(text);
            Err(ErrorKind::Connection(format!("the new credentials were refused: {}", code.code()).into()))
        }
        _ => Err(ErrorKind::Protocol("the reply to AUTH is no status".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
