//! `Date` (RFC 9110 §6.6.1), written once a second by each thread.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

/// Bytes of an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
const LENGTH: usize = 29;

struct Written {
    second: u64,
    text: [u8; LENGTH],
}

/// The date of now.
pub(crate) fn now() -> [u8; LENGTH] {
    thread_local! {
        static LAST: RefCell<Written> = const { RefCell::new(Written { second: u64::MAX, text: [b' '; LENGTH] }) };
    }
    let second = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|last| {
        if last.second != second {
            last.second = second;
            let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
            if let Ok(text) = date.as_bytes().try_into() {
                last.text = text;
            }
        }
        last.text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_date_of_this_minute() {
        let text = now();
        let date = httpdate::parse_http_date(std::str::from_utf8(&text).unwrap()).unwrap();
        assert!(SystemTime::now().duration_since(date).unwrap() < Duration::from_secs(60));
    }
}
