//! Frames that say something about the connection and its streams: SETTINGS, PING, windows, resets.

use super::headers::dependency;
use super::*;
use crate::frame::flag;

impl ServerConnection {
    /// RFC 9113 §6.5
    pub(super) fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        if header.stream != 0 {
            return Err(Violation::StreamNumber);
        }
        if header.has(flag::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Violation::FrameSize) };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Violation::FrameSize);
        }
        for &[high, low, a, b, c, d] in settings {
            self.setting(u16::from_be_bytes([high, low]), u32::from_be_bytes([a, b, c, d]))?;
        }
        self.has_settings = true;
        put_frame(kind::SETTINGS, flag::ACK, 0, &[], &mut self.out);
        Ok(())
    }

    /// §6.5.2. What concerns pushes, the number of their streams and the size of heads changes nothing here; frames are
    /// never larger than the smallest maximum that there may be.
    fn setting(&mut self, name: u16, value: u32) -> Result<(), Violation> {
        match name {
            1 => self.owes_table_size |= (value as usize) < crate::hpack::table::MAX_SIZE,
            2 | 8 if value > 1 => return Err(Violation::Setting),
            4 if i64::from(value) > MAX_WINDOW => return Err(Violation::Window),
            4 => {
                // §6.9.2: that of each stream changes by the difference.
                let difference = i64::from(value) - self.initial_window;
                self.initial_window = i64::from(value);
                for stream in self.streams.values_mut() {
                    stream.send_window += difference;
                    if stream.send_window > MAX_WINDOW {
                        return Err(Violation::Window);
                    }
                }
                self.wake_waiting();
            }
            5 if !(MAX_FRAME as u32..1 << 24).contains(&value) => return Err(Violation::Setting),
            _ => {}
        }
        Ok(())
    }

    /// §6.7
    pub(super) fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        if header.stream != 0 {
            return Err(Violation::StreamNumber);
        }
        if payload.len() != 8 {
            return Err(Violation::FrameSize);
        }
        if !header.has(flag::ACK) {
            put_frame(kind::PING, flag::ACK, 0, payload, &mut self.out);
        } else if self.leaving == Leaving::Told && payload == LEAVING {
            // §6.8: what the client has sent before it knew has come by now.
            self.leaving = Leaving::Known(self.last);
            put_goaway(self.last, ErrorCode::NO_ERROR, &mut self.out);
        }
        Ok(())
    }

    /// §6.9
    pub(super) fn window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        let bytes = <[u8; 4]>::try_from(payload).map_err(|_| Violation::FrameSize)?;
        let increment = i64::from(u32::from_be_bytes(bytes) & !(1 << 31));
        let id = header.stream;
        if id == 0 {
            if increment == 0 {
                return Err(Violation::NoIncrement);
            }
            self.send_window += increment;
            if self.send_window > MAX_WINDOW {
                return Err(Violation::Window);
            }
            self.wake_waiting();
            return Ok(());
        }
        self.check_begun(id)?;
        if increment == 0 {
            self.reset_stream(id, ErrorCode::PROTOCOL_ERROR);
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.send_window += increment;
        if stream.send_window > MAX_WINDOW {
            self.reset_stream(id, ErrorCode::FLOW_CONTROL_ERROR);
        } else {
            stream.wake_sender();
        }
        Ok(())
    }

    /// §6.4
    pub(super) fn client_resets(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        if header.stream == 0 {
            return Err(Violation::StreamNumber);
        }
        let bytes = <[u8; 4]>::try_from(payload).map_err(|_| Violation::FrameSize)?;
        self.check_begun(header.stream)?;
        self.stream_gone(header.stream, Gone::Reset(ErrorCode(u32::from_be_bytes(bytes))));
        Ok(())
    }

    /// RFC 9113 §5.3.2: priorities are ignored, their frames are checked.
    pub(super) fn priority(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        let id = header.stream;
        if id == 0 {
            return Err(Violation::StreamNumber);
        }
        let fault = match payload.len() {
            5 if dependency(payload) == Some(id) => ErrorCode::PROTOCOL_ERROR,
            5 => return Ok(()),
            _ => ErrorCode::FRAME_SIZE_ERROR,
        };
        // No stream is reset that has not begun.
        match (self.check_begun(id), fault) {
            (Ok(()), _) => self.reset_stream(id, fault),
            (Err(_), ErrorCode::FRAME_SIZE_ERROR) => return Err(Violation::FrameSize),
            (Err(_), _) => return Err(Violation::StreamNumber),
        }
        Ok(())
    }

    fn check_begun(&self, id: u32) -> Result<(), Violation> {
        if id > self.last { Err(Violation::IdleStream) } else { Ok(()) }
    }
}
