//! Payloads of WebSocket clients (RFC 6455 §5.3).

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The payload without its mask.
#[pyfunction]
pub(crate) fn unmasked<'py>(py: Python<'py>, mask: &[u8], data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, data.len(), |out| {
        for ((to, from), key) in out.iter_mut().zip(data).zip(mask.iter().cycle()) {
            *to = from ^ key;
        }
        Ok(())
    })
}
