//! The way of lines to the thread that writes them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;

use pilotlight_logs::Shape;

use crate::options::{AccessField, AccessFormat};

/// Chunks that wait for the writer; one more is dropped.
pub(super) const MAX_CHUNKS: usize = 64;

/// What the writer is told.
pub(super) enum Message {
    Lines { bytes: Vec<u8>, count: u64 },
    Reopen,
}

/// Where workers' lines go.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(super) format: AccessFormat,
    pub(super) fields: Arc<[AccessField]>,
    /// Of messages; a log of lines has none.
    pub(super) shape: Option<Shape>,
    pub(super) to_writer: Arc<SyncSender<Message>>,
    pub(super) dropped: Arc<AtomicU64>,
}
