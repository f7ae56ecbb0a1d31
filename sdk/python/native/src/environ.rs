//! The environ of a WSGI application (PEP 3333).

use std::collections::HashMap;

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::head::{Head, host_and_port, latin1, unquoted};

/// Header names whose key is remembered.
const MAX_NAMES: usize = 1_024;

/// Makes environs for an application that is mounted at one place.
pub(crate) struct Environs {
    base: Py<PyDict>,
    mount: Vec<u8>,
    bytes_io: Py<PyAny>,
    names: Mutex<HashMap<Vec<u8>, Py<PyString>>>,
}

impl Environs {
    /// `base` is what every environ has.
    pub(crate) fn new(base: Bound<'_, PyDict>, mount: &str) -> PyResult<Self> {
        let py = base.py();
        let known = [("content-type", "CONTENT_TYPE"), ("content-length", "CONTENT_LENGTH")];
        let names = known.map(|(name, key)| (name.as_bytes().to_vec(), PyString::new(py, key).unbind()));
        Ok(Self {
            base: base.unbind(),
            mount: mount.as_bytes().to_vec(),
            bytes_io: py.import("_io")?.getattr("BytesIO")?.unbind(),
            names: Mutex::new(names.into()),
        })
    }

    /// `None` if the path is not below the mount.
    pub(crate) fn make<'py>(
        &self,
        head: &Head<'_>,
        request: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = request.py();
        let (path, query) = head.path_and_query();
        let path = unquoted(path);
        let Some(path) = self.below(&path) else { return Ok(None) };
        let environ = self.base.bind(py).copy()?;
        environ.set_item(intern!(py, "PATH_INFO"), latin1(py, path))?;
        environ.set_item(intern!(py, "REQUEST_METHOD"), latin1(py, head.method))?;
        environ.set_item(intern!(py, "QUERY_STRING"), latin1(py, query))?;
        let target = latin1(py, head.target);
        environ.set_item(intern!(py, "REQUEST_URI"), &target)?;
        environ.set_item(intern!(py, "RAW_URI"), target)?;
        environ.set_item(intern!(py, "SERVER_PROTOCOL"), latin1(py, head.protocol))?;
        environ.set_item(intern!(py, "wsgi.url_scheme"), latin1(py, head.scheme))?;
        let body = PyBytes::new(py, head.body);
        environ.set_item(intern!(py, "wsgi.input"), self.bytes_io.call1(py, (body,))?)?;
        environ.set_item(intern!(py, "pilotlight.request"), request)?;
        addresses(head, &environ)?;
        self.fields(head, &environ)?;
        Ok(Some(environ))
    }

    fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        if !path.starts_with(b"/") {
            return Some(b""); // OPTIONS *
        }
        let rest = path.strip_prefix(&self.mount[..])?;
        (rest.is_empty() || rest.starts_with(b"/") || self.mount.is_empty()).then_some(rest)
    }

    /// CONTENT_TYPE, CONTENT_LENGTH, HTTP_*; repeated ones are joined (RFC 9110 §5.2), cookies by a semicolon.
    fn fields(&self, head: &Head<'_>, environ: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = environ.py();
        for (name, value) in head.fields() {
            let Some(key) = self.key(py, name) else { continue };
            let value = latin1(py, value);
            match environ.get_item(&key)? {
                Some(before) if name != b"host" => {
                    let between = if name == b"cookie" { "; " } else { "," };
                    let joined = format!("{}{between}{}", before.cast::<PyString>()?.to_cow()?, value.to_cow()?);
                    environ.set_item(key, joined)?;
                }
                _ => environ.set_item(key, value)?,
            }
        }
        let length = intern!(py, "CONTENT_LENGTH");
        if !head.body.is_empty() && !environ.contains(length)? {
            environ.set_item(length, head.body.len().to_string())?;
        }
        Ok(())
    }

    /// The key of a header; `None` for a name with an underscore: x_user would pass for x-user.
    fn key<'py>(&self, py: Python<'py>, name: &[u8]) -> Option<Bound<'py, PyString>> {
        let mut names = self.names.lock();
        if let Some(key) = names.get(name) {
            return Some(key.bind(py).clone());
        }
        if name.contains(&b'_') {
            return None;
        }
        let upper = name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
        let key = latin1(py, &b"HTTP_".iter().copied().chain(upper).collect::<Vec<u8>>());
        if names.len() < MAX_NAMES {
            names.insert(name.to_vec(), key.clone().unbind());
        }
        Some(key)
    }
}

fn addresses(head: &Head<'_>, environ: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = environ.py();
    if !head.authority.is_empty() {
        environ.set_item(intern!(py, "HTTP_HOST"), latin1(py, head.authority))?;
    }
    let (name, port) = host_and_port(head.authority);
    let name = if name.is_empty() { b"localhost" } else { name };
    let by_scheme: &[u8] = if head.scheme == b"https" { b"443" } else { b"80" };
    environ.set_item(intern!(py, "SERVER_NAME"), latin1(py, name))?;
    environ.set_item(intern!(py, "SERVER_PORT"), latin1(py, if port.is_empty() { by_scheme } else { port }))?;
    if !head.peer.is_empty() {
        let (name, port) = host_and_port(head.peer);
        environ.set_item(intern!(py, "REMOTE_ADDR"), latin1(py, name))?;
        environ.set_item(intern!(py, "REMOTE_PORT"), latin1(py, port))?;
    }
    Ok(())
}
