//! Files of users and the hashes of their passwords, as `htpasswd -B` makes them: `name:hash` on each line. Pure: the
//! text is an argument, and so is the password.
//!
//! Two kinds of hashes are read: bcrypt (`$2y$`, `$2b$`, `$2a$`) and Argon2id (`$argon2id$`). Everything else that
//! htpasswd can write (`{SHA}`, `$apr1$`, crypt, plain text) can be guessed too fast and is refused.

use std::fmt;
use std::ops::RangeInclusive;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use pilotlight_printable::bytes_without_mark;
use rustc_hash::FxHashMap;
use subtle::ConstantTimeEq as _;

/// Most bytes of such a file.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most bytes of a user's name, and of a password. bcrypt looks at the first 72 of a password.
pub(crate) const MAX_NAME_BYTES: usize = 255;
/// Costs of bcrypt: the number of rounds is 2 to its power.
pub(crate) const BCRYPT_COST: RangeInclusive<u32> = 4..=16;
/// KiB that Argon2 may take for one password.
pub(crate) const MAX_ARGON2_KIB: u32 = 256 * 1024;
/// Passes of Argon2 over its memory.
pub(crate) const MAX_ARGON2_PASSES: u32 = 64;

/// The users of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Users {
    by_name: FxHashMap<Box<[u8]>, Hashed>,
    /// Stands in for unknown users, so that they cost as much time: the first of the file.
    decoy: Option<Hashed>,
}

/// The hash of a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Hashed {
    Bcrypt(Box<str>),
    Argon2id(Box<Argon2id>),
}

/// As its text says it (the PHC string format).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Argon2id {
    kib: u32,
    passes: u32,
    lanes: u32,
    salt: Box<[u8]>,
    hash: Box<[u8]>,
}

/// What is wrong with a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadLine {
    /// Counted from 1.
    pub line: usize,
    /// What.
    pub what: BadEntry,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// No colon, or nothing in front of it.
    #[error("this is not `name:hash`")]
    Form,
    /// The same name again.
    #[error("this user is there twice")]
    Twice,
    /// Another kind of hash, or a password as it is.
    #[error("the hash is {0}, which is not read here")]
    Scheme(&'static str),
    /// A hash that is cut short, or has been changed.
    #[error("the hash is damaged")]
    Damaged,
    /// A hash that takes too long, or too much memory.
    #[error("the hash is beyond the limits: bcrypt of cost 4 to 16, Argon2 of 256 MiB and 64 passes at most")]
    Cost,
}

impl BadEntry {
    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Form | Self::Damaged => "write the line anew: htpasswd -B FILE NAME",
            Self::Twice => "take one of the two away: htpasswd -D FILE NAME",
            Self::Scheme(_) => "hash the password with bcrypt: htpasswd -B FILE NAME",
            Self::Cost => "hash it with less: htpasswd -B -C 10 FILE NAME",
        }
    }
}

/// Nothing of the hashes.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} users", self.by_name.len())
    }
}

impl Users {
    /// Reads a file.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let mut users = Self::default();
        for (index, line) in bytes_without_mark(text).split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            users.add(line).map_err(|what| BadLine { line: index + 1, what })?;
        }
        Ok(users)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), BadEntry> {
        let colon = line.iter().position(|byte| *byte == b':').ok_or(BadEntry::Form)?;
        let (name, hash) = (&line[..colon], &line[colon + 1..]);
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(BadEntry::Form);
        }
        let hashed = Hashed::parse(std::str::from_utf8(hash).map_err(|_| BadEntry::Scheme("no text"))?)?;
        self.decoy.get_or_insert_with(|| hashed.clone());
        match self.by_name.insert(name.into(), hashed) {
            None => Ok(()),
            Some(_) => Err(BadEntry::Twice),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The hash of a user's password, or another one that takes as long, and whether it is his.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(&Hashed, Known)> {
        match self.by_name.get(name) {
            Some(hashed) => Some((hashed, Known::Yes)),
            None => self.decoy.as_ref().map(|decoy| (decoy, Known::No)),
        }
    }
}

/// Whether a file has a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Yes,
    No,
}

impl Hashed {
    fn parse(text: &str) -> Result<Self, BadEntry> {
        if ["$2y$", "$2b$", "$2a$"].iter().any(|scheme| text.starts_with(scheme)) {
            return bcrypt(text).map(|text| Self::Bcrypt(text.into()));
        }
        if let Some(rest) = text.strip_prefix("$argon2id$") {
            return argon2id(rest).map(|hash| Self::Argon2id(Box::new(hash)));
        }
        Err(BadEntry::Scheme(match text {
            _ if text.starts_with("$apr1$") => "MD5 ($apr1$)",
            _ if text.starts_with("{SHA}") => "SHA-1 without a salt ({SHA})",
            _ if text.starts_with("$5$") || text.starts_with("$6$") => "SHA-crypt ($5$, $6$)",
            _ if text.starts_with("$argon2") => "Argon2, but not Argon2id",
            _ if text.starts_with('$') => "of an unknown kind",
            _ => "crypt, or the password itself",
        }))
    }

    /// What tells it from every other hash.
    pub(crate) fn id(&self) -> &[u8] {
        match self {
            Self::Bcrypt(hash) => hash.as_bytes(),
            Self::Argon2id(hash) => &hash.hash,
        }
    }

    /// Whether the password is the one that was hashed. The parameters in the hash say how long that takes.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        match self {
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false), // it was parsed when it was read
            Self::Argon2id(hash) => hash.verify(password),
        }
    }
}

/// `$2y$10$`, 22 characters of salt, 31 of hash.
fn bcrypt(text: &str) -> Result<&str, BadEntry> {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
    let bytes = text.as_bytes();
    if bytes.len() != 60 || bytes[6] != b'$' || !bytes[7..].iter().copied().all(is_base64) {
        return Err(BadEntry::Damaged);
    }
    let cost: u32 = text[4..6].parse().map_err(|_| BadEntry::Damaged)?;
    if !BCRYPT_COST.contains(&cost) {
        return Err(BadEntry::Cost);
    }
    Ok(text)
}

/// `v=19$m=65536,t=3,p=4$SALT$HASH`.
fn argon2id(text: &str) -> Result<Argon2id, BadEntry> {
    let mut parts = text.split('$');
    let mut next = || parts.next().ok_or(BadEntry::Damaged);
    if next()? != "v=19" {
        return Err(BadEntry::Scheme("Argon2 of another version than 19"));
    }
    let (mut kib, mut passes, mut lanes) = (0, 0, 0);
    for setting in next()?.split(',') {
        let (name, value) = setting.split_once('=').ok_or(BadEntry::Damaged)?;
        let value: u32 = value.parse().map_err(|_| BadEntry::Damaged)?;
        match name {
            "m" => kib = value,
            "t" => passes = value,
            "p" => lanes = value,
            _ => return Err(BadEntry::Damaged),
        }
    }
    let decode = |text: &str| STANDARD_NO_PAD.decode(text).map_err(|_| BadEntry::Damaged);
    let (salt, hash) = (decode(next()?)?, decode(next()?)?);
    if kib > MAX_ARGON2_KIB || passes > MAX_ARGON2_PASSES || lanes > 64 {
        return Err(BadEntry::Cost);
    }
    let read = Argon2id { kib, passes, lanes, salt: salt.into(), hash: hash.into() };
    let is_fine = (8..=64).contains(&read.salt.len()) && (16..=64).contains(&read.hash.len());
    match parts.next().is_none() && is_fine && read.params().is_some() {
        true => Ok(read),
        false => Err(BadEntry::Damaged),
    }
}

impl Argon2id {
    fn params(&self) -> Option<Params> {
        Params::new(self.kib, self.passes, self.lanes, Some(self.hash.len())).ok()
    }

    fn verify(&self, password: &[u8]) -> bool {
        let Some(params) = self.params() else { return false };
        let mut hash = vec![0; self.hash.len()];
        let hashed = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(password, &self.salt, &mut hash);
        hashed.is_ok() && same(&hash, &self.hash)
    }
}

/// In a time that does not depend on where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // As `htpasswd -nbB -C 5 ann secret` and `argon2 -id` make them.
    const BCRYPT: &str = "$2y$05$@";
    const ARGON2ID: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$@";

    #[track_caller]
    fn check(text: &str, expected: Result<usize, (usize, BadEntry)>) {
        let read = Users::parse(text.as_bytes());
        let read = read.map(|users| users.len()).map_err(|BadLine { line, what }| (line, what));
        assert_eq!(read, expected, "{text:?}");
    }

    fn bcrypt_of(password: &str) -> String {
        bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY)
    }

    fn argon2_of(password: &str) -> String {
        let mut out = [0; 32];
        let params = Params::new(8, 1, 1, Some(32)).unwrap();
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(password.as_bytes(), b"somesalt", &mut out)
            .unwrap();
        ARGON2ID.replace('@', &STANDARD_NO_PAD.encode(out))
    }

    #[test]
    fn files() {
        let (one, other) = (bcrypt_of("a"), argon2_of("b"));
        check("", Ok(0));
        check(&format!("# users\n\nann:{one}\r\nbob:{other}\n"), Ok(2));
        check(&format!("ann:{one}\nann:{one}"), Err((2, BadEntry::Twice)));
        let marked = Users::parse(format!("\u{feff}ann:{one}").as_bytes()).unwrap();
        assert!(marked.by_name.contains_key(&b"ann"[..]), "the first user of a file with a byte order mark");
        check("ann", Err((1, BadEntry::Form)));
        check(&format!(":{one}"), Err((1, BadEntry::Form)));
        check(&format!("ann:{}", &one[..59]), Err((1, BadEntry::Damaged)));
        check(&format!("ann:{BCRYPT}"), Err((1, BadEntry::Damaged)));
        check(&format!("ann:{}", one.replace("$04$", "$31$")), Err((1, BadEntry::Cost)));
        check(&format!("ann:{}", other.replace("m=8", "m=9999999")), Err((1, BadEntry::Cost)));
        check(
            &format!("ann:{}", other.replace("v=19", "v=16")),
            Err((1, BadEntry::Scheme("Argon2 of another version than 19"))),
        );
        check("ann:$apr1$x$y", Err((1, BadEntry::Scheme("MD5 ($apr1$)"))));
        check("ann:{SHA}abc=", Err((1, BadEntry::Scheme("SHA-1 without a salt ({SHA})"))));
        check("ann:$6$x$y", Err((1, BadEntry::Scheme("SHA-crypt ($5$, $6$)"))));
        check("ann:secret", Err((1, BadEntry::Scheme("crypt, or the password itself"))));
    }

    #[test]
    fn passwords() {
        let users =
            Users::parse(format!("ann:{}\nbob:{}\n", bcrypt_of("secret"), argon2_of("geheim")).as_bytes()).unwrap();
        for (name, password, expected) in [
            ("ann", "secret", true),
            ("ann", "geheim", false),
            ("ann", "", false),
            ("bob", "geheim", true),
            ("bob", "Geheim", false),
        ] {
            let (hashed, known) = users.find(name.as_bytes()).unwrap();
            assert_eq!((hashed.verify(password.as_bytes()), known), (expected, Known::Yes), "{name} {password}");
        }
        let (decoy, known) = users.find(b"eve").unwrap();
        assert!(
            matches!((decoy, known), (Hashed::Bcrypt(_), Known::No)),
            "an unknown user costs as much as a known one"
        );
        assert!(Users::default().find(b"eve").is_none());
    }

    proptest! {
        #[test]
        fn no_file_is_too_odd(bytes: Vec<u8>, scheme in "(\\$2y\\$|\\$argon2id\\$v=19\\$)?", rest in "[$a-z0-9=,./]{0,60}") {
            let _ = (Users::parse(&bytes), Users::parse(format!("a:{scheme}{rest}").as_bytes()));
        }
    }
}
