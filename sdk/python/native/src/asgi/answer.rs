//! The fields of an answer as an ASGI application gives them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::head::Block;

/// As `block`, in bytes.
#[pyfunction]
pub(crate) fn fields<'py>(
    py: Python<'py>,
    headers: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyBytes>, Option<usize>)>> {
    let found = block(headers)?;
    Ok(found.map(|(block, length)| (PyBytes::new(py, block.as_bytes()), length)))
}

/// The encoded fields, and what content-length says. `None` where a `connection` field may name others, and where a
/// field is something else than two bytes: Python takes those apart.
pub(super) fn block(headers: &Bound<'_, PyAny>) -> PyResult<Option<(Block, Option<usize>)>> {
    let (mut block, mut length) = (Block::default(), None);
    for field in headers.try_iter()? {
        let Ok((name, value)) = field?.extract::<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>() else {
            return Ok(None);
        };
        let (name, value) = (name.as_bytes(), value.as_bytes());
        if name.eq_ignore_ascii_case(b"connection") {
            return Ok(None);
        }
        if length.is_none() && name.eq_ignore_ascii_case(b"content-length") {
            let said = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
            length = Some(said.ok_or_else(|| PyValueError::new_err("content-length is no number"))?);
        }
        block.push(name, value)?;
    }
    Ok(block.fits(&[]).then_some((block, length)))
}
