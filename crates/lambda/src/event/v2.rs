//! Format 2.0: API Gateway's HTTP API, and function URLs.

use serde_json::{Map, Value, json};

use super::{Forms, Request, joined_values};
use crate::date;

pub(super) fn event(request: &Request<'_>) -> Value {
    let mut event = Map::new();
    let mut set = |name: &str, value: Value| event.insert(name.to_owned(), value);
    set("version", "2.0".into());
    set("routeKey", "$default".into());
    set("rawPath", request.path.into());
    set("rawQueryString", request.query.unwrap_or_default().into());
    let cookies: Vec<&str> = cookies(request).collect();
    if !cookies.is_empty() {
        set("cookies", cookies.into());
    }
    set("headers", joined_values(request.fields.iter().filter(|(name, _)| name != "cookie")));
    let parameters = request.parameters();
    if !parameters.is_empty() {
        set("queryStringParameters", joined_values(parameters.iter()));
    }
    set("requestContext", context(request));
    let body = request.body_text(Forms::AreBytes);
    set("isBase64Encoded", body.as_ref().is_some_and(|(_, is_base64)| *is_base64).into());
    if let Some((text, _)) = body {
        set("body", text.into_owned().into());
    }
    Value::Object(event)
}

/// RFC 6265 §4.2.1: pairs, separated by semicolons.
fn cookies<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a str> {
    let fields = request.fields.iter().filter(|(name, _)| name == "cookie");
    fields.flat_map(|(_, value)| value.split(';')).map(str::trim).filter(|cookie| !cookie.is_empty())
}

fn context(request: &Request<'_>) -> Value {
    let prefix = request.host.split('.').next().unwrap_or_default();
    json!({
        "accountId": request.function.account,
        "apiId": request.function.name,
        "authentication": null,
        "domainName": request.host,
        "domainPrefix": prefix,
        "http": {
            "method": request.method,
            "path": request.path,
            "protocol": request.protocol,
            "sourceIp": request.source_ip,
            "userAgent": request.field("user-agent").unwrap_or_default(),
        },
        "requestId": request.id,
        "routeKey": "$default",
        "stage": "$default",
        "time": date::text(request.ms),
        "timeEpoch": request.ms,
    })
}
