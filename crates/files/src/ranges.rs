//! `Range` (RFC 9110 §14).

use std::ops::Range;

/// Most ranges of one request. More, or such that overlap, are no download that goes on: the whole file answers.
pub(crate) const MAX_RANGES: usize = 16;
/// Longest field that is looked at.
const MAX_FIELD: usize = 1024;

/// What a request wants of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no ranges, or none that count.
    Whole,
    /// Parts of it, at least one, none of them empty, in the order of the request.
    Parts(Vec<Range<u64>>),
    /// Nothing of what it wants is there (416).
    Nothing,
}

/// What `Range` says of a file of `size` bytes.
pub(crate) fn wanted(field: &[u8], size: u64) -> Wanted {
    // RFC 9110 §14.2: a unit that is not known, or a set that is malformed, is ignored.
    let Some(parts) = parse(field, size) else { return Wanted::Whole };
    if parts.is_empty() {
        return Wanted::Nothing;
    }
    let mut sorted = parts.clone();
    sorted.sort_by_key(|part| part.start);
    if sorted.windows(2).any(|two| two[0].end > two[1].start) {
        return Wanted::Whole;
    }
    Wanted::Parts(parts)
}

fn parse(field: &[u8], size: u64) -> Option<Vec<Range<u64>>> {
    let field = std::str::from_utf8(field).ok().filter(|field| field.len() <= MAX_FIELD)?;
    let (unit, set) = field.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (mut parts, mut count) = (Vec::new(), 0);
    for one in set.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        count += 1;
        if count > MAX_RANGES {
            return None;
        }
        let (first, last) = one.split_once('-')?;
        let part = match (first, last) {
            ("", last) => size.saturating_sub(number(last)?)..size,
            (first, "") => number(first)?..size,
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(size)
            }
        };
        if part.start < part.end {
            parts.push(part);
        }
    }
    (count > 0).then_some(parts)
}

/// Digits alone; what does not fit is beyond every file.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(field: &str, size: u64, expected: &Wanted) {
        assert_eq!(wanted(field.as_bytes(), size), *expected, "{field}");
    }

    fn parts(parts: &[(u64, u64)]) -> Wanted {
        Wanted::Parts(parts.iter().map(|(start, end)| *start..*end).collect())
    }

    #[test]
    fn one_range() {
        check("bytes=0-4", 10, &parts(&[(0, 5)]));
        check("bytes=0-0", 10, &parts(&[(0, 1)]));
        check("bytes=5-", 10, &parts(&[(5, 10)]));
        check("bytes=-3", 10, &parts(&[(7, 10)]));
        check("bytes=-30", 10, &parts(&[(0, 10)]));
        check("bytes=5-100", 10, &parts(&[(5, 10)]));
        check("Bytes=5-99999999999999999999999", 10, &parts(&[(5, 10)]));
    }

    #[test]
    fn nothing_of_it() {
        check("bytes=10-", 10, &Wanted::Nothing);
        check("bytes=10-20,30-", 10, &Wanted::Nothing);
        check("bytes=-0", 10, &Wanted::Nothing);
        check("bytes=0-", 0, &Wanted::Nothing);
        check("bytes=-1", 0, &Wanted::Nothing);
    }

    #[test]
    fn several() {
        check("bytes=0-1, 4-5", 10, &parts(&[(0, 2), (4, 6)]));
        check("bytes=4-5,0-1", 10, &parts(&[(4, 6), (0, 2)]));
        check("bytes=0-1,20-30", 10, &parts(&[(0, 2)]));
        check("bytes=0-1,,-1", 10, &parts(&[(0, 2), (9, 10)]));
    }

    #[test]
    fn what_does_not_count() {
        for field in [
            "bytes",
            "bytes=",
            "bytes=,",
            "lines=0-1",
            "bytes=1",
            "bytes=2-1",
            "bytes=a-b",
            "bytes=--1",
            "bytes=-",
            "bytes=+1-2",
        ] {
            check(field, 10, &Wanted::Whole);
        }
        check("bytes=0-5,3-7", 10, &Wanted::Whole);
        check("bytes=0-,-1", 10, &Wanted::Whole);
        let many = |count: u64| (0..count).map(|at| format!("{}-{}", at * 2, at * 2)).collect::<Vec<_>>().join(",");
        check(&format!("bytes={}", many(17)), 1000, &Wanted::Whole);
        assert!(
            matches!(wanted(format!("bytes={}", many(16)).as_bytes(), 1000), Wanted::Parts(parts) if parts.len() == 16)
        );
    }

    proptest! {
        #[test]
        fn parts_are_within_and_apart(field in "bytes=[0-9,\\- ]{0,40}", size in 0_u64..2000) {
            if let Wanted::Parts(parts) = wanted(field.as_bytes(), size) {
                prop_assert!(!parts.is_empty() && parts.len() <= MAX_RANGES);
                prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
                prop_assert!(parts.iter().map(|part| part.end - part.start).sum::<u64>() <= size);
            }
        }
    }
}
