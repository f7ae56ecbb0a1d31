//! From bytes to frames, and what becomes of those that carry data.

use super::*;
use crate::frame::{flag, without_padding};

impl ServerConnection {
    /// Takes the front of what was read: how many bytes of it, and what they are. Each frame is taken whole.
    ///
    /// # Errors
    /// The connection is to end ([`ServerConnection::end`]) with the code of the violation.
    pub fn receive<'b>(&mut self, bytes: &[u8], table: &'b mut FieldTable) -> Result<(usize, Received<'b>), Violation> {
        if self.is_over {
            return Ok((bytes.len(), Received::Incomplete));
        }
        if self.preface > 0 {
            return self.receive_preface(bytes).map(|taken| (taken, Received::Incomplete));
        }
        let Some(header) = FrameHeader::parse(bytes) else { return Ok((0, Received::Incomplete)) };
        if header.length > MAX_FRAME {
            return Err(Violation::FrameSize);
        }
        let length = FRAME_HEADER + header.length;
        let Some(payload) = bytes.get(FRAME_HEADER..length) else { return Ok((0, Received::Incomplete)) };
        let received = self.frame(header, payload, table)?;
        Ok((length, received))
    }

    fn receive_preface(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let expected = &PREFACE[PREFACE.len() - self.preface..];
        let length = expected.len().min(bytes.len());
        if bytes[..length] != expected[..length] {
            return Err(Violation::Preface);
        }
        self.preface -= length;
        Ok(length)
    }

    #[inline]
    fn frame<'b>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        table: &'b mut FieldTable,
    ) -> Result<Received<'b>, Violation> {
        // RFC 9113 §4.3: nothing comes between the frames of a header block.
        if self.block.is_some() && header.kind != kind::CONTINUATION {
            return Err(Violation::Block);
        }
        if !self.has_settings && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(Violation::Preface);
        }
        match header.kind {
            kind::HEADERS => return self.headers(header, payload, table),
            kind::CONTINUATION => return self.continuation(header, payload, table),
            kind::DATA => self.data(header, payload)?,
            kind::WINDOW_UPDATE => self.window_update(header, payload)?,
            kind::SETTINGS => self.settings(header, payload)?,
            kind::PING => self.ping(header, payload)?,
            kind::RST_STREAM => self.client_resets(header, payload)?,
            kind::PRIORITY => self.priority(header, payload)?,
            // What a client without streams of ours says of its end changes nothing.
            kind::GOAWAY if header.stream != 0 => return Err(Violation::StreamNumber),
            kind::GOAWAY if payload.len() < 8 => return Err(Violation::FrameSize),
            kind::PUSH_PROMISE => return Err(Violation::Push),
            // §5.5: unknown types are ignored.
            _ => {}
        }
        Ok(Received::Frame)
    }

    /// RFC 9113 §6.1
    fn data(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        let id = header.stream;
        if id == 0 {
            return Err(Violation::StreamNumber);
        }
        self.check_begun(id)?;
        let data = without_padding(header, payload).ok_or(Violation::Padding)?;
        // §6.9.1: all of it counts, padding as well.
        self.receive_window -= payload.len() as i64;
        if self.receive_window < 0 {
            return Err(Violation::Window);
        }
        let fault = match self.streams.get_mut(&id) {
            Some(stream) if stream.gone.is_none() => {
                let fault = stream.data(header, payload.len(), data);
                let kept = if fault.is_none() && stream.has_receiver { data.len() } else { 0 };
                if fault.is_none() && stream.has_receiver {
                    // Padding is taken at once.
                    self.give_back(id, payload.len() - data.len());
                } else {
                    self.take_back(payload.len() - kept);
                }
                fault
            }
            _ => {
                self.take_back(payload.len());
                // §5.1: frames that were on their way are ignored.
                (!self.is_ignored(id)).then_some(ErrorCode::STREAM_CLOSED)
            }
        };
        if let Some(code) = fault {
            self.fault(id, code);
        } else if header.has(flag::END_STREAM) {
            self.client_ended(id);
        }
        Ok(())
    }

    /// The client's direction of a stream is over.
    pub(super) fn client_ended(&mut self, id: u32) {
        self.change(id, |stream| {
            stream.client_has_ended = true;
            stream.wake_receiver();
        });
    }
}

impl Stream {
    /// Takes data; what is wrong with it.
    fn data(&mut self, header: FrameHeader, length: usize, data: &[u8]) -> Option<ErrorCode> {
        if self.client_has_ended {
            return Some(ErrorCode::STREAM_CLOSED);
        }
        self.receive_window -= length as i64;
        if self.receive_window < 0 {
            return Some(ErrorCode::FLOW_CONTROL_ERROR);
        }
        // RFC 9113 §8.1.1: the sum of the frames is what Content-Length says.
        if let Some(expected) = &mut self.expected {
            match expected.checked_sub(data.len() as u64) {
                Some(0) => *expected = 0,
                Some(left) if !header.has(flag::END_STREAM) => *expected = left,
                _ => return Some(ErrorCode::PROTOCOL_ERROR),
            }
        }
        if self.has_receiver && !data.is_empty() {
            self.received.extend_from_slice(data);
            self.wake_receiver();
        }
        None
    }
}
