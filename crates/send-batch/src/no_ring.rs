//! Where there is no io_uring.

use std::io;

use crate::message::Message;

/// None can be made.
pub(crate) enum Ring {}

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn send(
        &mut self,
        _: &mut Vec<u8>,
        _: &[Message],
        _: impl FnMut(usize, io::Result<usize>),
    ) -> Result<(), usize> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_can_be_made() {
        assert_eq!(Ring::new().err().map(|error| error.kind()), Some(io::ErrorKind::Unsupported));
    }
}
