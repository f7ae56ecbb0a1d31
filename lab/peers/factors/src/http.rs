//! Requests: hyper alone, or axum on the same hyper.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response as AxumResponse};
use axum::routing::get;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

use crate::encoding::Encode;
use crate::users::Users;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What turns requests into calls of [`Users`].
pub trait Http: Send + Sync + 'static {
    /// What each connection gets a copy of.
    type Handler<E: Encode>: Clone + Send + Sync + 'static;

    /// For some users.
    fn handler<E: Encode>(users: Arc<Users<E>>) -> Self::Handler<E>;

    /// One connection, until its client closes it.
    fn connection<E: Encode>(handler: Self::Handler<E>, socket: TcpStream) -> impl Future<Output = ()> + Send;
}

/// hyper, with a path that is taken apart by hand.
#[derive(Clone, Copy, Debug)]
pub struct Hyper;

impl Http for Hyper {
    type Handler<E: Encode> = Arc<Users<E>>;

    fn handler<E: Encode>(users: Arc<Users<E>>) -> Self::Handler<E> {
        users
    }

    async fn connection<E: Encode>(users: Self::Handler<E>, socket: TcpStream) {
        let handler = service_fn(move |request: Request<Incoming>| {
            let users = Arc::clone(&users);
            async move { Ok::<_, Infallible>(answer(&users, &request).await) }
        });
        drive(handler, socket).await;
    }
}

async fn answer<E: Encode>(users: &Users<E>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let id = request.uri().path().strip_prefix("/users/").and_then(|text| text.parse().ok());
    let user = match id {
        Some(id) => users.one(id).await,
        None => Ok(None),
    };
    match user {
        Ok(Some(user)) => {
            let mut response = Response::new(Full::new(user));
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        Ok(None) => with_status(StatusCode::NOT_FOUND),
        Err(error) => {
            eprintln!("factors: {error:#}");
            with_status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn with_status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// axum, with a router, an extractor of the id and one of the state.
#[derive(Clone, Copy, Debug)]
pub struct Axum;

impl Http for Axum {
    type Handler<E: Encode> = Router;

    fn handler<E: Encode>(users: Arc<Users<E>>) -> Router {
        Router::new().route("/users/{id}", get(one::<E>)).with_state(users)
    }

    async fn connection<E: Encode>(router: Router, socket: TcpStream) {
        drive(TowerToHyperService::new(router), socket).await;
    }
}

async fn one<E: Encode>(Path(id): Path<i64>, State(users): State<Arc<Users<E>>>) -> AxumResponse {
    match users.one(id).await {
        Ok(Some(user)) => ([(CONTENT_TYPE, JSON)], user).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            eprintln!("factors: {error:#}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// hyper's connection, with the settings of examples/users.
async fn drive<S>(handler: S, socket: TcpStream)
where
    S: HttpService<Incoming, Error = Infallible>,
    S::ResBody: Body<Error: std::error::Error + Send + Sync> + 'static,
    <S::ResBody as Body>::Data: Send,
{
    // A connection that is not fast is one all the same.
    let _slower = socket.set_nodelay(true);
    // A connection that its client cuts concerns nobody else.
    let _ended = http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(socket), handler).await;
}
