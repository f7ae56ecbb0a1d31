//! Frames of an event loop: those that it has read, and the one that a short answer is.

use pilotlight_pipe::frame::{HEADER_LEN, whole_frame};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::head::Block;

/// The frames that are whole, as (type, flags, exchange, payload), and what is left behind them.
#[pyfunction]
pub(crate) fn frames<'py>(
    py: Python<'py>,
    data: &[u8],
    max_frame: usize,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyBytes>)> {
    let (list, mut rest) = (PyList::empty(py), data);
    while let Some((header, payload)) =
        whole_frame(rest, max_frame).map_err(|error| PyValueError::new_err(error.to_string()))?
    {
        rest = &rest[HEADER_LEN + payload.len()..];
        list.append((header.kind, header.flags, header.exchange, PyBytes::new(py, payload)))?;
    }
    Ok((list, PyBytes::new(py, rest)))
}

/// RESPONSE with END as a frame; `None` if it does not fit one.
#[pyfunction]
pub(crate) fn response<'py>(
    py: Python<'py>,
    exchange: u16,
    status: u16,
    headers: &Bound<'py, PyAny>,
    body: &[u8],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let mut block = Block::default();
    for field in headers.try_iter()? {
        let (name, value) = field?.extract::<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>()?;
        block.push(name.as_bytes(), value.as_bytes())?;
    }
    if !block.fits(&[body]) {
        return Ok(None);
    }
    let mut out = Vec::new();
    block.answer(&mut out, exchange, status, &[body]);
    Ok(Some(PyBytes::new(py, &out)))
}
