//! Interim responses of a service to one request (RFC 9110 §15.2), counted: they cost it nothing to send, and the
//! worker that reads them serves others as well.

use http::{HeaderMap, StatusCode};

use super::UpstreamError;
use crate::outbound::Outbound;

/// Interim responses to one request; with one more the exchange has failed. A service that says each ten seconds that
/// it is still at work may take nearly three hours.
const MAX_INTERIMS: u32 = 1_000;
/// How many are read in a row before others have their turn.
const PER_TURN: u32 = 16;

/// Those that came.
#[derive(Debug, Default)]
pub(super) struct Interims(u32);

impl Interims {
    /// One more came. The client gets it, if it takes any.
    ///
    /// # Errors
    /// It is one too many.
    pub(super) fn pass_on(
        &mut self,
        service: &str,
        outbound: &Outbound,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(), UpstreamError> {
        self.0 += 1;
        if self.0 <= MAX_INTERIMS {
            outbound.interim.iter().for_each(|client| client.send_interim(status, headers));
            return Ok(());
        }
        let what = format!("sent more than {MAX_INTERIMS} interim responses (1xx) to one request");
        Err(UpstreamError::Protocol { service: service.to_owned(), what })
    }

    /// Whether others are to have their turn before the next one is read.
    pub(super) fn is_time_to_yield(&self) -> bool {
        self.0.is_multiple_of(PER_TURN)
    }
}
