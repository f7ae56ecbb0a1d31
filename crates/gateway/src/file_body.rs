//! A body that is read from files as the client takes it.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use pilotlight_files::Reader;

use crate::body::{CutError, Source};

/// A body from files.
pub(crate) struct FileBody {
    reader: Reader,
}

impl FileBody {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { reader }
    }
}

impl Source for FileBody {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        let piece = self.reader.read().map(|piece| {
            let cut =
                |changed: pilotlight_files::Changed| CutError { service: "files".into(), what: changed.to_string() };
            piece.map(Frame::data).map_err(cut)
        });
        Poll::Ready(piece)
    }

    fn is_ended(&self) -> bool {
        self.reader.left() == 0
    }

    fn length(&self) -> Option<u64> {
        Some(self.reader.left())
    }
}
