//! What of WebSocket's handshake (RFC 6455 §4) a gateway says in place of a side that speaks HTTP/2, where there is
//! none (RFC 8441 §5).

use http::HeaderValue;
use http::header::HeaderName;

pub(crate) const SEC_WEBSOCKET_KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
pub(crate) const SEC_WEBSOCKET_ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
/// Bytes of the nonce of a handshake (RFC 6455 §4.1).
const NONCE: usize = 16;
/// RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// `Sec-WebSocket-Key` for a client that sends none, to a service that wants one. Nothing depends on its being hard to
/// guess; a service must only be seen to answer this request.
pub(crate) fn key() -> HeaderValue {
    let mut bytes = [0; NONCE];
    // Without a source of randomness the zeros do: no cache that could be fooled is behind the gateway.
    let _ = getrandom::fill(&mut bytes);
    HeaderValue::from_str(&base64(&bytes)).unwrap_or(HeaderValue::from_static("AAAAAAAAAAAAAAAAAAAAAA=="))
}

/// `Sec-WebSocket-Accept` for a client that has sent `key`, of a service that says none (RFC 6455 §4.2.2).
pub(crate) fn accept(key: &HeaderValue) -> Option<HeaderValue> {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes().trim_ascii());
    hash.update(GUID);
    HeaderValue::from_str(&base64(hash.finish().as_ref())).ok()
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(key().len(), 24);
        assert_ne!(key(), key());
    }

    #[test]
    fn the_answer_of_the_standard() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(&key).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
