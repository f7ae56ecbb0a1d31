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
        let mut windows = None;
        for &[high, low, a, b, c, d] in settings {
            let value = u32::from_be_bytes([a, b, c, d]);
            match u16::from_be_bytes([high, low]) {
                4 => {
                    let (largest, _) = windows.unwrap_or_default();
                    windows = Some((value.max(largest), value));
                }
                name => self.setting(name, value)?,
            }
        }
        if let Some((largest, last)) = windows {
            self.initial_windows(i64::from(largest), i64::from(last))?;
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
            5 if !(MAX_FRAME as u32..1 << 24).contains(&value) => return Err(Violation::Setting),
            _ => {}
        }
        Ok(())
    }

    /// §6.9.2: the window of each stream changes by the difference. Once for a frame, which may name thousands of
    /// values, of which the largest is not to be too much for any stream.
    fn initial_windows(&mut self, largest: i64, last: i64) -> Result<(), Violation> {
        if largest > MAX_WINDOW {
            return Err(Violation::Window);
        }
        let before = std::mem::replace(&mut self.initial_window, last);
        for stream in self.streams.values_mut() {
            if stream.send_window + (largest - before) > MAX_WINDOW {
                return Err(Violation::Window);
            }
            stream.send_window += last - before;
        }
        self.wake_waiting();
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
            self.fault(id, ErrorCode::PROTOCOL_ERROR);
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.send_window += increment;
        if stream.send_window > MAX_WINDOW {
            self.fault(id, ErrorCode::FLOW_CONTROL_ERROR);
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
            (Ok(()), _) => self.fault(id, fault),
            (Err(_), ErrorCode::FRAME_SIZE_ERROR) => return Err(Violation::FrameSize),
            (Err(_), _) => return Err(Violation::StreamNumber),
        }
        Ok(())
    }

    /// §5.1: those with even numbers would be begun by the server, and never are.
    pub(super) fn check_begun(&self, id: u32) -> Result<(), Violation> {
        if id > self.last || id.is_multiple_of(2) { Err(Violation::IdleStream) } else { Ok(()) }
    }
}
