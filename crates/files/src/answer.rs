//! The answer to a request for what is below a folder.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LOCATION, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pilotlight_content_coding::{Accepted, Coding, CompressOptions, gains};
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::beneath::{Opened, Root};
use crate::cache::{FileCache, Folder, Growth, Resource};
use crate::conditions::{Conditions, Verdict};
use crate::entity::{Content, Described, Entity, MAX_SMALL};
use crate::options::{FilesOptions, Listing};
use crate::ranges::{self, Wanted};
use crate::reader::{FilePart, Segment};
use crate::target::{FilePath, Kind, NoPath};
use crate::version::Version;
use crate::{caching, listing, media_type};

/// What may be done with a file.
pub(crate) const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// What is behind the name of a file in a smaller form: the smallest first, as it mostly is.
const ENDINGS: [(Coding, &str); 3] = [(Coding::Br, ".br"), (Coding::Zstd, ".zst"), (Coding::Gzip, ".gz")];

/// The fields of a request.
pub trait RequestFields {
    /// Calls `value` with each value of a field.
    fn each(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8]));
}

/// A request for what is below a folder.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a Method,
    /// What follows the route's path, with its escapes and without the query: empty, or from a slash on.
    pub below: &'a str,
    /// The whole path as the client sent it.
    pub path: &'a str,
    /// What is behind the question mark.
    pub query: Option<&'a str>,
    /// Its fields.
    pub fields: &'a dyn RequestFields,
    /// Whether small files are brought into codings for which nothing lies beside them.
    pub compress: Option<&'a CompressOptions>,
    /// The time of day.
    pub now: SystemTime,
    /// The same on the monotonic clock.
    pub at: Instant,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, but for those that frame the body.
    pub fields: HeaderMap,
    /// Its body, which is not sent to HEAD.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it, perhaps nothing.
    Here(Bytes),
    /// To be read piece by piece.
    Segments(Vec<Segment>),
}

/// Why there is no answer from a folder.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The escapes in the path are broken, or stand for no text.
    #[error("the path is not valid: its escapes must be %XX and stand for UTF-8")]
    Malformed,
    /// Nothing that is served.
    #[error("there is no file for {path}")]
    NotFound {
        /// The path of the request.
        path: String,
    },
    /// The gateway's user must not read it.
    #[error("the file for {path} cannot be read by the user that the gateway runs as")]
    Forbidden {
        /// The path of the request.
        path: String,
    },
    /// Only GET, HEAD and OPTIONS can be answered.
    #[error("files are answered to GET, HEAD and OPTIONS only, not to {method}")]
    Method {
        /// That of the request.
        method: Method,
    },
    /// The folder itself.
    #[error("the folder of files cannot be opened: {cause}")]
    Root {
        /// What the system says.
        cause: Errno,
    },
    /// A file.
    #[error("the file for {path} cannot be read: {cause}")]
    Io {
        /// The path of the request.
        path: String,
        /// What the system says.
        cause: Errno,
    },
}

impl FileError {
    /// The fields that belong to it.
    #[must_use]
    pub fn allow(&self) -> Option<HeaderValue> {
        matches!(self, Self::Method { .. }).then_some(ALLOWED)
    }

    pub(crate) fn of(path: &str, cause: Errno) -> Self {
        let path = path.to_owned();
        match cause {
            Errno::NOENT => Self::NotFound { path },
            Errno::ACCESS | Errno::PERM => Self::Forbidden { path },
            cause => Self::Io { path, cause },
        }
    }
}

/// What a path leads to.
enum Found {
    File(Rc<Resource>),
    /// In place of what is not there, because the client wants HTML.
    Page(Rc<Resource>),
    /// Below this one with a slash.
    Folder,
    Listing(Bytes),
}

impl FileCache {
    /// Answers a request.
    ///
    /// # Errors
    /// Nothing is there that may be answered.
    pub fn answer(&mut self, options: &Arc<FilesOptions>, request: &Request<'_>) -> Result<Answer, FileError> {
        match *request.method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Ok(answer(StatusCode::NO_CONTENT, [(ALLOW, ALLOWED)])),
            _ => return Err(FileError::Method { method: request.method.clone() }),
        }
        let path = FilePath::parse(request.below).map_err(|why| match why {
            NoPath::Malformed => FileError::Malformed,
            NoPath::Refused => FileError::NotFound { path: request.path.to_owned() },
        })?;
        let mut lookup = Lookup { folder: self.folder(options), request, growth: Growth::Same };
        let found = lookup.find(&path);
        if lookup.growth == Growth::Grown {
            self.trim();
        }
        Ok(match found? {
            Found::File(resource) => resource.answer(request),
            Found::Page(resource) => by_accept(resource.answer(request)),
            Found::Folder => moved(request),
            Found::Listing(page) => listed(page),
        })
    }
}

struct Lookup<'a> {
    folder: &'a mut Folder,
    request: &'a Request<'a>,
    growth: Growth,
}

impl Lookup<'_> {
    fn find(&mut self, path: &FilePath<'_>) -> Result<Found, FileError> {
        let found = match path.kind {
            Kind::File => self.file(&path.names),
            Kind::Folder => self.in_folder(&path.names),
        };
        match found {
            Err(Errno::NOENT) => self.fallback(path),
            found => found.map_err(|cause| self.error(cause)),
        }
    }

    fn error(&self, cause: Errno) -> FileError {
        FileError::of(self.request.path, cause)
    }

    /// What is at a path without a slash behind it.
    fn file(&mut self, names: &str) -> Result<Found, Errno> {
        if let Some(resource) = self.folder.fresh(names, self.request.at) {
            return Ok(Found::File(resource));
        }
        let root = self.folder.root(self.request.at)?;
        let opened = root.get(names).inspect_err(|_| self.folder.forget(names))?;
        let Opened::File(file, stat) = opened else { return Ok(Found::Folder) };
        let known = self.folder.known(names);
        let content_type = media_type::of(names, &self.folder.options.types);
        let coding = media_type::is_gzip(names).then_some(Coding::Gzip);
        let cache_control = caching::of(names, &content_type, &self.folder.options.cache_control);
        let version = Version::of(&stat);
        let gains = coding.is_none() && gains(content_type.as_bytes());
        let beside = if gains { beside(&root, names, &version) } else { Vec::new() };
        let compress = self.request.compress.filter(|options| {
            coding.is_none()
                && options.takes(content_type.as_bytes())
                && (options.min_size..=MAX_SMALL).contains(&version.size)
        });
        let described = Described {
            content_type: &content_type,
            cache_control: cache_control.as_ref(),
            coding,
            varies: !beside.is_empty() || compress.is_some(),
        };
        let (known, now) = (known.as_deref(), self.request.now);
        let as_it_is = Entity::read(file, &stat, known.map(|known| &known.as_it_is), &described, now)?;
        let known =
            |coding| known.and_then(|known| known.forms.iter().find(|(one, _)| *one == coding)).map(|(_, form)| form);
        let read = |(coding, file, stat): (Coding, OwnedFd, Box<Stat>)| {
            let described = Described { coding: Some(coding), ..described };
            Some((coding, Entity::read(file, &stat, known(coding), &described, now).ok()?))
        };
        let mut forms: Vec<_> = beside.into_iter().filter_map(read).collect();
        for coding in compress.iter().flat_map(|options| &options.algorithms) {
            let described = Described { coding: Some(*coding), ..described };
            if !forms.iter().any(|(one, _)| one == coding)
                && let Some(form) = as_it_is.derived(*coding, known(*coding), &described, now)
            {
                forms.push((*coding, form));
            }
        }
        let resource = Rc::new(Resource { as_it_is, forms });
        self.growth = self.folder.keep(names, &resource, self.request.at);
        Ok(Found::File(resource))
    }

    /// What is at a path with a slash behind it: the index, or a list.
    fn in_folder(&mut self, names: &str) -> Result<Found, Errno> {
        let slash = if names.is_empty() { "" } else { "/" };
        let index = self.folder.options.index.as_ref().map(|index| format!("{names}{slash}{index}"));
        if let Some(index) = index {
            match self.file(&index) {
                Err(Errno::NOENT) | Ok(Found::Folder) => {}
                found => return found,
            }
        }
        if self.folder.options.listing == Listing::Off {
            return Err(Errno::NOENT);
        }
        let root = self.folder.root(self.request.at)?;
        match root.get(names)? {
            Opened::Folder(folder) => Ok(Found::Listing(listing::page(&root, names, &folder)?)),
            Opened::File(..) => Err(Errno::NOENT),
        }
    }

    /// The page of an application, for a navigation to what is no file: without an ending, or by somebody who says that
    /// he wants HTML.
    fn fallback(&mut self, path: &FilePath<'_>) -> Result<Found, FileError> {
        let not_found = || FileError::NotFound { path: self.request.path.to_owned() };
        let Some(fallback) = self.folder.options.fallback.clone() else { return Err(not_found()) };
        let mut wants_html = false;
        self.request.fields.each(&ACCEPT, &mut |value| wants_html |= names_html(value));
        let is_asset = path.name().contains('.');
        if is_asset && !wants_html {
            return Err(not_found());
        }
        match self.file(&fallback) {
            Ok(Found::Folder) | Err(Errno::NOENT) => Err(not_found()),
            Ok(Found::File(resource)) if is_asset => Ok(Found::Page(resource)),
            found => found.map_err(|cause| self.error(cause)),
        }
    }
}

fn names_html(accept: &[u8]) -> bool {
    accept.split(|byte| *byte == b',').any(|member| {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"text/html")) && !parts.any(is_weight_of_nothing)
    })
}

/// RFC 9110 §12.4.2: 0 is "not acceptable".
fn is_weight_of_nothing(parameter: &[u8]) -> bool {
    matches!(parameter, [b'q' | b'Q', b'=', weight @ ..] if weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
}

/// The smaller forms that lie beside a file and are no older than it.
fn beside(root: &Root, names: &str, version: &Version) -> Vec<(Coding, OwnedFd, Box<Stat>)> {
    let beside = ENDINGS.into_iter().filter_map(|(coding, ending)| match root.get(&format!("{names}{ending}")) {
        Ok(Opened::File(file, stat)) if !Version::of(&stat).is_older_than(version) => Some((coding, file, stat)),
        _ => None,
    });
    beside.collect()
}

impl Resource {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let entity = self.chosen(request);
        let conditions = conditions(request);
        match conditions.verdict(entity.validators()) {
            Verdict::Failed => return answer(StatusCode::PRECONDITION_FAILED, [(ETAG, entity.fields[ETAG].clone())]),
            Verdict::NotModified => return entity.not_modified(),
            Verdict::Send => {}
        }
        // RFC 9110 §14.2: for GET alone.
        let range = (request.method == Method::GET).then(|| one(request, &RANGE)).flatten();
        let range = range.filter(|_| conditions.takes_range(entity.validators(), request.now));
        match range.map_or(Wanted::Whole, |range| ranges::wanted(&range, entity.version.size)) {
            Wanted::Whole => entity.whole(),
            Wanted::Parts(parts) => entity.parts(&parts),
            Wanted::Nothing => entity.nothing(),
        }
    }

    /// The form that the client likes best.
    fn chosen(&self, request: &Request<'_>) -> &Entity {
        if self.forms.is_empty() {
            return &self.as_it_is;
        }
        let mut accepted = Accepted::default();
        request.fields.each(&ACCEPT_ENCODING, &mut |value| accepted.add(value));
        let forms = self.forms.iter().map(|(coding, entity)| (*coding, entity));
        accepted.choose(forms).map_or(&self.as_it_is, |(_, entity)| entity)
    }
}

impl Entity {
    fn segment(&self, range: std::ops::Range<u64>) -> Segment {
        match &self.content {
            Content::Small(bytes) => {
                let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                Segment::Here(bytes.slice(within(range.start)..within(range.end)))
            }
            Content::Large(file) => Segment::File(FilePart::new(file, range)),
        }
    }

    fn body(&self, range: std::ops::Range<u64>) -> Body {
        match self.segment(range) {
            Segment::Here(bytes) => Body::Here(bytes),
            segment @ Segment::File(_) => Body::Segments(vec![segment]),
        }
    }

    fn whole(&self) -> Answer {
        Answer { status: StatusCode::OK, fields: self.fields.clone(), body: self.body(0..self.version.size) }
    }

    /// RFC 9110 §15.4.5: what a cache may update.
    fn not_modified(&self) -> Answer {
        let kept = [ETAG, CACHE_CONTROL, VARY].into_iter();
        let fields = kept.filter_map(|name| Some((name.clone(), self.fields.get(name)?.clone()))).collect();
        Answer { status: StatusCode::NOT_MODIFIED, fields, body: Body::Here(Bytes::new()) }
    }

    /// RFC 9110 §15.5.17.
    fn nothing(&self) -> Answer {
        let range = format!("bytes */{}", self.version.size);
        let range = HeaderValue::try_from(range).unwrap_or_else(|_| HeaderValue::from_static("bytes */0"));
        let bytes = HeaderValue::from_static("bytes");
        answer(StatusCode::RANGE_NOT_SATISFIABLE, [(CONTENT_RANGE, range), (ACCEPT_RANGES, bytes)])
    }

    /// RFC 9110 §15.3.7.
    fn parts(&self, parts: &[std::ops::Range<u64>]) -> Answer {
        let size = self.version.size;
        let range = |part: &std::ops::Range<u64>| format!("bytes {}-{}/{size}", part.start, part.end - 1);
        let mut fields = self.fields.clone();
        let body = if let [part] = parts {
            if let Ok(value) = HeaderValue::try_from(range(part)) {
                fields.insert(CONTENT_RANGE, value);
            }
            self.body(part.clone())
        } else {
            let boundary = format!("{:016x}{:016x}", random(), random());
            let content_type = String::from_utf8_lossy(self.fields[CONTENT_TYPE].as_bytes()).into_owned();
            if let Ok(value) = HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}")) {
                fields.insert(CONTENT_TYPE, value);
            }
            let mut segments = Vec::with_capacity(parts.len() * 2 + 1);
            for part in parts {
                let range = range(part);
                let head =
                    format!("\r\n--{boundary}\r\ncontent-type: {content_type}\r\ncontent-range: {range}\r\n\r\n");
                segments.extend([Segment::Here(head.into()), self.segment(part.clone())]);
            }
            segments.push(Segment::Here(format!("\r\n--{boundary}--\r\n").into()));
            Body::Segments(segments)
        };
        Answer { status: StatusCode::PARTIAL_CONTENT, fields, body }
    }
}

/// A part of what no file has in it but by chance of 2⁻¹²⁸.
fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}

fn conditions(request: &Request<'_>) -> Conditions {
    Conditions {
        if_match: all(request, &IF_MATCH),
        if_none_match: all(request, &IF_NONE_MATCH),
        if_modified_since: one(request, &IF_MODIFIED_SINCE),
        if_unmodified_since: one(request, &IF_UNMODIFIED_SINCE),
        if_range: one(request, &IF_RANGE),
    }
}

/// The lines of a list as one.
fn all(request: &Request<'_>, name: &HeaderName) -> Option<Vec<u8>> {
    let mut joined: Option<Vec<u8>> = None;
    request.fields.each(name, &mut |value| match &mut joined {
        Some(before) => before.extend([b", ", value].concat()),
        None => joined = Some(value.to_vec()),
    });
    joined
}

/// The only line of a field; several say nothing.
fn one(request: &Request<'_>, name: &HeaderName) -> Option<Vec<u8>> {
    let (mut value, mut count) = (None, 0);
    request.fields.each(name, &mut |line| {
        count += 1;
        value = Some(line.to_vec());
    });
    value.filter(|_| count == 1)
}

fn answer<const N: usize>(status: StatusCode, fields: [(HeaderName, HeaderValue); N]) -> Answer {
    Answer { status, fields: fields.into_iter().collect(), body: Body::Here(Bytes::new()) }
}

/// RFC 9110 §15.4.9: to the same path with a slash, so that what a page names relative to itself is found. The path has
/// no empty name (see [`crate::target`]), so it cannot be read as another host.
fn moved(request: &Request<'_>) -> Answer {
    let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
    let location = HeaderValue::try_from(format!("{}/{query}", request.path));
    let location = location.unwrap_or_else(|_| HeaderValue::from_static("/"));
    answer(StatusCode::PERMANENT_REDIRECT, [(LOCATION, location)])
}

/// RFC 9110 §12.5.5: who does not want HTML gets a 404.
fn by_accept(answer: Answer) -> Answer {
    let mut answer = answer;
    let varies = match answer.fields.contains_key(VARY) {
        true => "accept-encoding, accept",
        false => "accept",
    };
    answer.fields.insert(VARY, HeaderValue::from_static(varies));
    answer
}

fn listed(page: Bytes) -> Answer {
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (http::header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(listing::POLICY)),
    ];
    Answer { body: Body::Here(page), ..answer(StatusCode::OK, fields) }
}
