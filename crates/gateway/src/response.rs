//! The head of a response on its way to the client.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use pilotlight_http1::{FieldLines, MessageWriter};

use crate::head;

/// A response without its body. Fields that belong to a connection are not among its fields.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) fields: ResponseFields,
    /// The client's connection ends behind it.
    pub(crate) closes: bool,
}

/// The fields of a response: as lines where they are passed on as they came, else as a map.
#[derive(Debug, Default)]
pub(crate) struct ResponseFields {
    /// While there are lines there is no map.
    lines: Option<FieldLines>,
    /// Beside the lines, which do not have it.
    content_length: Option<u64>,
    map: Option<Box<HeaderMap>>,
}

impl ResponseHead {
    pub(crate) fn new(status: StatusCode, fields: impl Into<ResponseFields>) -> Self {
        Self { status, fields: fields.into(), closes: false }
    }

    /// Takes a response apart that the gateway, or the cache, has made.
    pub(crate) fn part<B>(response: Response<B>) -> (Self, B) {
        let (parts, body) = response.into_parts();
        (Self::new(parts.status, parts.headers), body)
    }
}

impl From<HeaderMap> for ResponseFields {
    fn from(map: HeaderMap) -> Self {
        Self { map: Some(Box::new(map)), ..Self::default() }
    }
}

impl ResponseFields {
    /// Lines as they are sent, without `Content-Length`.
    pub(crate) fn lines(lines: FieldLines, content_length: Option<u64>) -> Self {
        Self { lines: Some(lines), content_length, map: None }
    }

    /// Calls `field` with each value of a field; not for `Content-Length`.
    pub(crate) fn all<'f>(&'f self, name: &HeaderName, field: impl FnMut(&'f [u8])) {
        match (&self.lines, &self.map) {
            (Some(lines), _) => lines.all(name.as_str()).for_each(field),
            (None, Some(map)) => map.get_all(name).iter().map(HeaderValue::as_bytes).for_each(field),
            (None, None) => {}
        }
    }

    /// The first value of a field; not for `Content-Length`.
    pub(crate) fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        match &self.lines {
            Some(lines) => lines.get(name.as_str()),
            None => self.map.as_ref()?.get(name).map(HeaderValue::as_bytes),
        }
    }

    /// What `Content-Length` says.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match &self.lines {
            Some(_) => self.content_length,
            None => self.map.as_ref()?.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok(),
        }
    }

    /// Puts a field behind those that are there.
    pub(crate) fn append(&mut self, name: HeaderName, value: HeaderValue) {
        match &mut self.lines {
            Some(lines) => lines.push(name.as_str().as_bytes(), value.as_bytes()),
            None => {
                self.map().append(name, value);
            }
        }
    }

    /// Sets a field in place of all others with its name.
    pub(crate) fn set(&mut self, name: HeaderName, value: &[u8]) {
        if let Some(lines) = &mut self.lines {
            lines.remove(name.as_str());
            lines.push(name.as_str().as_bytes(), value);
        } else if let Ok(value) = HeaderValue::from_bytes(value) {
            self.map().insert(name, value);
        }
    }

    /// Takes fields away by their names; `Content-Length` stays.
    pub(crate) fn remove_if(&mut self, leaves: impl Fn(&[u8]) -> bool) {
        if let Some(lines) = &mut self.lines {
            let leaving: Vec<String> = lines
                .iter()
                .filter(|(name, _)| leaves(name))
                .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
                .collect();
            leaving.iter().for_each(|name| lines.remove(name));
        } else if let Some(map) = &mut self.map {
            let leaving: Vec<HeaderName> = map
                .keys()
                .filter(|name| **name != CONTENT_LENGTH && leaves(name.as_str().as_bytes()))
                .cloned()
                .collect();
            for name in leaving {
                map.remove(name);
            }
        }
    }

    /// Calls `field` with each field but `Content-Length`.
    pub(crate) fn each(&self, mut field: impl FnMut(&[u8], &[u8])) {
        if let Some(lines) = &self.lines {
            lines.iter().for_each(|(name, value)| field(name, value));
        }
        for (name, value) in self.map.iter().flat_map(|map| map.iter()).filter(|(name, _)| **name != CONTENT_LENGTH) {
            field(name.as_str().as_bytes(), value.as_bytes());
        }
    }

    /// Writes all of them, but for those that frame the body.
    pub(crate) fn write(&self, writer: &mut MessageWriter<'_>) {
        if let Some(lines) = &self.lines {
            writer.lines(lines.as_bytes());
        }
        for (name, value) in self.map.iter().flat_map(|map| map.iter()).filter(|(name, _)| !frames(name)) {
            writer.field(name.as_str().as_bytes(), value.as_bytes());
        }
    }

    /// All of them as a map, which they are from now on.
    pub(crate) fn map(&mut self) -> &mut HeaderMap {
        let (lines, length) = (self.lines.take(), self.content_length);
        self.map.get_or_insert_with(|| {
            let mut map = Box::<HeaderMap>::default();
            if let Some(lines) = lines {
                map.reserve(lines.count() + 1);
                lines.iter().for_each(|(name, value)| head::append(name, value, &mut map));
                map.extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
            }
            map
        })
    }
}

fn frames(name: &HeaderName) -> bool {
    [CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING].contains(name)
}
