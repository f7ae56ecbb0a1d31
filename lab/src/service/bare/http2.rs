//! HTTP/2 (RFC 9113) as far as a floor needs it: each HEADERS of a request without body has the same answer. What a
//! client asks for is not looked at, and its windows are taken for endless: those of h2load have 2³⁰ bytes.

use std::io::{self, ErrorKind};

/// Section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Section 4.1.
const FRAME_HEAD: usize = 9;
/// Section 4.2: the longest frame unless a larger one is allowed.
const LONGEST: usize = 16 * 1024;
/// Types of frames, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags, section 6.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` of HPACK's static table (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;
/// Literals without indexing (RFC 7541, section 6.2.2) whose names are entries 31 and 28 of the static table.
const CONTENT_TYPE: [u8; 2] = [0x0f, 31 - 15];
const CONTENT_LENGTH: [u8; 2] = [0x0f, 28 - 15];

/// An answer whose streams are not filled in.
pub(super) struct Answer {
    frames: Vec<u8>,
    /// Where the stream of the DATA frame stands.
    data_stream: usize,
}

impl Answer {
    /// Of JSON, shorter than a frame may be.
    pub(super) fn new(body: &str) -> Self {
        let mut fields = vec![STATUS_200];
        for (name, value) in [(CONTENT_TYPE, "application/json"), (CONTENT_LENGTH, &body.len().to_string())] {
            fields.extend(name);
            fields.push(value.len() as u8); // not Huffman-coded, and shorter than 127
            fields.extend(value.bytes());
        }
        let mut frames = Vec::new();
        frame(&mut frames, HEADERS, END_HEADERS, 0, &fields);
        let data_stream = frames.len() + FRAME_HEAD - size_of::<u32>();
        frame(&mut frames, DATA, END_STREAM, 0, body.as_bytes());
        Self { frames, data_stream }
    }

    fn write(&self, stream: u32, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.frames);
        for at in [FRAME_HEAD - size_of::<u32>(), self.data_stream] {
            out[begin + at..][..size_of::<u32>()].copy_from_slice(&stream.to_be_bytes());
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The streams of a connection.
#[derive(Default)]
pub(super) struct Streams {
    /// What was read and is no whole frame yet.
    begun: Vec<u8>,
    is_greeted: bool,
}

impl Streams {
    /// Appends to `out` what is answered to what was read.
    ///
    /// # Errors
    /// It is nothing that a client of the lab sends.
    pub(super) fn take(&mut self, read: &[u8], answer: &Answer, out: &mut Vec<u8>) -> io::Result<()> {
        self.begun.extend_from_slice(read);
        let mut at = 0;
        if !self.is_greeted {
            if self.begun.len() < PREFACE.len() {
                return Ok(());
            }
            if !self.begun.starts_with(PREFACE) {
                return Err(ErrorKind::InvalidData.into());
            }
            (at, self.is_greeted) = (PREFACE.len(), true);
            frame(out, SETTINGS, 0, 0, &[]);
        }
        while let Some(head) = self.begun.get(at..at + FRAME_HEAD) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if length > LONGEST {
                return Err(ErrorKind::InvalidData.into());
            }
            let Some(payload) = self.begun.get(at + FRAME_HEAD..at + FRAME_HEAD + length) else { break };
            match kind {
                HEADERS if flags & (END_STREAM | END_HEADERS) == END_STREAM | END_HEADERS => answer.write(stream, out),
                SETTINGS if flags & ACK == 0 => frame(out, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(out, PING, ACK, 0, payload),
                SETTINGS | PING | PRIORITY | RST_STREAM | GOAWAY | WINDOW_UPDATE => {}
                _ => return Err(ErrorKind::InvalidData.into()),
            }
            at += FRAME_HEAD + length;
        }
        self.begun.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Vec<u8> {
        let mut asked = PREFACE.to_vec();
        frame(&mut asked, SETTINGS, 0, 0, &[0, 4, 0x3f, 0xff, 0xff, 0xff]);
        frame(&mut asked, HEADERS, END_STREAM | END_HEADERS, 1, &[0x82]);
        frame(&mut asked, PING, 0, 0, b"12345678");
        frame(&mut asked, HEADERS, END_STREAM | END_HEADERS, 3, &[0x82]);
        asked
    }

    fn answered() -> Vec<u8> {
        let answer = Answer::new("{}");
        let mut answered = Vec::new();
        frame(&mut answered, SETTINGS, 0, 0, &[]);
        frame(&mut answered, SETTINGS, ACK, 0, &[]);
        answer.write(1, &mut answered);
        frame(&mut answered, PING, ACK, 0, b"12345678");
        answer.write(3, &mut answered);
        answered
    }

    #[test]
    fn frames_are_answered_wherever_they_are_cut() {
        let asked = asked();
        for cut in 1..asked.len() {
            let (mut streams, mut out) = (Streams::default(), Vec::new());
            for part in [&asked[..cut], &asked[cut..]] {
                streams.take(part, &Answer::new("{}"), &mut out).expect("what clients send");
            }
            assert_eq!(out, answered(), "cut at {cut}");
        }
    }

    #[test]
    fn an_answer_has_a_head_and_a_body_on_its_stream() {
        let mut out = Vec::new();
        Answer::new("{}").write(0x0102_0304, &mut out);
        let head = b"\x88\x0f\x10\x10application/json\x0f\x0d\x012";
        let mut wanted = vec![0, 0, head.len() as u8, HEADERS, END_HEADERS, 1, 2, 3, 4];
        wanted.extend(head);
        wanted.extend([0, 0, 2, DATA, END_STREAM, 1, 2, 3, 4, b'{', b'}']);
        assert_eq!(out, wanted);
    }

    #[test]
    fn what_no_client_sends_ends_the_connection() {
        let answer = Answer::new("{}");
        let refused = |bytes: &[u8]| Streams::default().take(bytes, &answer, &mut Vec::new()).is_err();
        assert!(refused(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"));
        let mut body = PREFACE.to_vec();
        frame(&mut body, DATA, END_STREAM, 1, b"x");
        assert!(refused(&body));
        let mut long = PREFACE.to_vec();
        long.extend([0xff, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
        assert!(refused(&long));
    }
}
