//! Pages of the operator's own for errors, by status. They are read when the gateway starts and at each reload.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::template::{Placeholder, Template};

/// Pages for errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPages {
    /// A status before its class, wherever it stands.
    pub pages: Vec<(ErrorStatus, ErrorPage)>,
    /// Whether they take the place of errors of services, too.
    pub intercept: bool,
}

/// Where a page comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorPage {
    /// A file of at most [`ErrorPages::MAX_BYTES`].
    File(PathBuf),
    /// A service, which is asked for it each time.
    Service {
        /// Its configured name.
        name: String,
        /// What it is asked for by GET: `/error/{status}`.
        path: Template,
    },
}

impl ErrorPage {
    /// What a path of a service may have in braces.
    pub const PLACEHOLDERS: &[Placeholder] = &[Placeholder::Status, Placeholder::RequestId, Placeholder::Host];
}

impl std::fmt::Display for ErrorPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Service { name, .. } => write!(f, "of service {name}"),
        }
    }
}

/// Errors that a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStatus {
    /// One status.
    One(u16),
    /// All of a class: 4 or 5.
    Class(u16),
}

impl ErrorStatus {
    /// Reads `404` or `5xx`; `None` if it is neither an error nor a class of errors.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "4xx" => Some(Self::Class(4)),
            "5xx" => Some(Self::Class(5)),
            _ => text.parse().ok().filter(|code| (400..600).contains(code)).map(Self::One),
        }
    }

    fn is(self, status: StatusCode) -> bool {
        match self {
            Self::One(code) => code == status.as_u16(),
            Self::Class(class) => class == status.as_u16() / 100,
        }
    }
}

impl std::fmt::Display for ErrorStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(code) => write!(f, "{code}"),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}

impl ErrorPages {
    /// Most bytes of a page.
    pub const MAX_BYTES: u64 = 256 * 1024;

    /// The services that are asked for pages.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.pages.iter().filter_map(|(_, page)| match page {
            ErrorPage::Service { name, .. } => Some(&**name),
            ErrorPage::File(_) => None,
        })
    }

    /// Reads a page.
    ///
    /// # Errors
    /// It cannot be read, or is larger than [`ErrorPages::MAX_BYTES`].
    pub fn read(path: &Path) -> io::Result<Bytes> {
        let mut content = Vec::new();
        File::open(path)?.take(Self::MAX_BYTES + 1).read_to_end(&mut content)?;
        if content.len() as u64 > Self::MAX_BYTES {
            let what = format!("it has more than {} bytes", Self::MAX_BYTES);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        Ok(content.into())
    }
}

/// Pages as they were read.
#[derive(Debug, Default)]
pub(crate) struct LoadedPages {
    pages: Vec<(ErrorStatus, LoadedPage)>,
    intercept: bool,
}

/// The pages that count for a route: its own before the general ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageLevels {
    pub(crate) own: Option<Arc<LoadedPages>>,
    pub(crate) general: Option<Arc<LoadedPages>>,
}

/// Who has made an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorBy {
    Gateway,
    /// Or the cache, which has it from there.
    Service,
}

impl PageLevels {
    /// The page for an error.
    pub(crate) fn find(&self, status: StatusCode, by: ErrorBy) -> Option<&LoadedPage> {
        let mut levels = self.levels().filter(|pages| by == ErrorBy::Gateway || pages.intercept);
        levels.find_map(|pages| pages.pages.iter().find(|(one, _)| one.is(status)).map(|(_, page)| page))
    }

    /// Whether errors of services may get a page.
    pub(crate) fn intercept(&self) -> bool {
        self.levels().any(|pages| pages.intercept)
    }

    fn levels(&self) -> impl Iterator<Item = &LoadedPages> {
        self.own.iter().chain(&self.general).map(|pages| &**pages)
    }
}

/// A page that is here, or where to get it.
#[derive(Debug)]
pub(crate) enum LoadedPage {
    Text(PageText),
    Service { name: Box<str>, path: Template },
}

/// A page as it was read.
#[derive(Debug)]
pub(crate) struct PageText {
    text: Bytes,
    pub(crate) media_type: HeaderValue,
    /// Some of it is different for each request.
    has_placeholders: bool,
}

impl LoadedPages {
    /// Reads all of them, if there are any. In place of one that cannot be read stands the gateway's own.
    pub(crate) fn read(spec: &ErrorPages) -> Option<Arc<Self>> {
        if spec.pages.is_empty() {
            return None;
        }
        let mut pages = Vec::with_capacity(spec.pages.len());
        for (status, page) in &spec.pages {
            let path = match page {
                ErrorPage::File(path) => path,
                ErrorPage::Service { name, path } => {
                    pages.push((*status, LoadedPage::Service { name: name.as_str().into(), path: path.clone() }));
                    continue;
                }
            };
            match ErrorPages::read(path) {
                Ok(text) => pages.push((*status, LoadedPage::Text(PageText::new(text, path)))),
                Err(e) => tracing::error!("the page {} for {status} cannot be read: {e}", path.display()),
            }
        }
        pages.sort_by_key(|(status, _)| matches!(status, ErrorStatus::Class(_)));
        Some(Arc::new(Self { pages, intercept: spec.intercept }))
    }
}

impl LoadedPage {
    /// The text, if no service has to be asked.
    pub(crate) fn text(&self) -> Option<&PageText> {
        match self {
            Self::Text(text) => Some(text),
            Self::Service { .. } => None,
        }
    }
}

impl PageText {
    fn new(text: Bytes, path: &Path) -> Self {
        let has = |word: &str| memchr::memmem::find(&text, word.as_bytes()).is_some();
        let has_placeholders = has(STATUS) || has(REQUEST_ID);
        Self { media_type: HeaderValue::from_static(media_type(path)), has_placeholders, text }
    }

    /// Whether it is markup, which programs cannot read.
    pub(crate) fn is_html(&self) -> bool {
        self.media_type.as_bytes().starts_with(b"text/html")
    }

    /// The page for one request. A client may have chosen the id, so no character of it is markup, or ends a string.
    pub(crate) fn text(&self, status: StatusCode, request_id: &str) -> Bytes {
        if !self.has_placeholders {
            return self.text.clone();
        }
        let mut id = String::with_capacity(request_id.len());
        for c in request_id.chars() {
            match c {
                '&' | '<' | '>' | '"' | '\'' | '\\' => id.extend(["&#", &u32::from(c).to_string(), ";"]),
                other => id.push(other),
            }
        }
        let text = replaced(&self.text, STATUS, status.as_str());
        replaced(&text, REQUEST_ID, &id).into()
    }
}

const STATUS: &str = "{status}";
const REQUEST_ID: &str = "{request_id}";

fn replaced(text: &[u8], word: &str, with: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + with.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, word.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with.as_bytes());
        rest = &rest[at + word.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// By the end of the file's name; pages are few kinds of things.
fn media_type(path: &Path) -> &'static str {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    match end.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(list: &[(&str, &str)], intercept: bool) -> Option<Arc<LoadedPages>> {
        let page =
            |text: &str| LoadedPage::Text(PageText::new(Bytes::copy_from_slice(text.as_bytes()), Path::new("x.html")));
        let mut pages: Vec<_> =
            list.iter().map(|(status, text)| (ErrorStatus::parse(status).unwrap(), page(text))).collect();
        pages.sort_by_key(|(status, _)| matches!(status, ErrorStatus::Class(_)));
        Some(Arc::new(LoadedPages { pages, intercept }))
    }

    #[test]
    fn a_status_before_its_class_and_a_route_before_all() {
        let levels = PageLevels {
            own: pages(&[("5xx", "own"), ("503", "busy")], true),
            general: pages(&[("500", "any"), ("404", "none")], false),
        };
        let found = |code: u16, by: ErrorBy| {
            let status = StatusCode::from_u16(code).unwrap();
            levels
                .find(status, by)
                .map(|page| String::from_utf8(page.text().unwrap().text(status, "7").to_vec()).unwrap())
        };
        assert!(levels.intercept());
        assert_eq!(found(503, ErrorBy::Gateway).as_deref(), Some("busy"));
        assert_eq!(found(500, ErrorBy::Service).as_deref(), Some("own"));
        assert_eq!(found(404, ErrorBy::Gateway).as_deref(), Some("none"));
        assert_eq!(found(404, ErrorBy::Service), None);
        assert_eq!(found(403, ErrorBy::Gateway), None);
    }

    #[test]
    fn what_is_no_error() {
        for text in ["200", "399", "600", "3xx", "xxx", "", "4XX", "-404"] {
            assert_eq!(ErrorStatus::parse(text), None, "{text}");
        }
        assert_eq!(ErrorStatus::parse("5xx").unwrap().to_string(), "5xx");
    }

    #[test]
    fn placeholders_of_a_page() {
        let text = "a{color:red} {status} {request_id} {status} {other}";
        let page = PageText::new(Bytes::from(text), Path::new("x.html"));
        let seen = |id: &str| page.text(StatusCode::NOT_FOUND, id);
        assert_eq!(seen("{status}"), "a{color:red} 404 {status} 404 {other}");
        assert_eq!(seen("<a>\\\""), "a{color:red} 404 &#60;a&#62;&#92;&#34; 404 {other}");
    }

    #[test]
    fn pages_that_cannot_be_read_are_left_out() {
        let spec = ErrorPages {
            pages: vec![(ErrorStatus::One(404), ErrorPage::File("/nowhere/404.html".into()))],
            intercept: true,
        };
        let levels = PageLevels { own: LoadedPages::read(&spec), general: None };
        assert!(levels.find(StatusCode::NOT_FOUND, ErrorBy::Gateway).is_none());
        assert!(LoadedPages::read(&ErrorPages::default()).is_none());
        assert_eq!(media_type(Path::new("a/B.HTML")), "text/html; charset=utf-8");
        assert_eq!(media_type(Path::new("a.json")), "application/json");
    }
}
