//! The servers that a request was sent to.

/// Most of them that are remembered: of three tries, and one more.
const MAX_TRIED: usize = 4;

/// Servers, by their [numbers](crate::Group::number).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Each number with 1 added; 0: none.
    numbers: [u64; MAX_TRIED],
    next: u8,
}

impl Tried {
    /// Adds one. Beyond four the first one is forgotten.
    pub fn add(&mut self, number: u64) {
        if !self.has(number) {
            self.numbers[usize::from(self.next) % MAX_TRIED] = number.wrapping_add(1);
            self.next = (self.next + 1) % MAX_TRIED as u8;
        }
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        self.numbers.contains(&number.wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_four_are_remembered() {
        let mut tried = Tried::default();
        assert!(!tried.has(0));
        for number in [0, 7, 7, 9, 11] {
            tried.add(number);
        }
        assert!([0, 7, 9, 11].iter().all(|number| tried.has(*number)));
        tried.add(12);
        assert!(!tried.has(0) && tried.has(7) && tried.has(12));
    }
}
