//! Format 1.0: API Gateway's REST API.

use serde_json::{Value, json};

use super::{Forms, Request, all_values, last_values};
use crate::date;

pub(super) fn event(request: &Request<'_>) -> Value {
    let fields: Vec<_> = request.fields.iter().map(|(name, value)| (capitalized(name), value.clone())).collect();
    let parameters = request.parameters();
    let or_null = |value: Value| if parameters.is_empty() { Value::Null } else { value };
    let proxy = request.path.trim_start_matches('/');
    let body = request.body_text(Forms::AreText);
    let (resource, path_parameters) = match proxy {
        "" => ("/", Value::Null),
        proxy => ("/{proxy+}", json!({ "proxy": proxy })),
    };
    json!({
        "version": "1.0",
        "resource": resource,
        "path": request.path,
        "httpMethod": request.method,
        "headers": last_values(&fields),
        "multiValueHeaders": all_values(&fields),
        "queryStringParameters": or_null(last_values(&parameters)),
        "multiValueQueryStringParameters": or_null(all_values(&parameters)),
        "pathParameters": path_parameters,
        "stageVariables": null,
        "requestContext": context(request, resource),
        "isBase64Encoded": body.as_ref().is_some_and(|(_, is_base64)| *is_base64),
        "body": body.map(|(text, _)| text),
    })
}

fn context(request: &Request<'_>, resource: &str) -> Value {
    let prefix = request.host.split('.').next().unwrap_or_default();
    json!({
        "accountId": request.function.account,
        "apiId": request.function.name,
        "authorizer": {},
        "domainName": request.host,
        "domainPrefix": prefix,
        "extendedRequestId": request.id,
        "httpMethod": request.method,
        "identity": {
            "accessKey": null,
            "accountId": null,
            "caller": null,
            "cognitoAuthenticationProvider": null,
            "cognitoAuthenticationType": null,
            "cognitoIdentityId": null,
            "cognitoIdentityPoolId": null,
            "principalOrgId": null,
            "sourceIp": request.source_ip,
            "user": null,
            "userAgent": request.field("user-agent"),
            "userArn": null,
        },
        "path": request.path,
        "protocol": request.protocol,
        "requestId": request.id,
        "requestTime": date::text(request.ms),
        "requestTimeEpoch": request.ms,
        "resourceId": "default",
        "resourcePath": resource,
        "stage": "$default",
    })
}

/// `x-forwarded-for` as `X-Forwarded-For`, as functions of REST APIs look for it.
fn capitalized(name: &str) -> String {
    let mut is_begin = true;
    name.chars().map(|c| if std::mem::replace(&mut is_begin, c == '-') { c.to_ascii_uppercase() } else { c }).collect()
}
