//! The scope of an ASGI application, as `pilotlight._scope.request` makes it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::head::{Head, host_and_port, latin1, unquoted};

/// The scope of an HTTP request, and the first part of its body; `None` if its head is malformed: Python says how.
#[pyfunction]
pub(crate) fn request<'py>(
    payload: &Bound<'py, PyBytes>,
    root_path: Bound<'py, PyString>,
    state: &Bound<'py, PyDict>,
    asgi: &Bound<'py, PyDict>,
) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyBytes>)>> {
    let py = payload.py();
    let Some(head) = Head::parse(payload.as_bytes()) else { return Ok(None) };
    let scope = of(py, &head, root_path, state, asgi)?;
    Ok(Some((scope, PyBytes::new(py, head.body))))
}

/// The scope of a request with this head.
pub(crate) fn of<'py>(
    py: Python<'py>,
    head: &Head<'_>,
    root_path: Bound<'py, PyString>,
    state: &Bound<'py, PyDict>,
    asgi: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let (path, query) = head.path_and_query();
    let scope = PyDict::new(py);
    scope.set_item(intern!(py, "type"), intern!(py, "http"))?;
    scope.set_item(intern!(py, "asgi"), asgi)?;
    let version = head.protocol.split(|byte| *byte == b'/').nth(1).unwrap_or(b"1.1");
    scope.set_item(intern!(py, "http_version"), latin1(py, version))?;
    scope.set_item(intern!(py, "method"), latin1(py, head.method))?;
    scope.set_item(intern!(py, "scheme"), latin1(py, head.scheme))?;
    scope.set_item(intern!(py, "path"), String::from_utf8_lossy(&unquoted(path)))?;
    scope.set_item(intern!(py, "raw_path"), PyBytes::new(py, path))?;
    scope.set_item(intern!(py, "query_string"), PyBytes::new(py, query))?;
    scope.set_item(intern!(py, "root_path"), root_path)?;
    scope.set_item(intern!(py, "headers"), headers(py, head)?)?;
    scope.set_item(intern!(py, "client"), address(py, head.peer, Some(0))?)?;
    let port = if head.scheme == b"https" { 443 } else { 80 };
    scope.set_item(intern!(py, "server"), address(py, head.authority, Some(port))?)?;
    scope.set_item(intern!(py, "state"), state.copy()?)?;
    scope.set_item(intern!(py, "extensions"), extensions(py, head)?)?;
    Ok(scope)
}

fn headers<'py>(py: Python<'py>, head: &Head<'_>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    if !head.authority.is_empty() {
        list.append((PyBytes::new(py, b"host"), PyBytes::new(py, head.authority)))?;
    }
    for (name, value) in head.fields() {
        list.append((PyBytes::new(py, name), PyBytes::new(py, value)))?;
    }
    Ok(list)
}

fn address<'py>(py: Python<'py>, text: &[u8], port: Option<u16>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    if text.is_empty() {
        return Ok(None);
    }
    let (host, number) = host_and_port(text);
    let named = std::str::from_utf8(number).ok().and_then(|digits| digits.parse::<u32>().ok());
    (latin1(py, host), named.or(port.map(u32::from))).into_pyobject(py).map(Some)
}

fn extensions<'py>(py: Python<'py>, head: &Head<'_>) -> PyResult<Bound<'py, PyDict>> {
    let own = PyDict::new(py);
    own.set_item(intern!(py, "id"), latin1(py, head.id))?;
    let due = (head.deadline_ms > 0).then(|| crate::core::now_s() + f64::from(head.deadline_ms) / 1000.0);
    own.set_item(intern!(py, "deadline"), due)?;
    let extensions = PyDict::new(py);
    extensions.set_item(intern!(py, "http.response.trailers"), PyDict::new(py))?;
    extensions.set_item(intern!(py, "http.response.early_hint"), PyDict::new(py))?;
    extensions.set_item(intern!(py, "pilotlight"), own)?;
    Ok(extensions)
}
