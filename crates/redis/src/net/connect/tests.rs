//! Connections to real servers, and to peers that are none.

mod peers;
mod servers;
#[cfg(feature = "rustls")]
mod tls;

use std::time::{Duration, Instant};

use pilotlight_resp::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use pilotlight_resp::Value;

use super::*;
use crate::net::connect_error::AuthError;

/// Connects for data to the first server of the URL.
async fn open(url: &str) -> Result<Connection, ConnectError> {
    open_with(&Config::from_url(url).unwrap()).await
}

async fn open_with(config: &Config) -> Result<Connection, ConnectError> {
    connect(config, &config.servers[0], Purpose::Data).await
}

/// The kind of error that [`open_with`] ends with.
async fn failure(config: &Config) -> ConnectErrorKind {
    let error = open_with(config).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    error.into_kind()
}

/// Sends a command on a connection, and gives the reply.
async fn ask(connection: &mut Connection, words: &[&str]) -> Value {
    let mut out = Vec::new();
    pilotlight_resp::encode::command(&mut out, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    connection.transport.write_all(&out).await.unwrap();
    connection.transport.flush().await.unwrap();
    loop {
        match connection.decoder.decode(&mut connection.read_buffer).unwrap() {
            Some(Frame::Reply(value)) => return value,
            Some(Frame::Push(push)) => panic!("{push:?}"),
            None => assert_ne!(connection.transport.read_buf(&mut connection.read_buffer).await.unwrap(), 0),
        }
    }
}

/// The value of a field in the answer to `CLIENT INFO`.
async fn client_info(connection: &mut Connection, field: &str) -> String {
    let text = match ask(connection, &["CLIENT", "INFO"]).await {
        Value::Bulk(text) | Value::Verbatim { text, .. } => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    let fields: Vec<(&str, &str)> = text.split_whitespace().filter_map(|field| field.split_once('=')).collect();
    fields.iter().find(|(name, _)| *name == field).unwrap_or_else(|| panic!("no {field} in {text}")).1.to_owned()
}
