//! An answer connection: it carries one answer at a time, in pieces (P-24).

use crate::hello::ConnectionKind;
use crate::service::error::ServeError;
use crate::service::settings::Service;
use crate::service::wire::Wire;
use crate::session::{AnswerService, AnswerServiceEvent, ProtocolError};

/// An answer connection, between answers or at one.
pub(super) struct AnswerConnection {
    pub(super) wire: Wire,
    session: AnswerService,
}

impl AnswerConnection {
    /// Connects; nothing is written yet.
    pub(super) async fn dial(settings: &Service, worker: Option<u32>) -> Result<Self, ServeError> {
        let wire = Wire::dial(settings, ConnectionKind::Answer, worker).await?;
        Ok(Self { wire, session: AnswerService::default() })
    }

    /// Handles what was read. The gateway's RESET for an exchange comes on the shared connection (P-26).
    pub(super) fn take(&mut self) -> Result<(), ServeError> {
        while let Some((header, payload)) = self.wire.frame()? {
            match self.session.receive(&header).map_err(ProtocolError::from)? {
                AnswerServiceEvent::Welcome => drop(self.wire.welcome(&payload)?),
                AnswerServiceEvent::Skipped => {}
                AnswerServiceEvent::ConnectionReset => return Err(ServeError::from_connection_reset(&payload)),
            }
        }
        Ok(())
    }
}
