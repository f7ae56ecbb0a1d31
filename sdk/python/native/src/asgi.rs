//! Requests on the shared connections of an ASGI application, while nothing is unusual about them: they come whole, and
//! their answers go out whole.
//!
//! - [`port`]: a shared connection: its frames, its exchanges, and the answers that leave together.
//! - [`exchange`]: a request, and `receive` and `send` of its application.
//! - [`run`]: the application as its task steps it.
//! - [`answer`]: the fields of an answer.
//!
//! Streams, hints, clients that leave and applications that fail are done by `pilotlight._exchange`: an exchange is
//! handed over to it at the first thing that is not done here, and stays there.

pub(crate) mod answer;
mod exchange;
mod port;
mod ready;
mod run;

pub(crate) use port::Port;
