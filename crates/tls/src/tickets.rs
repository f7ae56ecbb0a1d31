//! Session tickets (RFC 5077, RFC 8446 §4.6.1): what a client brings back so that its next handshake needs no
//! signature. The session is in the ticket, encrypted with keys that all workers share and that a process can give to
//! its successor.
//!
//! ```text
//!   name of the key (16) │ nonce (12) │ the session, encrypted │ tag (16)
//! ```
//!
//! A key makes tickets for [`KEY_LIFETIME`] and takes them for [`TICKET_LIFETIME`] more; then it is forgotten, and what
//! was recorded of connections that were resumed by it stays secret.
//!
//! Invariant: a ticket is only taken in the context that it was made in: a client that was let in by one authority is
//! not let in by its ticket when there is another.
//!
//! Invariant: no ticket is taken when a certificate has ended that its client has shown, however often the session was
//! resumed. rustls does not look at those certificates again, and each resumed connection gets new tickets.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::server::ProducesTickets;

use crate::session_end::SessionEnd;

/// For so long a client may use a ticket.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// For so long a key makes tickets. With random nonces it may make 2³² (NIST SP 800-38D §8.3 has that bound for nonces
/// of 96 bits): 198,000 a second.
const KEY_LIFETIME: Duration = Duration::from_secs(6 * 3600);
/// Most keys: those of [`KEY_LIFETIME`] + [`TICKET_LIFETIME`], and one over.
const MAX_KEYS: usize = 5;
/// Longer ones are not looked at: a session has a few hundred bytes, with a client's certificates some thousand.
const MAX_TICKET_BYTES: usize = 32 * 1024;
const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
/// Of one exported key: its name, its secret, when it was made.
const RECORD_BYTES: usize = NAME_BYTES + SECRET_BYTES + 8;

/// The keys of a process, the youngest first.
#[derive(Debug)]
pub struct TicketKeys {
    keys: ArcSwap<Vec<Arc<Key>>>,
    /// Whoever makes the next key.
    rotation: Mutex<()>,
}

/// What was exported is something else, or of another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these are no keys of session tickets")]
pub struct BadTicketKeys;

struct Key {
    name: [u8; NAME_BYTES],
    secret: [u8; SECRET_BYTES],
    cipher: LessSafeKey,
    made: SystemTime,
}

impl TicketKeys {
    /// None yet: the first ticket makes the first.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { keys: ArcSwap::default(), rotation: Mutex::new(()) })
    }

    /// All keys, secrets included: for the successor of this process, and nobody else.
    #[must_use]
    pub fn export(&self) -> Vec<u8> {
        let keys = self.keys.load();
        let mut bytes = Vec::with_capacity(keys.len() * RECORD_BYTES);
        for key in keys.iter() {
            let made = key.made.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            bytes.extend_from_slice(&key.name);
            bytes.extend_from_slice(&key.secret);
            bytes.extend_from_slice(&made.to_be_bytes());
        }
        bytes
    }

    /// Takes what another process has exported; keys that are here already stay.
    ///
    /// # Errors
    /// It is something else. Nothing was taken.
    pub fn import(&self, bytes: &[u8]) -> Result<(), BadTicketKeys> {
        let records = bytes.chunks_exact(RECORD_BYTES);
        if !records.remainder().is_empty() || records.len() > MAX_KEYS {
            return Err(BadTicketKeys);
        }
        let mut taken = Vec::with_capacity(records.len());
        for record in records {
            let (name, rest) = record.split_first_chunk().ok_or(BadTicketKeys)?;
            let (secret, made) = rest.split_first_chunk().ok_or(BadTicketKeys)?;
            let made = made.try_into().map(u64::from_be_bytes).map_err(|_| BadTicketKeys)?;
            let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(made)).ok_or(BadTicketKeys)?;
            taken.push(Arc::new(Key::new(*name, *secret, made).ok_or(BadTicketKeys)?));
        }
        let _one = self.rotation.lock();
        let mut keys = Vec::clone(&self.keys.load());
        taken.retain(|key| keys.iter().all(|old| old.name != key.name));
        keys.extend(taken);
        keys.sort_by_key(|key| std::cmp::Reverse(key.made));
        keys.truncate(MAX_KEYS);
        self.keys.store(Arc::new(keys));
        Ok(())
    }

    /// Tickets of clients that are not asked for certificates.
    pub(crate) fn for_anybody(self: &Arc<Self>) -> Arc<dyn ProducesTickets> {
        Arc::new(Tickets { keys: Arc::clone(self), context: [0; 32] })
    }

    /// Tickets of one connection, which are only worth something in the same context, and until the session ends.
    pub(crate) fn until(self: &Arc<Self>, end: Arc<SessionEnd>, context: &[u8]) -> Arc<dyn ProducesTickets> {
        let digest = digest(&SHA256, context);
        let mut context = [0; 32];
        context.copy_from_slice(digest.as_ref());
        Arc::new(LimitedTickets { tickets: Tickets { keys: Arc::clone(self), context }, end })
    }

    /// The key that makes tickets at that time.
    fn current(&self, now: SystemTime) -> Option<Arc<Key>> {
        let young = |keys: &Vec<Arc<Key>>| keys.first().filter(|key| key.age(now) < KEY_LIFETIME).map(Arc::clone);
        if let Some(key) = young(&self.keys.load()) {
            return Some(key);
        }
        let _one = self.rotation.lock();
        let keys = self.keys.load();
        if let Some(key) = young(&keys) {
            return Some(key); // somebody else has just made it
        }
        let key = Arc::new(Key::random(now)?);
        let old = keys.iter().filter(|key| key.is_taken(now)).map(Arc::clone);
        let all: Vec<Arc<Key>> = std::iter::once(Arc::clone(&key)).chain(old).take(MAX_KEYS).collect();
        self.keys.store(Arc::new(all));
        Some(key)
    }

    fn seal(&self, session: &[u8], context: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        if session.len() > MAX_TICKET_BYTES - NAME_BYTES - NONCE_LEN - TAG_BYTES {
            return None;
        }
        let key = self.current(now)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + session.len() + TAG_BYTES);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(session);
        let (_, sealed) = ticket.split_at_mut(NAME_BYTES + NONCE_LEN);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.cipher.seal_in_place_separate_tag(nonce, key.bound_to(context), sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], context: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        if ticket.len() > MAX_TICKET_BYTES {
            return None;
        }
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.load();
        let key = keys.iter().find(|key| key.name == *name).filter(|key| key.is_taken(now))?;
        let mut session = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.cipher.open_in_place(nonce, key.bound_to(context), &mut session).ok()?.len();
        session.truncate(length);
        Some(session)
    }
}

impl Key {
    fn random(now: SystemTime) -> Option<Self> {
        let (mut name, mut secret) = ([0; NAME_BYTES], [0; SECRET_BYTES]);
        let random = SystemRandom::new();
        random.fill(&mut name).and_then(|()| random.fill(&mut secret)).ok()?;
        Self::new(name, secret, now)
    }

    fn new(name: [u8; NAME_BYTES], secret: [u8; SECRET_BYTES], made: SystemTime) -> Option<Self> {
        let cipher = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &secret).ok()?);
        Some(Self { name, secret, cipher, made })
    }

    /// Zero of one that another clock has made.
    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.made).unwrap_or_default()
    }

    fn is_taken(&self, now: SystemTime) -> bool {
        self.age(now) < KEY_LIFETIME + TICKET_LIFETIME
    }

    fn bound_to(&self, context: &[u8]) -> Aad<Vec<u8>> {
        Aad::from([&self.name, context].concat())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("made", &self.made).finish_non_exhaustive()
    }
}

/// As rustls asks for them.
struct Tickets {
    keys: Arc<TicketKeys>,
    context: [u8; 32],
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(TICKET_LIFETIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal(plain, &self.context, SystemTime::now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.keys.open(cipher, &self.context, SystemTime::now())
    }
}

/// The same; behind the session stands when it ends, in seconds since 1970.
#[derive(Debug)]
struct LimitedTickets {
    tickets: Tickets,
    end: Arc<SessionEnd>,
}

impl LimitedTickets {
    fn seal(&self, plain: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let Tickets { keys, context } = &self.tickets;
        keys.seal(&[plain, &self.end.seconds().to_be_bytes()].concat(), context, now)
    }

    fn open(&self, ticket: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let Tickets { keys, context } = &self.tickets;
        let mut session = keys.open(ticket, context, now)?;
        let end = u64::from_be_bytes(*session.last_chunk()?);
        if SessionEnd::is_over(end, now) {
            return None;
        }
        self.end.lower(end);
        session.truncate(session.len() - size_of::<u64>());
        Some(session)
    }
}

impl ProducesTickets for LimitedTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, SystemTime::now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_ticket_is_taken_by_whoever_has_the_keys() {
        let keys = TicketKeys::new();
        let ticket = keys.seal(b"session", b"", NOW).unwrap();
        assert!(!ticket.windows(7).any(|window| window == b"session"));
        assert_eq!(keys.open(&ticket, b"", NOW).as_deref(), Some(&b"session"[..]));
        let successor = TicketKeys::new();
        assert_eq!(successor.open(&ticket, b"", NOW), None);
        successor.import(&keys.export()).unwrap();
        assert_eq!(successor.open(&ticket, b"", NOW).as_deref(), Some(&b"session"[..]));
        // It goes on with the same key.
        let later = successor.seal(b"later", b"", NOW + SECOND).unwrap();
        assert_eq!(keys.open(&later, b"", NOW).as_deref(), Some(&b"later"[..]));
    }

    #[test]
    fn a_ticket_is_bound_to_its_context() {
        let keys = TicketKeys::new();
        let ticket = keys.seal(b"session", b"one authority", NOW).unwrap();
        assert_eq!(keys.open(&ticket, b"another", NOW), None);
    }

    #[test]
    fn a_ticket_ends_with_its_session_however_often_that_is_resumed() {
        let keys = TicketKeys::new();
        let limited = |end: Arc<SessionEnd>| LimitedTickets {
            tickets: Tickets { keys: Arc::clone(&keys), context: [1; 32] },
            end,
        };
        let of = |seconds| {
            let end = SessionEnd::never();
            end.set(NOW + seconds * SECOND);
            end
        };
        let first = limited(of(100)).seal(b"session", NOW).unwrap();
        let again = limited(SessionEnd::never());
        assert_eq!(again.open(&first, NOW + 99 * SECOND).as_deref(), Some(&b"session"[..]));
        // What a resumed connection gives out ends no later.
        let second = again.seal(b"session", NOW + 99 * SECOND).unwrap();
        for ticket in [&first, &second] {
            assert!(limited(SessionEnd::never()).open(ticket, NOW + 99 * SECOND).is_some());
            assert!(limited(SessionEnd::never()).open(ticket, NOW + 100 * SECOND).is_none());
        }
        let endless = limited(SessionEnd::never()).seal(b"", NOW).unwrap();
        assert!(limited(SessionEnd::never()).open(&endless, NOW + KEY_LIFETIME).is_some());
        // Without that time it is no such ticket.
        assert_eq!(again.open(&keys.seal(b"1234567", &[1; 32], NOW).unwrap(), NOW), None);
    }

    #[test]
    fn keys_are_rotated_and_forgotten() {
        let keys = TicketKeys::new();
        let first = keys.seal(b"first", b"", NOW).unwrap();
        let same = keys.seal(b"same", b"", NOW + KEY_LIFETIME - SECOND).unwrap();
        let next = keys.seal(b"next", b"", NOW + KEY_LIFETIME).unwrap();
        assert_eq!(first[..NAME_BYTES], same[..NAME_BYTES]);
        assert_ne!(first[..NAME_BYTES], next[..NAME_BYTES]);
        let end = NOW + KEY_LIFETIME + TICKET_LIFETIME;
        assert!(keys.open(&first, b"", end - SECOND).is_some());
        assert!(keys.open(&first, b"", end).is_none());
        assert!(keys.open(&next, b"", end).is_some());
        for hour in 0..100 {
            keys.seal(b"x", b"", NOW + hour * 3600 * SECOND).unwrap();
            assert!(keys.keys.load().len() <= MAX_KEYS);
        }
        assert!(keys.keys.load().iter().all(|key| key.is_taken(NOW + 99 * 3600 * SECOND)));
    }

    #[test]
    fn what_is_altered_is_refused() {
        let keys = TicketKeys::new();
        let ticket = keys.seal(b"session", b"", NOW).unwrap();
        for at in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[at] ^= 1;
            assert_eq!(keys.open(&altered, b"", NOW), None, "{at}");
            assert_eq!(keys.open(&ticket[..at], b"", NOW), None, "{at}");
        }
    }

    #[test]
    fn bounds_hold() {
        let keys = TicketKeys::new();
        assert_eq!(keys.seal(&vec![0; MAX_TICKET_BYTES], b"", NOW), None);
        let longest = MAX_TICKET_BYTES - NAME_BYTES - NONCE_LEN - TAG_BYTES;
        let ticket = keys.seal(&vec![7; longest], b"", NOW).unwrap();
        assert_eq!(keys.open(&ticket, b"", NOW), Some(vec![7; longest]));
        assert_eq!(keys.import(&[0; RECORD_BYTES - 1]), Err(BadTicketKeys));
        assert_eq!(keys.import(&[0; RECORD_BYTES * (MAX_KEYS + 1)]), Err(BadTicketKeys));
        assert_eq!(keys.import(&[0xff; RECORD_BYTES]), Err(BadTicketKeys));
        assert!(keys.open(&ticket, b"", NOW).is_some());
    }

    proptest! {
        #[test]
        fn every_session_comes_back(session in prop::collection::vec(any::<u8>(), 0..600), context in any::<[u8; 8]>()) {
            let keys = TicketKeys::new();
            let ticket = keys.seal(&session, &context, NOW).unwrap();
            prop_assert_eq!(keys.open(&ticket, &context, NOW), Some(session));
        }

        #[test]
        fn no_ticket_is_too_odd(ticket in prop::collection::vec(any::<u8>(), 0..100)) {
            let keys = TicketKeys::new();
            keys.seal(b"", b"", NOW).unwrap();
            prop_assert_eq!(keys.open(&ticket, b"", NOW), None);
        }
    }
}
