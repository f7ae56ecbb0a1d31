//! One file in one form: what is known of it, and the fields that it is sent with.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED, VARY,
};
use pilotlight_content_coding::{Coding, Encoder};
use rustix::buffer::spare_capacity;
use rustix::fs::{Stat, fstat};
use rustix::io::{Errno, pread};

use crate::conditions::Validators;
use crate::reader::OpenFile;
use crate::version::Version;

/// Bytes of a file up to which it is kept in memory as a whole.
pub(crate) const MAX_SMALL: u64 = 64 << 10;
/// Reads of a small file that changes while it is read.
const MAX_READS: usize = 3;

/// One file in one form.
#[derive(Debug)]
pub(crate) struct Entity {
    pub(crate) version: Version,
    pub(crate) content: Content,
    /// Those of a whole answer.
    pub(crate) fields: HeaderMap,
    etag: HeaderValue,
    /// The version of the file that this was encoded from here; none: it is a file itself.
    derived_from: Option<Version>,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Small(Bytes),
    Large(Arc<OpenFile>),
}

/// What the fields of an entity say beside what the file itself says.
#[derive(Clone, Copy)]
pub(crate) struct Described<'a> {
    pub(crate) content_type: &'a HeaderValue,
    pub(crate) cache_control: Option<&'a HeaderValue>,
    /// The form that this is.
    pub(crate) coding: Option<Coding>,
    /// Whether there are several forms.
    pub(crate) varies: bool,
}

impl Entity {
    /// Reads what is small. What `known` has of the same version is not read again.
    pub(crate) fn read(
        file: OwnedFd,
        stat: &Stat,
        known: Option<&Self>,
        described: &Described<'_>,
        now: SystemTime,
    ) -> Result<Self, Errno> {
        let version = Version::of(stat);
        let (version, content) = match known.filter(|known| known.version == version) {
            Some(known) => (version, known.content.clone()),
            None => content(file, version)?,
        };
        let (fields, etag) = fields(version.etag(now), &version, described, now);
        Ok(Self { version, content, fields, etag, derived_from: None })
    }

    /// The same in a coding, if it is small and becomes smaller. What `known` has of the same version is not encoded
    /// again.
    pub(crate) fn derived(
        &self,
        coding: Coding,
        known: Option<&Self>,
        described: &Described<'_>,
        now: SystemTime,
    ) -> Option<Self> {
        let Content::Small(bytes) = &self.content else { return None };
        let known = known.filter(|known| known.derived_from == Some(self.version)).map(|known| &known.content);
        let encoded = match known {
            Some(Content::Small(encoded)) => encoded.clone(),
            _ => Encoder::whole(coding, bytes).ok()?,
        };
        if encoded.len() >= bytes.len() {
            return None;
        }
        let version = self.version.sized(encoded.len());
        // RFC 9110 §8.8.1: weak, as another version of the encoder may make other bytes of the same file.
        let etag = version.etag(now);
        let etag = format!("W/{}-{}\"", etag.trim_start_matches("W/").trim_end_matches('"'), coding.name());
        let (fields, etag) = fields(etag, &version, described, now);
        let content = Content::Small(encoded);
        Some(Self { version, content, fields, etag, derived_from: Some(self.version) })
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.version.modified() }
    }

    /// Bytes that it holds.
    pub(crate) fn weight(&self) -> usize {
        match &self.content {
            Content::Small(bytes) => bytes.len(),
            Content::Large(_) => 0,
        }
    }
}

fn content(file: OwnedFd, version: Version) -> Result<(Version, Content), Errno> {
    if version.size > MAX_SMALL {
        return Ok((version, Content::Large(Arc::new(OpenFile::new(file, version)))));
    }
    let mut version = version;
    for _ in 0..MAX_READS {
        let bytes = whole(&file, version.size)?;
        let then = Version::of(&fstat(&file)?);
        if then == version && bytes.len() as u64 == version.size {
            return Ok((version, Content::Small(bytes.into())));
        }
        if then.size > MAX_SMALL {
            break;
        }
        version = then;
    }
    Err(Errno::BUSY) // it is being written
}

/// All of a file, and a byte more if there is one.
fn whole(file: &OwnedFd, size: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    while bytes.len() < bytes.capacity() {
        let offset = bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    bytes.shrink_to_fit();
    Ok(bytes)
}

fn fields(etag: String, version: &Version, described: &Described<'_>, now: SystemTime) -> (HeaderMap, HeaderValue) {
    let text = |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
    let etag = text(etag);
    let mut fields = HeaderMap::with_capacity(8);
    fields.insert(CONTENT_TYPE, described.content_type.clone());
    if let Some(coding) = described.coding {
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    if described.varies {
        fields.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    if let Some(value) = described.cache_control {
        fields.insert(CACHE_CONTROL, value.clone());
    }
    // RFC 9110 §8.8.2.1: no later than the answer itself.
    fields.insert(LAST_MODIFIED, text(httpdate::fmt_http_date(version.modified().min(now))));
    fields.insert(ETAG, etag.clone());
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    (fields, etag)
}
