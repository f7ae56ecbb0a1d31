//! An Application Load Balancer. Its queries are not decoded, and what is in a body is told by `Content-Type`.

use serde_json::{Map, Value, json};

use super::{Forms, Request, all_values, last_values};

/// How often a name may be in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    One,
    All,
}

pub(super) fn event(request: &Request<'_>, values: Values) -> Value {
    let parameters = request.raw_parameters();
    let mut event = Map::new();
    let mut set = |name: &str, value: Value| event.insert(name.to_owned(), value);
    let function = request.function;
    let group = format!(
        "arn:aws:elasticloadbalancing:{}:{}:targetgroup/{}/0000000000000000",
        function.region, function.account, function.name
    );
    set("requestContext", json!({ "elb": { "targetGroupArn": group } }));
    set("httpMethod", request.method.into());
    set("path", request.path.into());
    match values {
        Values::One => {
            set("queryStringParameters", last_values(&parameters));
            set("headers", last_values(request.fields));
        }
        Values::All => {
            set("multiValueQueryStringParameters", all_values(&parameters));
            set("multiValueHeaders", all_values(request.fields));
        }
    }
    let (body, is_base64) = request.body_text(Forms::AreBytes).unwrap_or_default();
    set("body", body.into_owned().into());
    set("isBase64Encoded", is_base64.into());
    Value::Object(event)
}
