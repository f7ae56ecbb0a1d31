//! An answer of a shared connection that is sent in pieces: it moves to an answer connection (P-24).

use super::answer_connection::AnswerConnection;
use super::exchanges::SharedExchanges;
use crate::reset::{Reset, ResetCode};
use crate::service::answer::Answer;
use crate::service::error::ServeError;
use crate::service::exchange::Exchange;
use crate::service::outcome::Failure;
use crate::service::settings::Service;
use crate::service::wire::{Reading, Turn};
use crate::session::Part;
use std::future::poll_fn;

/// Sends an answer on an answer connection. Every way out has sent the final frame, or closed the connection.
pub(super) async fn send_answer(
    settings: &Service,
    exchanges: &SharedExchanges,
    exchange: &Exchange,
    mut answer: Answer,
) {
    let mut connection = match connection(settings, exchanges).await {
        Ok(connection) => connection,
        Err(error) => {
            // Nothing was sent yet, so the final frame may go where the request came from (P-16).
            let text = format!("no answer connection: {error}");
            return exchanges.final_frame(exchange, &Failure::Internal(text).to_reset());
        }
    };
    if exchange.is_cancelled() {
        exchanges.keep(connection);
        return exchanges.final_frame(exchange, &Reset::new(ResetCode::Cancelled, ""));
    }
    exchanges.moved(exchange);
    let result = send(exchanges, exchange, &mut answer, &mut connection).await;
    exchanges.finish(exchange);
    match result {
        Ok(Reuse::Yes) => exchanges.keep(connection),
        Ok(Reuse::No) => exchange.cancel(), // P-34
        Err(error) => {
            exchange.cancel();
            eprintln!("pilotlight-pipe: an answer connection ended: {error}");
            if let ServeError::Protocol(error) = error {
                connection.wire.refuse(&error.to_reset()).await;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    Yes,
    /// The gateway has closed it.
    No,
}

async fn connection(settings: &Service, exchanges: &SharedExchanges) -> Result<AnswerConnection, ServeError> {
    match exchanges.reuse() {
        Some(connection) => Ok(connection),
        None => AnswerConnection::dial(settings, exchanges.worker()).await,
    }
}

async fn send(
    exchanges: &SharedExchanges,
    exchange: &Exchange,
    answer: &mut Answer,
    connection: &mut AnswerConnection,
) -> Result<Reuse, ServeError> {
    let id = exchange.id();
    let mut part = Part::More;
    while part == Part::More || !connection.wire.out.is_empty() {
        let room = connection.wire.room();
        let step = tokio::select! {
            biased;
            () = exchange.cancelled(), if part == Part::More => Step::Cancelled,
            () = poll_fn(|cx| answer.poll_ready(cx)), if part == Part::More && room > 0 => Step::Put,
            turn = connection.wire.turn(Reading::On) => Step::Turn(turn?),
        };
        match step {
            Step::Put => part = answer.put(id, room, &mut connection.wire.out),
            Step::Cancelled => {
                Reset::new(ResetCode::Cancelled, "").encode(&mut connection.wire.out, id); // P-26
                part = Part::Last;
            }
            Step::Turn(Turn::Wrote) => {}
            Step::Turn(Turn::End) => return Ok(Reuse::No),
            Step::Turn(Turn::Read) => connection.take()?,
        }
        if part == Part::Last {
            // Before it is written: the gateway may use the id again as soon as it has read the final frame.
            exchanges.finish(exchange);
        }
    }
    Ok(Reuse::Yes)
}

enum Step {
    Put,
    Cancelled,
    Turn(Turn),
}
