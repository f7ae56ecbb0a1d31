//! Hot paths of the libraries in loops: `pilotlight-gate PATH TIMES [REDIS]`. `pilotlight lab gate` runs it under
//! callgrind with few turns and with many; the difference is what one turn takes.

use std::hint::black_box;

use anyhow::{Context as _, bail, ensure};
use bytes::BytesMut;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode};
use pilotlight_pipe::frame::{FrameHeader, MAX_FRAME, split_frame};
use pilotlight_pipe::head::{RequestHead, decode_request, decode_response, encode_request, encode_response};
use pilotlight_redis::{Client, Commands as _, Config, Slot};
use pilotlight_resp::{Decoder, Frame, Limits, Value, encode};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VALUE_BYTES: usize = 64;
const BODY_BYTES: usize = 200;
/// Callers, or commands of a pipeline.
const AT_ONCE: u64 = 100;
/// Every so many turns of `planted` do their work twice: 5 %.
const PLANTED_EVERY: u64 = 20;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, times, redis @ ..] = &arguments[..] else { bail!("usage: pilotlight-gate PATH TIMES [REDIS]") };
    let times: u64 = times.parse().context("TIMES is no number")?;
    match path.as_str() {
        "resp-get" => resp_get(times, None),
        "planted" => resp_get(times, Some(PLANTED_EVERY)),
        "frame-codec" => frame_codec(times),
        "client-get" => with_client(times, redis, client_get),
        "client-many" => with_client(times, redis, client_many),
        "client-pipeline" => with_client(times, redis, client_pipeline),
        _ => bail!("there is no path {path}"),
    }
}

/// A GET's slot and bytes, and the reply of 64 bytes that comes back. Some turns do it twice, if that is wanted.
fn resp_get(times: u64, twice: Option<u64>) -> anyhow::Result<()> {
    let mut reply = Vec::new();
    encode::bulk(&mut reply, &[b'x'; VALUE_BYTES]);
    let (mut decoder, mut input, mut out) = (Decoder::new(Limits::default()), BytesMut::new(), Vec::new());
    let mut turn = |number: u64| {
        let key = KEYS[number as usize % KEYS.len()];
        black_box(Slot::of(black_box(key)));
        out.clear();
        encode::command(&mut out, &[b"GET", key]);
        black_box(&out);
        input.extend_from_slice(black_box(&reply));
        match decoder.decode(&mut input)? {
            Some(Frame::Reply(Value::Bulk(value))) => {
                ensure!(value.len() == VALUE_BYTES, "a value of {} bytes", value.len());
                Ok(())
            }
            other => bail!("not the reply: {other:?}"),
        }
    };
    for number in 0..times {
        turn(number)?;
        if twice.is_some_and(|every| number % every == 0) {
            turn(number)?;
        }
    }
    Ok(())
}

/// Turns of a client of the Redis at this URL, in one thread.
fn with_client(
    times: u64,
    redis: &[String],
    turns: impl AsyncFnOnce(Client, u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let config = Config::from_url(redis.first().context("no URL of Redis given")?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::new(config)?;
        client.set("gate", "x".repeat(VALUE_BYTES)).await?;
        turns(client, times).await
    })
}

/// A GET, one at a time, through the whole client.
async fn client_get(client: Client, times: u64) -> anyhow::Result<()> {
    for _ in 0..times {
        is_value(client.get("gate").await?.as_ref())?;
    }
    Ok(())
}

/// The same of some callers at once, each one at a time.
async fn client_many(client: Client, times: u64) -> anyhow::Result<()> {
    let mut callers = JoinSet::new();
    for _ in 0..AT_ONCE {
        callers.spawn(client_get(client.clone(), times / AT_ONCE));
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}

/// A GET of a pipeline.
async fn client_pipeline(client: Client, times: u64) -> anyhow::Result<()> {
    for _ in 0..times / AT_ONCE {
        let mut pipeline = client.pipeline();
        let queued: Vec<_> = (0..AT_ONCE).map(|_| pipeline.get("gate")).collect();
        let mut replies = pipeline.run().await?;
        for get in queued {
            is_value(replies.take(get)?.as_ref())?;
        }
    }
    Ok(())
}

fn is_value(found: Option<&bytes::Bytes>) -> anyhow::Result<()> {
    ensure!(found.is_some_and(|found| found.len() == VALUE_BYTES), "another value: {found:?}");
    Ok(())
}

const KEYS: [&[u8]; 4] = [b"key:17", b"users:4711", b"{tag}:rest", b"a-longer-key-of-an-application:0123456789"];

/// A request and its answer of 200 bytes as frames, there and back.
fn frame_codec(times: u64) -> anyhow::Result<()> {
    let mut fields = HeaderMap::new();
    fields.insert(ACCEPT, HeaderValue::from_static("*/*"));
    fields.insert(USER_AGENT, HeaderValue::from_static("gate/1.0"));
    let mut answer_fields = HeaderMap::new();
    answer_fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer_fields.insert(CONTENT_LENGTH, HeaderValue::from_static("200"));
    let head = RequestHead {
        method: "GET",
        scheme: "http",
        authority: "example.org",
        target: "/users/42?fields=name",
        protocol: "HTTP/1.1",
        peer: "192.0.2.1:4711",
        request_id: "0123456789abcdef",
        deadline_ms: 30_000,
        headers: &fields,
    };
    let body = [b'x'; BODY_BYTES];
    let mut wire = BytesMut::new();
    for number in 0..times {
        let exchange = (number % 64) as u16 + 1;
        encode_request(&mut wire, exchange, 0, black_box(&head), b"")?;
        let (header, payload) = frame(&mut wire)?;
        ensure!(header.exchange == exchange, "another exchange");
        black_box(decode_request(payload)?);
        encode_response(&mut wire, exchange, 0, StatusCode::OK, black_box(&answer_fields), black_box(&body))?;
        let (_, payload) = frame(&mut wire)?;
        let (status, fields, rest) = decode_response(payload)?;
        ensure!(status == StatusCode::OK && fields.len() == 2 && rest.len() == BODY_BYTES, "another answer");
    }
    Ok(())
}

fn frame(wire: &mut BytesMut) -> anyhow::Result<(FrameHeader, bytes::Bytes)> {
    split_frame(wire, MAX_FRAME)?.context("the frame is whole")
}
