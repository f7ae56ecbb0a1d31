//! Requests from a gateway, over the pipe.

use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response};
use pilotlight_pipe::{BodyError, Failure, Incoming};

use crate::api::{Api, MAX_BODY_BYTES, RETRY_AFTER, Refusal};
use crate::problem::Problem;

/// Serves until the gateway wants it to end.
pub(crate) fn serve(api: &Rc<Api>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handler = {
        let api = Rc::clone(api);
        move |request| answer(Rc::clone(&api), request)
    };
    let serving = async {
        api.start();
        pilotlight_pipe::serve(handler).await
    };
    Ok(tokio::task::LocalSet::new().block_on(&runtime, serving)?)
}

async fn answer(api: Rc<Api>, request: Request<Incoming>) -> Result<Response<Bytes>, Failure> {
    let (head, body) = request.into_parts();
    let body = match body.bytes(MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(BodyError::TooLarge { limit }) => return Ok(Problem::too_large(limit).into_response()),
        Err(error) => return Err(error.into()),
    };
    match api.answer(&head, body).await {
        Ok(response) => Ok(response),
        Err(Refusal::Problem(problem)) => Ok(problem.into_response()),
        // Nothing was begun, so the gateway may try another instance.
        Err(Refusal::Overloaded(text)) => Err(Failure::Overloaded { retry_after: RETRY_AFTER, text }),
    }
}
