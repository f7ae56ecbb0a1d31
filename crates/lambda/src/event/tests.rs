use super::*;
use serde_json::json;

fn function() -> Function {
    Function { name: "hello".into(), account: "000000000000".into(), region: "us-east-1".into() }
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The event of a request with these fields and this body.
fn event(format: EventFormat, target: &str, pairs: &[(&str, &str)], body: Option<&[u8]>) -> Value {
    let (function, fields) = (function(), fields(pairs));
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let request = Request {
        function: &function,
        method: "POST",
        path,
        query,
        fields: &fields,
        host: "api.example.org",
        protocol: "HTTP/1.1",
        source_ip: "192.0.2.1",
        id: "0123",
        ms: 1_583_348_638_390,
        body,
    };
    serde_json::from_slice(&format.event(&request)).unwrap()
}

const FIELDS: &[(&str, &str)] = &[
    ("host", "api.example.org"),
    ("user-agent", "agent"),
    ("cookie", "a=1; b=2"),
    ("cookie", "c=3"),
    ("x-several", "one"),
    ("x-several", "two"),
    ("content-type", "application/json"),
];
const TARGET: &str = "/my/p%20ath?a=1&b=%C3%A4+o&a=2&empty=&none";

#[test]
fn version_2() {
    let expected = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/my/p%20ath",
        "rawQueryString": "a=1&b=%C3%A4+o&a=2&empty=&none",
        "cookies": ["a=1", "b=2", "c=3"],
        "headers": {
            "host": "api.example.org", "user-agent": "agent", "x-several": "one,two", "content-type": "application/json"
        },
        "queryStringParameters": { "a": "1,2", "b": "ä o", "empty": "", "none": "" },
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "hello",
            "authentication": null,
            "domainName": "api.example.org",
            "domainPrefix": "api",
            "http": {
                "method": "POST",
                "path": "/my/p%20ath",
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "agent",
            },
            "requestId": "0123",
            "routeKey": "$default",
            "stage": "$default",
            "time": "04/Mar/2020:19:03:58 +0000",
            "timeEpoch": 1_583_348_638_390_u64,
        },
        "isBase64Encoded": false,
        "body": "{\"x\": 1}",
    });
    assert_eq!(event(EventFormat::V2, TARGET, FIELDS, Some(b"{\"x\": 1}")), expected);
    let without = event(EventFormat::V2, "/", &[], None);
    for name in ["cookies", "queryStringParameters", "body"] {
        assert_eq!(without.get(name), None, "{name}");
    }
}

#[test]
fn version_1() {
    let got = event(EventFormat::V1, TARGET, FIELDS, Some(b"x"));
    assert_eq!(got["resource"], "/{proxy+}");
    assert_eq!(got["pathParameters"], json!({ "proxy": "my/p%20ath" }));
    assert_eq!(got["headers"]["X-Several"], "two");
    assert_eq!(got["multiValueHeaders"]["X-Several"], json!(["one", "two"]));
    assert_eq!(got["multiValueHeaders"]["Cookie"], json!(["a=1; b=2", "c=3"]));
    assert_eq!(got["queryStringParameters"], json!({ "a": "2", "b": "ä o", "empty": "", "none": "" }));
    assert_eq!(got["multiValueQueryStringParameters"]["a"], json!(["1", "2"]));
    assert_eq!(got["requestContext"]["identity"]["sourceIp"], "192.0.2.1");
    assert_eq!(got["requestContext"]["resourcePath"], "/{proxy+}");
    let without = event(EventFormat::V1, "/", &[], None);
    for name in ["queryStringParameters", "multiValueQueryStringParameters", "pathParameters", "body"] {
        assert_eq!(without.get(name), Some(&Value::Null), "{name}");
    }
    assert_eq!(without["resource"], "/");
}

#[test]
fn load_balancers() {
    let one = event(EventFormat::Alb, TARGET, FIELDS, None);
    assert_eq!(one["queryStringParameters"], json!({ "a": "2", "b": "%C3%A4+o", "empty": "", "none": "" }));
    assert_eq!((&one["headers"]["x-several"], &one["body"]), (&json!("two"), &json!("")));
    assert_eq!(one.get("multiValueHeaders"), None);
    let all = event(EventFormat::AlbMulti, TARGET, FIELDS, None);
    assert_eq!(all["multiValueQueryStringParameters"]["a"], json!(["1", "2"]));
    assert_eq!(all["multiValueHeaders"]["cookie"], json!(["a=1; b=2", "c=3"]));
    assert_eq!(all.get("headers"), None);
    assert_eq!(
        all["requestContext"]["elb"]["targetGroupArn"],
        "arn:aws:elasticloadbalancing:us-east-1:000000000000:targetgroup/hello/0000000000000000"
    );
}

#[test]
fn bodies() {
    let check = |format, fields: &[(&str, &str)], body: &[u8], text: &str, is_base64: bool| {
        let got = event(format, "/", fields, Some(body));
        assert_eq!((&got["body"], &got["isBase64Encoded"]), (&json!(text), &json!(is_base64)), "{format:?} {fields:?}");
    };
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for (format, is_base64) in [(EventFormat::V2, true), (EventFormat::V1, false), (EventFormat::Alb, true)] {
        check(format, &form, b"a=b", if is_base64 { "YT1i" } else { "a=b" }, is_base64);
        check(format, &[], b"a", if is_base64 { "YQ==" } else { "a" }, is_base64);
    }
    check(EventFormat::V2, &[("content-type", "text/plain; charset=utf-8")], "ä".as_bytes(), "ä", false);
    check(EventFormat::V2, &[("content-type", "Application/Problem+JSON")], b"{}", "{}", false);
    check(EventFormat::V2, &[("content-type", "text/plain")], b"\xff", "/w==", true);
    check(EventFormat::V1, &[("content-type", "image/png")], b"a", "YQ==", true);
    check(EventFormat::V2, &[("content-type", "text/plain"), ("content-encoding", "gzip")], b"a", "YQ==", true);
}
