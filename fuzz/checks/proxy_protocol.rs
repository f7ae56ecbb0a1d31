//! The first bytes of a connection from a proxy: whatever they are, nothing panics, and no byte behind a header is
//! asked for, however the reads are cut.

use pilotlight_proxy_protocol::{MAX_V1, MAX_V2, Progress, is_header, parse};

/// Reads as much as is asked for, all of it at once and byte by byte, from a connection that has these bytes.
pub(crate) fn check(data: &[u8]) {
    let (at_once, byte_by_byte) = (read(data, usize::MAX), read(data, 1));
    assert_eq!(at_once.1, byte_by_byte.1, "the cutting of the stream changed its header");
    if let (used, Ok(Progress::Done(_))) = at_once {
        assert_eq!(used, byte_by_byte.0, "the cutting of the stream changed where its header ends");
        assert!(is_header(data), "a header without a signature");
        let changed: Vec<u8> = data[..used].iter().copied().chain([0xff; 3]).collect();
        assert_eq!(read(&changed, usize::MAX), at_once, "what follows a header changed it");
    }
}

/// How many bytes were taken, and what they are; `Wants` if there are no more.
fn read(data: &[u8], step: usize) -> (usize, Result<Progress, pilotlight_proxy_protocol::NotAHeader>) {
    let mut used = 0;
    loop {
        let found = parse(&data[..used]);
        let Ok(Progress::Wants(more)) = found else { return (used, found) };
        assert!(more > 0 && used + more <= MAX_V1.max(MAX_V2), "{used} bytes are here, {more} more are wanted");
        let more = more.min(step).min(data.len() - used);
        if more == 0 {
            return (used, Ok(Progress::Wants(0)));
        }
        used += more;
    }
}
