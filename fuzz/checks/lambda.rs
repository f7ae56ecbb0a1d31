//! What a function and its runtime client send: whatever the bytes, nothing panics, results are responses or errors,
//! and however a stream is cut, its prelude is the same. What a client sends comes back out of the event.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilotlight_lambda::{
    Call, EventFormat, Function, FunctionError, Prelude, PreludeError, PreludeReader, Request, answer, trace_id,
};
use serde_json::Value;

pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for method in ["GET", "POST"] {
        if let Ok(Call::Response(id) | Call::Error(id)) = Call::parse(method, &text) {
            assert!(!id.contains('/'));
        }
    }
    for format in EventFormat::ALL {
        results(format, data);
        events(format, data, &text);
    }
    let error = FunctionError::read(Some(data), data);
    assert!(error.lines().iter().all(|line| !line.contains('\n')));
    let whole = prelude(data, usize::MAX >> 1);
    for step in [1, 3, 8, 64] {
        assert_eq!(prelude(data, step), whole, "{step} bytes at a time");
    }
    let trace = trace_id(Some(data), Some(data), 0, &text);
    assert!(trace.len() <= 256 && trace.bytes().all(|byte| byte.is_ascii_graphic()));
}

fn results(format: EventFormat, data: &[u8]) {
    let Ok(answer) = answer(format, data) else { return };
    assert!((200..600).contains(&answer.status));
    for (name, _) in &answer.fields {
        assert!(!["content-length", "transfer-encoding", "connection"].contains(&&**name));
        assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()));
    }
}

/// A request whose target, a field and body are these bytes.
fn events(format: EventFormat, data: &[u8], text: &str) {
    let function = Function::default();
    let fields = [("content-type".to_owned(), text.to_owned()), ("cookie".to_owned(), text.to_owned())];
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    let request = Request {
        function: &function,
        method: "POST",
        path,
        query,
        fields: &fields,
        host: "localhost",
        protocol: "HTTP/1.1",
        source_ip: "::1",
        id: "1",
        ms: 0,
        body: Some(data),
    };
    let event: Value = serde_json::from_slice(&format.event(&request)).unwrap();
    let body = event["body"].as_str().unwrap();
    let is_base64 = event["isBase64Encoded"].as_bool().unwrap();
    let body = if is_base64 { STANDARD.decode(body).unwrap() } else { body.as_bytes().to_vec() };
    assert_eq!(body, data);
}

/// The prelude of a stream that comes in pieces, and what is behind it.
fn prelude(stream: &[u8], step: usize) -> Result<Option<(Prelude, Vec<u8>)>, PreludeError> {
    let mut reader = PreludeReader::new();
    for (index, piece) in stream.chunks(step).enumerate() {
        if let Some((prelude, length)) = reader.read(piece)? {
            return Ok(Some((prelude, stream[index * step + length..].to_vec())));
        }
    }
    Ok(None)
}
