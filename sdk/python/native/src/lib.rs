//! The compiled core of the Python SDK: what is done for each request, in Rust on `pilotlight-pipe`.
//!
//! - [`head`]: heads of requests, fields of answers; bytes to Python's strings and back.
//! - [`environ`], [`scope`]: what WSGI and ASGI make of a request.
//! - [`wire`]: a shared connection: what was read and what is to be sent.
//! - [`core`]: the threads of a WSGI service, and which of them reads.
//! - [`wsgi`]: a call of a WSGI application whose answer fits one frame.
//! - [`asgi`]: an exchange of an ASGI application whose answer fits one frame.
//! - [`masking`]: payloads of WebSocket.
//!
//! Streams, own connections, upgrades, control frames and every violation are the business of the modules in Python,
//! whose objects are the state: the code here is a quicker way through the ordinary case, and leaves the rest to them.

mod asgi;
mod core;
mod environ;
mod head;
mod masking;
mod scope;
mod wire;
mod wsgi;

/// `pilotlight._native`
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::asgi::Port;
    #[pymodule_export]
    use crate::asgi::answer::fields;
    #[pymodule_export]
    use crate::core::Core;
    #[pymodule_export]
    use crate::masking::unmasked;
    #[pymodule_export]
    use crate::scope::request;
    #[pymodule_export]
    use crate::wire::Wire;
    #[pymodule_export]
    use crate::wsgi::Wsgi;
}
