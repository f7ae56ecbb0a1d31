//! A client of the Docker Engine API, which Podman serves as well, over the engine's Unix socket.
//!
//! It creates, starts, stops, pauses and removes containers, and follows what they print and what becomes of them.
//! What it refuses to know: why somebody wants that, and what runs in a container.
//!
//! A connection for each call, so that a call that takes long (a pull, a stop) keeps no other waiting. Every call has a
//! limit of time ([`limits`]), every error names the socket and the call, says what the engine said, and what to do.
#![forbid(unsafe_code)]

mod call;
mod engine;
mod error;
mod events;
pub mod limits;
mod logs;
mod model;
mod socket;

pub use engine::{Engine, Kind, Since};
pub use error::EngineError;
pub use events::{Event, Events};
pub use logs::{Demultiplexer, Logs, Stream};
pub use model::{
    Container, ContainerState, Create, Empty, Endpoint, EndpointsConfig, Health, HostConfig, ImageDetails, Listed,
    Port, PortBinding, PullProgress, Ulimit,
};
pub use socket::find;
