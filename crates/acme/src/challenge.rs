//! Answers to validations that are under way: HTTP-01 (RFC 8555 §8.3) and TLS-ALPN-01 (RFC 8737).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tokio::sync::{mpsc, oneshot};

use crate::certificate::Pair;
use crate::name::Name;

/// What the path of a validation begins with (RFC 8555 §8.3); the token is the rest.
pub const PATH: &str = "/.well-known/acme-challenge/";
/// Most validations at once.
const MAX_ANSWERS: usize = 1024;
/// Most bytes of a token: it has at least 128 bits in base64url, and real ones have 43 bytes.
const MAX_TOKEN: usize = 128;
/// Most questions to the shared storage at once, for tokens that another gateway may have been given.
const MAX_QUESTIONS: usize = 32;

/// The token of a validation: base64url, and so safe as part of a path or key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token(Box<str>);

impl Token {
    /// `None`: it is none.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_token = (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(is_base64url);
        is_token.then(|| Self(text.into()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The answers to validations by HTTP-01, which listeners give. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Answers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    own: Mutex<HashMap<Token, Arc<str>>>,
    /// Whether there is one, so that a listener looks without a lock.
    any: AtomicBool,
    /// After a look into the storage, where other gateways keep their tokens.
    others: Option<mpsc::Sender<Question>>,
}

/// Somebody wants the answer to a token that another gateway may have been given.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) token: Token,
    pub(crate) reply: oneshot::Sender<Option<Arc<str>>>,
}

/// An answer that is given until this is dropped.
#[derive(Debug)]
#[must_use = "when it is dropped, the token is answered no longer"]
pub(crate) struct Given {
    answers: Answers,
    token: Token,
}

/// What a listener knows about a token.
#[derive(Debug)]
pub enum Answer {
    /// This is its key authorization.
    Now(Arc<str>),
    /// Another gateway may have been given it: it is asked for.
    Later(oneshot::Receiver<Option<Arc<str>>>),
    /// No gateway has it.
    Unknown,
}

impl Answers {
    /// Without questions about tokens of other gateways.
    #[cfg(test)]
    fn new() -> Self {
        Self::with(None)
    }

    /// With questions about tokens of other gateways.
    pub(crate) fn shared() -> (Self, mpsc::Receiver<Question>) {
        let (others, questions) = mpsc::channel(MAX_QUESTIONS);
        (Self::with(Some(others)), questions)
    }

    fn with(others: Option<mpsc::Sender<Question>>) -> Self {
        Self(Arc::new(Shared { own: Mutex::default(), any: AtomicBool::new(false), others }))
    }

    /// The answer to a token, `rest` being what comes behind [`PATH`].
    #[must_use]
    pub fn find(&self, rest: &str) -> Answer {
        let Some(token) = Token::of(rest) else { return Answer::Unknown };
        if self.0.any.load(Ordering::Acquire)
            && let Some(answer) = self.own().get(&token)
        {
            return Answer::Now(Arc::clone(answer));
        }
        let Some(others) = &self.0.others else { return Answer::Unknown };
        let (reply, answer) = oneshot::channel();
        // Full: no authority asks for this many tokens.
        others.try_send(Question { token, reply }).map_or(Answer::Unknown, |()| Answer::Later(answer))
    }

    /// Gives an answer from now on. `None`: there are too many.
    pub(crate) fn give(&self, token: Token, answer: &str) -> Option<Given> {
        let mut own = self.own();
        if own.len() >= MAX_ANSWERS {
            return None;
        }
        own.insert(token.clone(), answer.into());
        self.0.any.store(true, Ordering::Release);
        drop(own);
        Some(Given { answers: self.clone(), token })
    }

    fn own(&self) -> std::sync::MutexGuard<'_, HashMap<Token, Arc<str>>> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let mut own = self.answers.own();
        own.remove(&self.token);
        self.answers.0.any.store(!own.is_empty(), Ordering::Release);
    }
}

/// The certificate by which TLS-ALPN-01 is answered (RFC 8737 §3): for this name alone, with the digest of the key
/// authorization in a critical extension.
pub(crate) fn tls_alpn(name: &Name, digest: &[u8]) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![name.as_str().to_owned()])?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let certificate = params.self_signed(&key)?;
    Ok(Pair { chain: certificate.pem(), key: key.serialize_pem(), issued_by: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answers: &Answers, rest: &str, expected: Option<&str>) {
        let found = match answers.find(rest) {
            Answer::Now(answer) => Some(answer.to_string()),
            Answer::Later(_) => panic!("nobody else is asked"),
            Answer::Unknown => None,
        };
        assert_eq!(found.as_deref(), expected, "{rest}");
    }

    #[test]
    fn an_answer_is_given_as_long_as_it_is_validated() {
        let answers = Answers::new();
        check(&answers, "abc", None);
        let given = answers.give(Token::of("abc").unwrap(), "abc.thumb").unwrap();
        let other = answers.give(Token::of("d_-1").unwrap(), "d.thumb").unwrap();
        check(&answers, "abc", Some("abc.thumb"));
        check(&answers, "ABC", None);
        drop(given);
        check(&answers, "abc", None);
        check(&answers, "d_-1", Some("d.thumb"));
        drop(other);
        check(&answers, "d_-1", None);
    }

    #[test]
    fn what_is_no_token() {
        for text in ["", "a/b", "../x", "a.b", "a b", "ä", "a%2e", &"a".repeat(129)] {
            assert_eq!(Token::of(text), None, "{text}");
        }
        assert!(Token::of(&"a".repeat(128)).is_some());
    }

    #[tokio::test]
    async fn others_are_asked_for_what_is_not_ours_and_only_so_often() {
        let (answers, mut questions) = Answers::shared();
        let Answer::Later(later) = answers.find("abc") else { panic!("it is asked for") };
        let question = questions.recv().await.unwrap();
        assert_eq!(question.token, Token::of("abc").unwrap());
        question.reply.send(Some("abc.thumb".into())).unwrap();
        assert_eq!(later.await.unwrap().as_deref(), Some("abc.thumb"));
        let asked = (0..MAX_QUESTIONS * 2).filter(|_| matches!(answers.find("abc"), Answer::Later(_))).count();
        assert_eq!(asked, MAX_QUESTIONS);
        assert!(matches!(answers.find("a/b"), Answer::Unknown));
    }

    #[test]
    fn the_certificate_of_a_validation_is_for_its_name_alone() {
        let name = Name::of_host("a.example.org", crate::name::Reach::Public).unwrap();
        let pair = tls_alpn(&name, &[7; 32]).unwrap();
        assert_eq!(pair.facts().unwrap().names, ["a.example.org"]);
        let der = pair.chain_der().unwrap();
        // RFC 8737 §6.1: id-pe-acmeIdentifier is 1.3.6.1.5.5.7.1.31, critical, an OCTET STRING in the value.
        let extension = [&[0x06, 8, 0x2b, 6, 1, 5, 5, 7, 1, 31, 1, 1, 0xff, 4, 34, 4, 32][..], &[7; 32]].concat();
        assert!(der[0].windows(extension.len()).any(|window| window == extension));
    }
}
