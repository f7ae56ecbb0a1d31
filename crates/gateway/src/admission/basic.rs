//! Basic authentication (RFC 7617): users and their passwords from a file that is followed when it changes.
//!
//! Hashes of passwords are slow on purpose. So they are verified on threads of their own, few at a time
//! ([`MAX_CHECKS`]); a request that would wait behind too many is answered with 503. A password that was right is
//! remembered for a while by a keyed hash of it, and only such: no guess takes the place of another.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::GeneralPurposeConfig;

use super::htpasswd::{BadLine, Hashed, Known, MAX_FILE_BYTES, MAX_NAME_BYTES, Users};
use super::remembered::Remembered;
use super::verifier::Verifier;
use crate::file_state::FileState;
use crate::timing::Moment;

/// Passwords that are verified at a time, by all workers of a gateway.
pub(crate) const MAX_CHECKS: usize = 2;
/// Requests whose password is verified or waits for that; the gateway answers further ones with 503.
const MAX_WAITING: usize = 64;
/// How long a password that was right is taken for right without being verified.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How often it is looked at whether the file has changed.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

static VERIFIER: Verifier = Verifier::new(MAX_CHECKS, MAX_WAITING);

/// Users of a route, from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicSpec {
    /// `name:hash` on each line.
    pub file: PathBuf,
    /// What a browser shows when it asks for the password.
    pub realm: String,
}

impl BasicSpec {
    /// `realm` by default.
    pub const REALM: &str = "restricted";
    /// Most bytes of `realm`.
    pub const MAX_REALM_BYTES: usize = 128;
}

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is too large.
    #[error("it has more than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// One of its lines is wrong.
    #[error(transparent)]
    Line(#[from] BadLine),
}

/// What is said of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    /// Too many others are being verified.
    TooMany,
}

/// The users of a route.
pub(crate) struct Basic {
    file: PathBuf,
    users: ArcSwap<Read>,
    looked_ns: AtomicU64,
    /// Users with their passwords and the hashes that they were verified with: another hash in the file is another
    /// proof.
    remembered: Remembered<()>,
}

/// What was read of the file, and how it can be told from another state of it.
#[derive(Default)]
struct Read {
    users: Users,
    state: Option<FileState>,
}

/// Name and password, as a client says them.
pub(crate) struct Credentials {
    text: Vec<u8>,
    colon: usize,
}

impl Credentials {
    /// From the value of `Authorization`; `None` if it is nothing of the kind (RFC 7617 §2).
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let text = LENIENT.decode(rest.trim_ascii()).ok()?;
        let colon = text.iter().position(|byte| *byte == b':')?;
        let is_fine = colon <= MAX_NAME_BYTES && text.len() - colon <= MAX_NAME_BYTES + 1;
        let has_controls = text.iter().any(u8::is_ascii_control);
        (is_fine && !has_controls).then_some(Self { text, colon })
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.text[..self.colon]
    }

    fn password(&self) -> &[u8] {
        &self.text[self.colon + 1..]
    }

    /// What a verdict on them hangs on.
    fn parts<'a>(&'a self, hashed: &'a Hashed) -> [&'a [u8]; 3] {
        [self.name(), self.password(), hashed.id()]
    }
}

/// With or without padding, as clients send it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

impl Basic {
    /// Reads the file. One that cannot be read lets in nobody until it can.
    pub(crate) fn new(spec: &BasicSpec) -> Self {
        let read = match read(&spec.file) {
            Ok(read) => read,
            Err(e) => {
                tracing::error!("{}: nobody is let in by it: {e}", spec.file.display());
                Read::default()
            }
        };
        Self {
            file: spec.file.clone(),
            users: ArcSwap::from_pointee(read),
            looked_ns: AtomicU64::new(Moment::now().as_ns()),
            remembered: Remembered::new(),
        }
    }

    /// What is known of them without verifying anything; `None`: it has to be verified.
    pub(crate) fn at_once(&self, credentials: &Credentials, now: Moment) -> Option<Verdict> {
        self.follow(now);
        let read = self.users.load();
        let Some((hashed, Known::Yes)) = read.users.find(credentials.name()) else { return None };
        let proof = self.remembered.proof(credentials.parts(hashed))?;
        self.remembered.find(&proof, now).map(|()| Verdict::Right)
    }

    /// Verifies them, off the worker.
    ///
    /// # Cancel safety
    /// Dropping it leaves a verification that has begun to its end.
    pub(crate) async fn verify(self: Arc<Self>, credentials: Credentials) -> Verdict {
        VERIFIER.run(move || self.check(&credentials)).await.unwrap_or(Verdict::TooMany)
    }

    fn check(&self, credentials: &Credentials) -> Verdict {
        let read = self.users.load_full();
        let Some((hashed, known)) = read.users.find(credentials.name()) else { return Verdict::Wrong };
        // An unknown user costs as much time as a known one.
        let is_right = hashed.verify(credentials.password()) && known == Known::Yes;
        if !is_right {
            return Verdict::Wrong;
        }
        if let Some(proof) = self.remembered.proof(credentials.parts(hashed)) {
            self.remembered.put(proof, (), REMEMBERED);
        }
        Verdict::Right
    }

    /// Reads the file again if it has changed. What cannot be read leaves everything as it was.
    fn follow(&self, now: Moment) {
        let looked = self.looked_ns.load(Ordering::Relaxed);
        let is_due = now.as_ns().saturating_sub(looked) >= LOOK_EVERY_NS;
        if !is_due
            || self.looked_ns.compare_exchange(looked, now.as_ns(), Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let file = self.file.display();
        match FileState::of(&self.file) {
            Ok(state) if self.users.load().state == Some(state) => {}
            Ok(_) => match read(&self.file) {
                Ok(read) => {
                    tracing::info!("{file} has changed: {} users", read.users.len());
                    self.users.store(Arc::new(read));
                }
                Err(e) => tracing::warn!("{file} has changed and cannot be used, so the users stay as they were: {e}"),
            },
            Err(e) => tracing::debug!("{file} cannot be looked at: {e}"),
        }
    }
}

fn read(file: &Path) -> Result<Read, UsersError> {
    let state = FileState::of(file)?;
    Ok(Read { users: Users::parse(&text(file)?)?, state: Some(state) })
}

fn text(file: &Path) -> Result<Vec<u8>, UsersError> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES { Err(UsersError::TooLarge) } else { Ok(text) }
}

/// Whether a file of users can be used; with how many there are.
///
/// # Errors
/// It cannot be read, or one of its lines is wrong.
pub fn check_users(file: &Path) -> Result<usize, UsersError> {
    Ok(read(file)?.users.len())
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[track_caller]
    fn check(value: &str, expected: Option<(&str, &str)>) {
        let read = Credentials::parse(value.as_bytes());
        let read = read.as_ref().map(|read| (read.name(), read.password()));
        assert_eq!(read, expected.map(|(name, password)| (name.as_bytes(), password.as_bytes())), "{value}");
    }

    #[test]
    fn what_a_client_says() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        check(&basic("ann:secret"), Some(("ann", "secret")));
        check(&basic("ann:a:b"), Some(("ann", "a:b")));
        check(&basic(":"), Some(("", "")));
        check(&basic("ä:ö"), Some(("ä", "ö")));
        check("bAsIc  YTpi", Some(("a", "b")));
        check("Basic YTpiYw", Some(("a", "bc")));
        for wrong in ["", "Basic", "Basic ", "Basic YQ==", "Basic *", "Bearer YTpi", "BasicYTpi"] {
            check(wrong, None);
        }
        check(&basic("ann:a\nb"), None);
        check(&basic(&format!("{}:x", "n".repeat(256))), None);
        check(&basic(&format!("n:{}", "x".repeat(256))), None);
    }
    proptest::proptest! {
        #[test]
        fn nothing_said_is_too_odd(value: Vec<u8>, text in "(Basic )?[A-Za-z0-9+/=]{0,40}") {
            let _ = (Credentials::parse(&value), Credentials::parse(text.as_bytes()));
        }
    }
}
