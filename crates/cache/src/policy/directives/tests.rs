use proptest::prelude::*;

use super::*;

fn response(lines: &[&str]) -> ResponseDirectives {
    ResponseDirectives::parse(&headers(&CACHE_CONTROL, lines))
}

fn request(lines: &[&str]) -> RequestDirectives {
    RequestDirectives::parse(&headers(&CACHE_CONTROL, lines))
}

fn headers(name: &http::HeaderName, lines: &[&str]) -> HeaderMap {
    lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap())).collect()
}

#[track_caller]
fn check(lines: &[&str], expected: &str) {
    let found = response(lines);
    assert!(!found.malformed, "{lines:?} is malformed");
    assert_eq!(found.to_string(), expected, "{lines:?}");
}

#[track_caller]
fn check_malformed(line: &str) {
    assert!(response(&[line]).malformed, "{line:?} should be malformed");
}

#[test]
fn reads_lists_case_and_spaces() {
    check(&[], "");
    check(&["max-age=60"], "max-age=60");
    check(&["MAX-AGE=60 ,, \t PuBlIc,"], "public, max-age=60");
    check(&["no-store", "private, s-maxage=5"], "no-store, private, s-maxage=5");
    check(&["must-revalidate,proxy-revalidate,must-understand"], "must-revalidate, proxy-revalidate, must-understand");
    check(&["immutable, x-unknown=\"max-age=1, no-store\""], "");
    let stale = "stale-while-revalidate=60, stale-if-error=5";
    check(&[stale], stale);
}

#[test]
fn field_lists_count_for_the_whole_response() {
    check(&["private=\"x-user, set-cookie\""], "private");
    check(&["no-cache=\"set-cookie\""], "no-cache");
    check(&["no-cache=set-cookie, max-age=1"], "no-cache, max-age=1");
}

#[test]
fn permissions_must_be_well_formed() {
    check(&["public=yes"], "");
    check(&["must-understand=1"], "");
}

#[test]
fn numbers() {
    check(&["max-age=\"60\""], "max-age=60");
    check(&["max-age=0000060"], "max-age=60");
    check(&["max-age=99999999999999999999999999"], "max-age=2147483648");
    check(&["max-age=60, max-age=60"], "max-age=60");
    for invalid in [
        "max-age",
        "max-age=",
        "max-age=-1",
        "max-age=1.5",
        "max-age=1s",
        "max-age='60'",
        "max-age= 60",
        "max-age =60",
        "max-age=6 0",
        "max-age=60, max-age=61",
        "max-age=x, max-age=60",
        "max-age=\"\\60\"",
    ] {
        check(&[invalid], "max-age=?");
    }
}

#[test]
fn what_may_hide_a_restriction_is_malformed() {
    for line in
        ["x=\"no-store", "x=\"a\"b, max-age=1", "\"max-age=60\"", "x=a\"b, c\"", "=60", "x=\"a\\", "max-age=1,=\"\""]
    {
        check_malformed(line);
    }
}

#[test]
fn request_directives() {
    assert_eq!(request(&[]), RequestDirectives::default());
    let all = request(&["no-store, no-cache, only-if-cached, max-age=3", "min-fresh=4, max-stale=5"]);
    assert!(all.no_store && all.no_cache && all.only_if_cached);
    assert_eq!((all.max_age, all.min_fresh, all.max_stale), (Some(3), Some(4), Some(MaxStale::Seconds(5))));
    assert_eq!(request(&["max-stale"]).max_stale, Some(MaxStale::Any));
    assert_eq!(request(&["max-stale, max-stale=3, max-stale=9"]).max_stale, Some(MaxStale::Seconds(3)));
    assert_eq!(request(&["max-stale=x"]).max_stale, Some(MaxStale::Seconds(0)));
    assert_eq!(request(&["max-age=x"]).max_age, Some(0));
    assert_eq!(request(&["max-age=9, max-age=3"]).max_age, Some(3));
    assert_eq!(request(&["stale-if-error=9, stale-if-error=3"]).stale_if_error, Some(3));
    assert_eq!(request(&["stale-if-error=x"]).stale_if_error, None);
    assert_eq!(request(&["min-fresh=x"]).min_fresh, Some(1 << 31));
    assert!(request(&["x=\"open"]).no_cache, "a malformed line asks for validation");
}

#[test]
fn pragma_counts_only_without_cache_control() {
    let mut map = headers(&PRAGMA, &["No-Cache"]);
    assert!(RequestDirectives::parse(&map).no_cache);
    map.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=10"));
    assert!(!RequestDirectives::parse(&map).no_cache);
    assert!(!RequestDirectives::parse(&headers(&PRAGMA, &["x-other"])).no_cache);
}

proptest! {
    #[test]
    fn any_bytes_parse_and_the_canonical_form_is_stable(
        lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..4),
        words in proptest::collection::vec(proptest::sample::select(vec![
            "max-age", "s-maxage", "=", ",", "\"", "\\", " ", "60", "61", "no-store", "private", "no-cache", "public", "x",
        ]), 0..24),
    ) {
        let mut map = HeaderMap::new();
        for line in lines.iter().map(Vec::as_slice).chain([words.concat().as_bytes()]) {
            if let Ok(value) = HeaderValue::from_bytes(line) {
                map.append(CACHE_CONTROL, value);
            }
        }
        RequestDirectives::parse(&map);
        let first = ResponseDirectives::parse(&map);
        let canonical = headers(&CACHE_CONTROL, &[&first.to_string()]);
        let second = ResponseDirectives::parse(&canonical);
        prop_assert_eq!(second, ResponseDirectives { malformed: false, ..first });
    }

    /// A restriction that stands alone between commas is seen whatever well-formed members surround it.
    #[test]
    fn a_restriction_is_never_lost(
        before in proptest::collection::vec("[a-z]{1,8}(=([a-z0-9]{0,5}|\"[a-z, =]{0,8}\"))?", 0..4),
        after in proptest::collection::vec("[a-z]{1,8}(=([a-z0-9]{0,5}|\"[a-z, =]{0,8}\"))?", 0..4),
        separator in "[ \t]{0,2},[ \t,]{0,2}",
    ) {
        let members: Vec<&str> = before.iter().map(String::as_str).chain(["no-store"]).chain(after.iter().map(String::as_str)).collect();
        let line = members.join(&separator);
        let found = response(&[&line]);
        prop_assert!(found.no_store && !found.malformed, "{}", line);
    }
}
