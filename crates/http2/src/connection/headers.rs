//! Header blocks: requests and trailers.

use super::*;
use crate::frame::{flag, put_block, without_padding};
use crate::hpack::decoder::SectionLimits;
use crate::hpack::encoder::encode_status;
use crate::limits::{MAX_CONTINUATIONS, MAX_RESET_STREAMS};

/// Bytes of the fields of a HEADERS frame by which RFC 7540 §5.3 had priorities.
const PRIORITY_LENGTH: usize = 5;

impl ServerConnection {
    /// RFC 9113 §6.2
    pub(super) fn headers<'b>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        table: &'b mut FieldTable,
    ) -> Result<Received<'b>, Violation> {
        if header.stream.is_multiple_of(2) {
            return Err(Violation::StreamNumber);
        }
        let mut block = without_padding(header, payload).ok_or(Violation::Padding)?;
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let (priority, rest) = block.split_at_checked(PRIORITY_LENGTH).ok_or(Violation::FrameSize)?;
            depends_on_itself = dependency(priority) == Some(header.stream);
            block = rest;
        }
        if header.has(flag::END_HEADERS) {
            return self.section(header, depends_on_itself, block, table);
        }
        let bytes = block.to_vec();
        self.block = Some(Box::new(Block { header, depends_on_itself, bytes, continuations: 0 }));
        Ok(Received::Frame)
    }

    /// RFC 9113 §6.10
    pub(super) fn continuation<'b>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        table: &'b mut FieldTable,
    ) -> Result<Received<'b>, Violation> {
        let Some(mut block) = self.block.take().filter(|block| block.header.stream == header.stream) else {
            return Err(Violation::Block);
        };
        block.continuations += 1;
        if block.continuations > MAX_CONTINUATIONS || block.bytes.len() + payload.len() > self.limits.max_block() {
            return Err(Violation::LargeBlock);
        }
        block.bytes.extend_from_slice(payload);
        if header.has(flag::END_HEADERS) {
            return self.section(block.header, block.depends_on_itself, &block.bytes, table);
        }
        self.block = Some(block);
        Ok(Received::Frame)
    }

    /// A whole header section.
    fn section<'b>(
        &mut self,
        header: FrameHeader,
        depends_on_itself: bool,
        block: &[u8],
        table: &'b mut FieldTable,
    ) -> Result<Received<'b>, Violation> {
        // First, because the table of the decoder is to stay that of the encoder.
        let limits = SectionLimits { max_kept: self.limits.header_list, max_unpacked: self.limits.max_unpacked() };
        self.decoder.decode(block, limits, table)?;
        table.combine_cookies();
        let (id, ends) = (header.stream, header.has(flag::END_STREAM));
        if id <= self.last {
            return self.late_section(id, ends, table).map(|()| Received::Frame);
        }
        self.skipped = self.last + 1..id;
        self.last = id;
        if self.is_ignored(id) {
            return Ok(Received::Frame); // §6.8: its client sends it elsewhere
        }
        if self.streams.len() >= self.limits.streams as usize + MAX_RESET_STREAMS {
            return Err(Violation::Resets);
        }
        let content_length = table.content_length();
        // §8.1.1: what is malformed is a stream error.
        let is_malformed = |table: &FieldTable| {
            depends_on_itself || table.is_no_request() || ends && content_length.is_some_and(|length| length > 0)
        };
        if self.open >= self.limits.streams {
            self.reset_stream(id, ErrorCode::REFUSED_STREAM);
        } else if table.is_too_large() {
            self.refuse_section(id, ends);
        } else if is_malformed(table) {
            self.events.faults += 1;
            self.reset_stream(id, ErrorCode::PROTOCOL_ERROR);
        } else {
            return Ok(Received::Request(Request { stream: id, ends, content_length }, table.fields()));
        }
        Ok(Received::Frame)
    }

    /// RFC 6585 §5: 431, without a word.
    fn refuse_section(&mut self, id: u32, ends: bool) {
        self.events.too_large += 1;
        let mut block = Vec::new();
        self.begin_block(&mut block);
        encode_status(431, &mut block);
        put_block(id, &block, flag::END_STREAM, &mut self.out);
        if !ends {
            self.reset_stream(id, ErrorCode::NO_ERROR);
        }
    }

    /// A header section of a stream that has begun: trailers, or a mistake.
    fn late_section(&mut self, id: u32, ends: bool, table: &mut FieldTable) -> Result<(), Violation> {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.gone.is_none()) else {
            return match () {
                () if self.is_ignored(id) => Ok(()), // it was on its way
                () if self.skipped.contains(&id) => Err(Violation::StreamNumber),
                () => Err(Violation::ClosedStream),
            };
        };
        let fault = match () {
            () if stream.client_has_ended => Some(ErrorCode::STREAM_CLOSED),
            // §8.1: nothing follows trailers, and they are as long as was said.
            () if !ends || table.is_no_trailers() || stream.expected.is_some_and(|left| left > 0) => {
                Some(ErrorCode::PROTOCOL_ERROR)
            }
            () => None,
        };
        if let Some(code) = fault {
            self.fault(id, code);
            return Ok(());
        }
        if stream.has_receiver && !table.fields().is_empty() {
            stream.trailers = Some(Box::new(std::mem::take(table)));
        }
        self.client_ended(id);
        Ok(())
    }

    /// What stands before the fields of the next block.
    pub(super) fn begin_block(&mut self, block: &mut Vec<u8>) {
        if std::mem::take(&mut self.owes_table_size) {
            block.push(crate::hpack::encoder::NO_TABLE);
        }
    }
}

/// The stream that priorities name (RFC 7540 §6.3).
pub(super) fn dependency(priority: &[u8]) -> Option<u32> {
    priority.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) & !(1 << 31))
}
