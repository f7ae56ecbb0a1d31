//! A function of AWS Lambda for the tests, with no word about Pilotlight.

use lambda_http::{Body, Error, Request, RequestExt, Response, run, service_fn};

async fn handle(request: Request) -> Result<Response<Body>, Error> {
    if request.uri().path() == "/error" {
        return Err("not today".into());
    }
    let told = serde_json::json!({
        "method": request.method().as_str(),
        "path": request.uri().path(),
        "query": request.uri().query(),
        "body": String::from_utf8_lossy(request.body()),
        "id": request.lambda_context().request_id,
        "pid": std::process::id(),
    });
    let response = Response::builder().status(201).header("content-type", "application/json");
    Ok(response.header("set-cookie", "a=1").header("set-cookie", "b=2").body(told.to_string().into())?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(service_fn(handle)).await
}
