//! Names of numbered keys, of an exact size.
//!
//! ```text
//!  prefix │ number in base 62, its digits shifted by the seed │ noise of the seed
//! ```

use super::random;
use crate::connection::UsageError;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62 to the power of 11 is more than there are numbers.
const MAX_WIDTH: usize = 11;

/// Names the keys of one seed: different numbers have different names, all of one size.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: Box<[u8]>,
    /// What is added to each digit, the least one first.
    shifts: Vec<u8>,
    padding: Box<[u8]>,
}

impl Names {
    /// Names of `size` bytes for `count` keys.
    ///
    /// # Errors
    /// There are not so many names of that size.
    pub(crate) fn new(prefix: &str, size: usize, count: u64, seed: u64) -> Result<Self, UsageError> {
        let free = size.saturating_sub(prefix.len());
        let width = free.min(MAX_WIDTH);
        if capacity(width) < u128::from(count) || free == 0 {
            return Err(UsageError(format!(
                "--key-size {size}: {count} keys need different names, and {free} bytes after the prefix make {}: give longer keys or a shorter prefix",
                if free == 0 { 0 } else { capacity(width) },
            )));
        }
        let digit = |at: u64| random::scale(random::at(seed, at), DIGITS.len() as u64) as u8;
        let shifts = (0..width as u64).map(digit).collect();
        let padding = (width as u64..free as u64).map(|at| letter(digit(at))).collect();
        Ok(Self { prefix: prefix.as_bytes().into(), shifts, padding })
    }

    /// Appends the name of the key of this number.
    #[inline]
    pub(crate) fn append(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        append_digits(number, &self.shifts, out);
        out.extend_from_slice(&self.padding);
    }
}

/// How many names `width` digits make.
pub(crate) fn capacity(width: usize) -> u128 {
    (DIGITS.len() as u128).pow(width.min(MAX_WIDTH) as u32)
}

/// Appends a number as so many digits as `size` has room for, at most 11, the least one first: what is appended is
/// different for different numbers below [`capacity`].
#[inline]
pub(crate) fn append_number(number: u64, size: usize, out: &mut Vec<u8>) -> usize {
    const UNSHIFTED: [u8; MAX_WIDTH] = [0; MAX_WIDTH];
    let width = size.min(MAX_WIDTH);
    append_digits(number, UNSHIFTED.get(..width).unwrap_or_default(), out);
    width
}

#[inline]
fn append_digits(mut number: u64, shifts: &[u8], out: &mut Vec<u8>) {
    for shift in shifts {
        let digit = (number % DIGITS.len() as u64) as u8 + shift;
        out.push(letter(digit));
        number /= DIGITS.len() as u64;
    }
}

#[inline]
fn letter(digit: u8) -> u8 {
    DIGITS[usize::from(digit) % DIGITS.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[track_caller]
    fn check(prefix: &str, size: usize, count: u64) {
        let names = Names::new(prefix, size, count, 5).unwrap();
        let all: HashSet<Vec<u8>> = (0..count)
            .map(|number| {
                let mut name = Vec::new();
                names.append(number, &mut name);
                assert_eq!(name.len(), size);
                assert!(name.starts_with(prefix.as_bytes()));
                name
            })
            .collect();
        assert_eq!(all.len() as u64, count);
    }

    #[test]
    fn names_are_different_and_of_their_size() {
        check("", 1, 62);
        check("", 2, 3844);
        check("fill:", 16, 5000);
        check("", 512, 5000);
        check("p", 65536, 3);
    }

    #[test]
    fn too_many_keys_are_refused() {
        assert!(Names::new("", 1, 63, 0).is_err());
        assert!(Names::new("fill:", 5, 1, 0).is_err());
        assert!(Names::new("fill:", 3, 1, 0).is_err());
        assert!(Names::new("", 11, u64::MAX, 0).is_ok());
    }

    #[test]
    fn seeds_have_keys_of_their_own() {
        let name = |seed| {
            let mut out = Vec::new();
            Names::new("", 64, 10, seed).unwrap().append(3, &mut out);
            out
        };
        assert_eq!(name(1), name(1));
        assert_ne!(name(1), name(2));
    }
}
