//! Frames that a connection has brought, and the answers of handlers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, whole_frame};
use pilotlight_pipe::hello::MAX_HELLO;
use pyo3::exceptions::{PyConnectionError, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{Job, Link, Shared, now_s};
use crate::head::Head;
use crate::wire::violation;
use crate::wsgi::Outcome;

impl Shared {
    pub(super) fn read(&self, py: Python<'_>, link: &Arc<Link>, buffer: &mut [u8]) {
        match link.socket.read(buffer, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {}
            read => self.take(py, link, read.map(|size| &buffer[..size])),
        }
    }

    /// Handles the frames that are whole; closes at the end of the stream and at a violation.
    pub(super) fn take(&self, py: Python<'_>, link: &Arc<Link>, read: Result<&[u8], Errno>) {
        let taken = match read {
            Ok(&[]) => Err(PyConnectionError::new_err("the gateway has closed the connection")),
            Ok(data) => self.frames(py, link, data),
            Err(error) => Err(PyOSError::new_err(std::io::Error::from(error))),
        };
        if let Err(error) = taken {
            let closed = link.python.bind(py).call_method1(intern!(py, "close"), (error.into_value(py),));
            if let Err(error) = closed {
                error.display(py);
            }
        }
    }

    fn frames(&self, py: Python<'_>, link: &Arc<Link>, data: &[u8]) -> PyResult<()> {
        let mut tail = std::mem::take(&mut *link.socket.tail.lock());
        let joined = !tail.is_empty();
        if joined {
            tail.extend_from_slice(data);
        }
        let whole: &[u8] = if joined { &tail } else { data };
        let is_draining = || self.service.bind(py).getattr(intern!(py, "draining"))?.is_truthy();
        let mut draining = is_draining()?;
        let (mut rest, mut jobs) = (whole, Vec::new());
        loop {
            let max_frame = link.socket.max_frame.load(Ordering::Acquire);
            let limit = if max_frame == 0 { MAX_HELLO } else { max_frame };
            let Some((header, payload)) = whole_frame(rest, limit).map_err(|error| violation(py, &error))? else {
                break;
            };
            rest = &rest[HEADER_LEN + payload.len()..];
            let job = if max_frame > 0 && !draining { self.request(py, link, header, payload)? } else { None };
            match job {
                Some(job) => jobs.push(job),
                None => {
                    // In order: what Python adds to the queue comes behind what was before.
                    self.state.lock().queue.extend(jobs.drain(..));
                    let arguments = (header.kind, header.flags, header.exchange, PyBytes::new(py, payload));
                    link.python.bind(py).call_method1(intern!(py, "frame"), arguments)?;
                    draining = is_draining()?;
                }
            }
        }
        let rest = rest.to_vec();
        *link.socket.tail.lock() = rest;
        self.state.lock().queue.extend(jobs);
        Ok(())
    }

    /// The job that an ordinary request is; `None` for everything else, which is Python's to judge.
    fn request(&self, py: Python<'_>, link: &Arc<Link>, header: FrameHeader, payload: &[u8]) -> PyResult<Option<Job>> {
        let exchange = header.exchange;
        let open = link.open.bind(py);
        if header.kind != FrameType::REQUEST || !header.is_end() || exchange == 0 || open.len() >= link.exchanges {
            return Ok(None);
        }
        let Some(head) = Head::parse(payload) else { return Ok(None) };
        if open.contains(exchange)? {
            return Ok(None);
        }
        let payload = PyBytes::new(py, payload);
        let due = match head.deadline_ms {
            0 => 0.0,
            after => now_s() + f64::from(after) / 1000.0,
        };
        let request = self.request_type.bind(py).call0()?;
        request.setattr(intern!(py, "_link"), &link.python)?;
        request.setattr(intern!(py, "_source"), &link.python)?;
        request.setattr(intern!(py, "_exchange"), exchange)?;
        request.setattr(intern!(py, "_payload"), &payload)?;
        request.setattr(intern!(py, "_due"), due)?;
        open.set_item(exchange, &request)?;
        self.busy.bind(py).append(py.None())?;
        let payload = self.wsgi.as_ref().map(|_| payload.unbind());
        Ok(Some(Job { link: link.clone(), request: request.unbind(), exchange, payload }))
    }

    pub(super) fn answer(&self, py: Python<'_>, job: &Job) {
        if let Err(error) = self.try_answer(py, job) {
            error.display(py); // a bug of ours: what handlers raise does not come here
        }
    }

    fn try_answer(&self, py: Python<'_>, job: &Job) -> PyResult<()> {
        let request = job.request.bind(py);
        let link = job.link.python.bind(py);
        if let (Some(wsgi), Some(payload)) = (&self.wsgi, &job.payload)
            && !request.getattr(intern!(py, "_reset"))?.is_truthy()?
        {
            let result = wsgi.get().answer(py, request, payload.as_bytes(py), job.exchange, &job.link.socket);
            if let Err(error) = &result {
                link.call_method1(intern!(py, "give_up"), (request, error.value(py)))?;
            }
            let busy = self.busy.bind(py);
            busy.del_item(busy.len().saturating_sub(1))?;
            if let Ok(Outcome::Answered) = result {
                return Ok(());
            }
        } else {
            link.call_method1(intern!(py, "answer"), (request,))?;
        }
        link.call_method1(intern!(py, "answered"), (request,))?;
        Ok(())
    }
}
