//! How much one worker encodes at a time.

use std::cell::Cell;
use std::rc::Rc;

/// Bodies that one worker encodes at a time; with about 2 MiB each. What is beyond goes out as it is.
const MAX_ENCODED: usize = 64;

/// What one worker encodes at the moment.
#[derive(Default)]
pub(crate) struct Encoding(Rc<Cell<usize>>);

/// One of [`MAX_ENCODED`].
pub(super) struct Permit(Rc<Cell<usize>>);

impl Encoding {
    pub(super) fn permit(&self) -> Option<Permit> {
        let count = self.0.get();
        (count < MAX_ENCODED).then(|| {
            self.0.set(count + 1);
            Permit(Rc::clone(&self.0))
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_at_a_time_go_out_as_they_are() {
        let encoding = Encoding::default();
        let permits: Vec<_> = (0..MAX_ENCODED).map_while(|_| encoding.permit()).collect();
        assert_eq!(permits.len(), MAX_ENCODED);
        assert!(encoding.permit().is_none());
        drop(permits);
        assert!(encoding.permit().is_some());
    }
}
