//! Who may see the dashboard: whoever opens a link that was printed for them, once.
//!
//! A session has two halves. One is a cookie that no script can read (`HttpOnly`), so a script that got into the page
//! could not carry it away. The other is kept by the page for its origin and sent in `Authorization`: cookies belong to
//! a host whatever the port, so a browser sends the first half to any other server on 127.0.0.1, among them services of
//! the very gateway, and pages of those could have the browser use it. Only both together are a session.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;

/// How long a link can be opened.
pub const LINK_TIME: Duration = Duration::from_secs(300);
/// Sessions at once; one more ends the oldest.
pub const MAX_SESSIONS: usize = 8;
/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// A random text that cannot be guessed: 64 hexadecimal digits.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is this text. The time that it takes tells nothing but the length.
    fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

/// Both halves.
#[derive(Clone)]
pub struct Session {
    /// What the cookie has.
    pub cookie: Secret,
    /// What the page keeps.
    pub token: Secret,
}

/// The link that can be opened, and the sessions that were.
#[derive(Default)]
pub struct Sessions {
    link: Option<(Secret, Instant)>,
    open: VecDeque<Session>,
}

impl Sessions {
    /// A link can be opened with this key; one that was offered before cannot any more.
    pub fn offer(&mut self, key: Secret, now: Instant) {
        self.link = Some((key, now));
    }

    /// Takes the key of the link for a session. Whether it was the right one; it is used up then.
    pub fn redeem(&mut self, key: &str, session: Session, now: Instant) -> bool {
        let is_right = self
            .link
            .as_ref()
            .is_some_and(|(offered, at)| offered.is(key) && now.saturating_duration_since(*at) < LINK_TIME);
        if is_right {
            self.link = None;
            if self.open.len() == MAX_SESSIONS {
                self.open.pop_front();
            }
            self.open.push_back(session);
        }
        is_right
    }

    /// Whether these are the halves of one session.
    #[must_use]
    pub fn is_open(&self, cookie: &str, token: &str) -> bool {
        self.open.iter().any(|session| session.cookie.is(cookie) & session.token.is(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    fn session(name: &str) -> Session {
        Session { cookie: secret(&format!("c{name}")), token: secret(&format!("t{name}")) }
    }

    #[test]
    fn a_link_is_opened_once_and_in_time() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        assert!(!sessions.redeem("", session("0"), now), "there is no link");
        sessions.offer(secret("a"), now);
        assert!(!sessions.redeem("b", session("1"), now));
        assert!(!sessions.redeem("a", session("1"), now + LINK_TIME), "it is too late");
        assert!(sessions.redeem("a", session("2"), now + LINK_TIME - Duration::from_nanos(1)));
        assert!(!sessions.redeem("a", session("3"), now), "it was opened");
        sessions.offer(secret("a"), now);
        sessions.offer(secret("b"), now);
        assert!(!sessions.redeem("a", session("4"), now), "there is another one");
        assert!(sessions.is_open("c2", "t2"));
        assert!(!sessions.is_open("c1", "t1"));
    }

    #[test]
    fn both_halves_are_of_one_session() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        for name in 0..=MAX_SESSIONS {
            sessions.offer(secret("a"), now);
            assert!(sessions.redeem("a", session(&name.to_string()), now));
        }
        assert!(!sessions.is_open("c0", "t0"), "the oldest has ended");
        assert!(sessions.is_open("c1", "t1") && sessions.is_open("c8", "t8"));
        assert!(!sessions.is_open("c1", "t2"));
        assert!(!sessions.is_open("c1", "") && !sessions.is_open("", "t1") && !sessions.is_open("", ""));
    }

    #[test]
    fn secrets_differ() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_eq!(one.as_str().len(), 2 * SECRET_BYTES);
        assert_ne!(one.as_str(), other.as_str());
    }
}
