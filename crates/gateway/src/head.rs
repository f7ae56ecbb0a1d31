//! The head of a request as the gateway goes on with it: what belongs to the client's connection is left out.
//!
//! Most requests are passed on as they came, and only few fields of them are looked at. So the fields are kept in the
//! lines in which they will be sent, and a map is made of them when the cache, or a rule of a route, asks for one.

use std::cell::OnceCell;

use crate::admission::AskerFields;
use crate::conditions::ConditionFields;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Method, Version};
use pilotlight_http1::{self as http1, Field, FieldLines, Known, Malformed, RequestHead, Target};

/// A request without its body.
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Path and query, from `/` on; `*` for what is for the gateway.
    target: Box<str>,
    /// That of the target if it has one, else `Host`; empty if an HTTP/1.0 request has none.
    authority: Box<str>,
    pub(crate) scope: Scope,
    /// The target as it was written, if it was no path.
    written: Option<Box<str>>,
    /// `None`: the map has them.
    lines: Option<Lines>,
    map: OnceCell<Box<HeaderMap>>,
}

impl AskerFields for Head {
    fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        self.field(name)
    }

    fn count(&self, name: &HeaderName) -> usize {
        let mut count = 0;
        self.all(name, &mut |_| count += 1);
        count
    }

    fn is_preflight(&self) -> bool {
        self.method == Method::OPTIONS && self.has(&ORIGIN) && self.has(&ACCESS_CONTROL_REQUEST_METHOD)
    }
}

/// What a request is for, by the form of its target (RFC 9112 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A resource of a service.
    Resource,
    /// The service as a whole: OPTIONS with an absolute target that has no path (§3.2.4).
    WholeService,
    /// The gateway itself: `OPTIONS *`.
    Gateway,
    /// A tunnel (CONNECT).
    Tunnel,
    /// A resource of another scheme than HTTP's.
    OtherScheme,
}

/// What HTTP/1.1 has in the first line of a request.
pub(crate) struct Line {
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Path and query, from `/` on; `*` for what is for the gateway.
    pub(crate) target: Box<str>,
    pub(crate) authority: String,
    pub(crate) scope: Scope,
    /// The target as it was written, if it was no path.
    pub(crate) written: Option<Box<str>>,
}

/// The fields of a request: first those that cross, then those that a service gets from the gateway itself.
struct Lines {
    all: FieldLines,
    /// Bytes of those that cross.
    crossing: usize,
}

impl Head {
    /// From the bytes of a client. What belongs to the connection, or is named by `Connection`, is left out
    /// (RFC 9110 §7.6.1).
    ///
    /// # Errors
    /// A method that is no token.
    pub(crate) fn received(head: &RequestHead<'_>) -> Result<Self, Malformed> {
        // The names of a protocol to switch to are looked at more closely than lines are good for.
        if head.upgrade.is_some() {
            let mut headers = HeaderMap::with_capacity(head.fields.len());
            put_fields(head, &mut headers);
            return Self::with_map(head, headers);
        }
        Self::new(head, Some(Lines::of(head)), OnceCell::new())
    }

    /// The same with the fields that [`put_fields`] has put into a map.
    ///
    /// # Errors
    /// As those of [`Head::received`].
    pub(crate) fn with_map(head: &RequestHead<'_>, headers: HeaderMap) -> Result<Self, Malformed> {
        let mut headers = headers;
        put_upgrade(head, &mut headers);
        Self::new(head, None, OnceCell::from(Box::new(headers)))
    }

    /// A GET for a path, by HTTP/1.1.
    pub(crate) fn get(target: Box<str>, authority: Box<str>, headers: HeaderMap) -> Self {
        Self {
            method: Method::GET,
            version: Version::HTTP_11,
            target,
            authority,
            scope: Scope::Resource,
            written: None,
            lines: None,
            map: OnceCell::from(Box::new(headers)),
        }
    }

    /// As another protocol than HTTP/1.1 has it: what belongs to a connection is not among `headers`, `Host` is.
    pub(crate) fn of_map(line: Line, headers: HeaderMap) -> Self {
        let Line { method, version, target, authority, scope, written } = line;
        let map = OnceCell::from(Box::new(headers));
        Self { method, version, target, authority: authority.into(), scope, written, lines: None, map }
    }

    fn new(head: &RequestHead<'_>, lines: Option<Lines>, map: OnceCell<Box<HeaderMap>>) -> Result<Self, Malformed> {
        let is_options = head.method == "OPTIONS";
        let (target, scope) = match head.target {
            Target::Origin(target) => (Box::from(target), Scope::Resource),
            Target::Asterisk => (Box::from("*"), Scope::Gateway),
            Target::Authority(_) => (Box::from("/"), Scope::Tunnel),
            Target::Absolute { scheme, rest, .. } => {
                let target = if rest.starts_with('/') { Box::from(rest) } else { format!("/{rest}").into() };
                let is_http = ["http", "https"].iter().any(|one| scheme.eq_ignore_ascii_case(one));
                match is_http {
                    false => (target, Scope::OtherScheme),
                    true if rest.is_empty() && is_options => (target, Scope::WholeService),
                    true => (target, Scope::Resource),
                }
            }
        };
        let is_path = matches!(head.target, Target::Origin(_));
        Ok(Self {
            method: Method::from_bytes(head.method.as_bytes()).map_err(|_| Malformed::Method)?,
            version: if head.version == http1::Version::Http10 { Version::HTTP_10 } else { Version::HTTP_11 },
            target,
            authority: head.authority.into(),
            scope,
            written: (!is_path).then(|| head.target_text.into()),
            lines,
            map,
        })
    }

    /// Path and query.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn path(&self) -> &str {
        &self.target[..memchr::memchr(b'?', self.target.as_bytes()).unwrap_or(self.target.len())]
    }

    /// The query, without its question mark.
    pub(crate) fn query(&self) -> Option<&str> {
        self.target.get(self.path().len() + 1..)
    }

    /// The target as the client wrote it.
    pub(crate) fn written_target(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.target)
    }

    /// The host that the request is for, with its port.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The first value of a field.
    pub(crate) fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        match &self.lines {
            Some(lines) => lines.all.get(name.as_str()),
            None => self.headers().get(name).map(HeaderValue::as_bytes),
        }
    }

    /// Calls `value` with each value of a field.
    pub(crate) fn all(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8])) {
        match &self.lines {
            Some(lines) => lines.all.all(name.as_str()).for_each(value),
            None => self.headers().get_all(name).iter().map(HeaderValue::as_bytes).for_each(value),
        }
    }

    /// Whether there is a field with this name.
    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        self.field(name).is_some()
    }

    /// The values of a list field as one, without empty lines: the last of them is the nearest proxy's, and must not be
    /// the one that is lost.
    pub(crate) fn joined(&self, name: &str) -> Option<Vec<u8>> {
        let mut joined: Option<Vec<u8>> = None;
        self.each(&mut |field, value| {
            if field != name.as_bytes() || value.is_empty() {
                return;
            }
            match &mut joined {
                Some(before) => before.extend([b", ", value].concat()),
                None => joined = Some(value.to_vec()),
            }
        });
        joined
    }

    /// Calls `field` with each field.
    pub(crate) fn each(&self, field: &mut dyn FnMut(&[u8], &[u8])) {
        match &self.lines {
            Some(lines) => lines.all.iter().for_each(|(name, value)| field(name, value)),
            None => self.headers().iter().for_each(|(name, value)| field(name.as_str().as_bytes(), value.as_bytes())),
        }
    }

    /// The lines of what a service gets as it came; `None` where the fields have to be looked at one by one.
    pub(crate) fn crossing_lines(&self) -> Option<&[u8]> {
        self.lines.as_ref().map(|lines| &lines.all.as_bytes()[..lines.crossing])
    }

    /// All fields, as a map.
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.map.get_or_init(|| self.lines.as_ref().map(Lines::to_map).unwrap_or_default().into())
    }

    /// Changes the fields, as a map.
    pub(crate) fn change_fields(&mut self, change: impl FnOnce(&mut HeaderMap)) {
        let lines = self.lines.take();
        let made = self.map.take().or_else(|| lines.as_ref().map(|lines| Box::new(lines.to_map())));
        let mut headers = made.unwrap_or_default();
        change(&mut headers);
        self.map = OnceCell::from(headers);
    }

    /// Sets a field in place of all others with its name.
    pub(crate) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.change_fields(|headers| {
            headers.insert(name, value);
        });
    }
}

impl Lines {
    fn of(head: &RequestHead<'_>) -> Self {
        let mut all = FieldLines::with_capacity(head.length);
        if let Some(length) = head.content_length {
            all.push(b"content-length", itoa::Buffer::new().format(length).as_bytes());
        }
        let is_framing = |field: &Field<'_>| field.known == Known::ContentLength;
        head.fields.copy_to(&mut all, |field| !is_framing(field) && crosses(field.name));
        let crossing = all.as_bytes().len();
        head.fields.copy_to(&mut all, |field| !is_framing(field) && !crosses(field.name));
        Self { all, crossing }
    }

    fn to_map(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.all.count());
        for (name, value) in self.all.iter() {
            append(name, value, &mut headers);
        }
        headers
    }
}

impl ConditionFields for Head {
    fn each_line(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8])) {
        self.all(name, value);
    }
}

/// The protocol of a request, as logs and services are told.
pub(crate) fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// Whether a service gets the field as the client sent it: neither an expectation, which the gateway answers, nor what
/// the gateway writes itself. Programs that get fields as variables (CGI, WSGI) cannot tell `X_Forwarded_For` from
/// `X-Forwarded-For`, so a client cannot have that either. In any case of letters.
pub(crate) fn crosses(name: &[u8]) -> bool {
    // Length and first letter are enough for almost every other name.
    let own: &[u8] = match (name.len(), name.first().map_or(0, |first| first | 0x20)) {
        (3, b'v') => b"via",
        (4, b'h') => b"host",
        (6, b'e') => b"expect",
        (9, b'f') => b"forwarded",
        (11, b'c') => b"client-cert",
        (12, b'x') => b"x-request-id",
        (15, b'x') => b"x-forwarded-for",
        (16, b'x') => b"x-forwarded-host",
        (17, b'c') => b"client-cert-chain",
        (17, b'x') => b"x-forwarded-proto",
        (18, b'x') => b"x-forwarded-prefix",
        _ => return true,
    };
    let same = |one: u8, other: u8| one.eq_ignore_ascii_case(&other) || (one == b'_' && other == b'-');
    !name.iter().zip(own).all(|(one, other)| same(*one, *other))
}

/// Puts into `headers` what a proxy may look at and pass on: what belongs to the connection, or is named by
/// `Connection`, is left out.
pub(crate) fn put_fields(head: &RequestHead<'_>, headers: &mut HeaderMap) {
    headers.clear();
    // However often and in which spelling it was said, a service hears it once.
    if let Some(length) = head.content_length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let fields = head.fields.end_to_end().filter(|field| field.known != Known::ContentLength);
    fields.for_each(|field| append(field.name, field.value, headers));
}

/// Puts a field behind those that are there. The parser has checked both, so each is one.
pub(crate) fn append(name: &[u8], value: &[u8], headers: &mut HeaderMap) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        headers.append(name, value);
    }
}

/// The protocols to switch to, which only `Upgrades` looks at.
fn put_upgrade(head: &RequestHead<'_>, headers: &mut HeaderMap) {
    if head.upgrade.is_some() {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        for field in head.fields.iter().filter(|field| field.known == Known::Upgrade) {
            append(b"upgrade", field.value, headers);
        }
    }
}

#[cfg(test)]
mod tests {
    use pilotlight_http1::{FieldTable, Limits, parse_request};

    use super::*;

    fn head(method: &str, target: &str, lines: &[&str]) -> Head {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let text = format!("{method} {target} HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
        let mut table = FieldTable::new();
        Head::received(&parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn forms_of_targets() {
        let seen = |method: &str, target: &str| {
            let head = head(method, target, &[]);
            (head.target().to_owned(), head.scope)
        };
        let resource = |target: &str| (target.to_owned(), Scope::Resource);
        assert_eq!(seen("GET", "http://a?x=1"), resource("/?x=1"));
        assert_eq!(seen("GET", "http://a"), resource("/"));
        assert_eq!(seen("OPTIONS", "http://a"), ("/".to_owned(), Scope::WholeService));
        assert_eq!(seen("OPTIONS", "http://a/"), resource("/"));
        assert_eq!(seen("OPTIONS", "/"), resource("/"));
        assert_eq!(seen("OPTIONS", "http://a?x"), resource("/?x"));
        assert_eq!(seen("OPTIONS", "*"), ("*".to_owned(), Scope::Gateway));
        assert_eq!(seen("GET", "/p?x"), resource("/p?x"));
        assert_eq!(seen("GET", "ftp://a/p"), ("/p".to_owned(), Scope::OtherScheme));
        assert_eq!(seen("CONNECT", "a:80").1, Scope::Tunnel);
        let head = head("GET", "http://b:1/p/q?x?y", &[]);
        assert_eq!((head.authority(), head.path(), head.query()), ("b:1", "/p/q", Some("x?y")));
        assert_eq!(head.written_target(), "http://b:1/p/q?x?y");
    }

    #[test]
    fn what_a_client_names_is_gone_before_it_is_read() {
        let head = head(
            "GET",
            "/",
            &[
                "connection: keep-alive, Accept-Language, Upgrade, x-forwarded-for",
                "connection: Authorization, connection, content-length, x-secret",
                "accept-language: de",
                "upgrade: websocket",
                "x-forwarded-for: 1.2.3.4",
                "authorization: x",
                "content-length: 1",
                "te: trailers",
                "keep-alive: 5",
                "origin: http://a",
                "x-secret: 1",
            ],
        );
        let mut names: Vec<_> = head.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let stay = ["authorization", "connection", "content-length", "host", "origin", "upgrade", "x-forwarded-for"];
        assert_eq!(names, stay);
    }

    #[test]
    fn lines_and_map_have_the_same_fields() {
        let lines =
            ["Content-Length: 3", "X_Forwarded_For: 6.6.6.6", "Accept: a", "Via: 1.0 x", "accept: b", "Keep-Alive: 1"];
        let mut head = head("PUT", "/", &lines);
        assert_eq!(head.crossing_lines(), Some(&b"content-length: 3\r\naccept: a\r\naccept: b\r\n"[..]));
        assert_eq!(head.field(&CONTENT_LENGTH), Some(&b"3"[..]));
        let (mut seen, mut mapped) = (Vec::new(), Vec::new());
        head.each(&mut |name, value| seen.push((name.to_vec(), value.to_vec())));
        for (name, value) in head.headers() {
            mapped.push((name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        seen.sort();
        mapped.sort();
        assert_eq!(seen, mapped);
        assert_eq!(head.joined("accept").as_deref(), Some(&b"a, b"[..]));
        head.set(CONTENT_LENGTH, HeaderValue::from_static("4"));
        assert_eq!((head.crossing_lines(), head.field(&CONTENT_LENGTH)), (None, Some(&b"4"[..])));
        assert_eq!(head.headers().len(), 6);
    }
}
