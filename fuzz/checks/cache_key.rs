//! The target of a request on the first line, its `Cookie` and `Accept-Language` on the lines behind it: whatever they
//! say, keys are made of them without a panic, what is made once stays as it is, and nothing is in a target that was
//! not there.

use http::Method;
use http::header::{ACCEPT_LANGUAGE, COOKIE, HeaderMap, HeaderValue};
use pilotlight_cache::{
    BypassRules, ExtraTooLong, KeyRules, MAX_EXTRA_BYTES, NamePattern, NamePatterns, Parameters, QueryRules,
};

pub(crate) fn check(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let target = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut request = HeaderMap::new();
    for (index, line) in lines.take(8).enumerate() {
        let name = if index % 2 == 0 { COOKIE } else { ACCEPT_LANGUAGE };
        if let Ok(value) = HeaderValue::from_bytes(line) {
            request.append(name, value);
        }
    }
    for parameters in [Parameters::All, Parameters::Except(patterns()), Parameters::Only(patterns())] {
        for sort in [false, true] {
            let query = QueryRules { parameters: parameters.clone(), sort };
            let rules = KeyRules {
                query,
                cookies: vec!["a".to_owned()],
                headers: vec![ACCEPT_LANGUAGE],
                ..KeyRules::default()
            };
            of_target(&rules, &target);
            of_fields(&rules, &request);
        }
    }
    let bypass = BypassRules { cookies: patterns(), query: patterns(), ..BypassRules::default() };
    let plain = target.split_once('?').is_some_and(|(_, query)| query == "a" || query.starts_with("a="));
    let applies = bypass.applies(&Method::GET, &target, &request);
    assert!(applies.is_some() || !plain, "{target:?} has the parameter a");
}

fn patterns() -> NamePatterns {
    NamePatterns(["a", "utm_*"].iter().filter_map(|text| text.parse::<NamePattern>().ok()).collect())
}

fn of_target(rules: &KeyRules, target: &str) {
    let once = rules.target(target).into_owned();
    assert_eq!(rules.target(&once), once.as_str(), "made again, it is another key");
    let parts = |text: &str| text.split(['?', '&']).map(str::to_owned).collect::<Vec<_>>();
    let mut before = parts(target);
    for part in parts(&once) {
        let place = before.iter().position(|one| *one == part);
        assert!(place.is_some(), "{part:?} of {once:?} is not in {target:?}");
        place.map(|place| before.remove(place));
    }
}

fn of_fields(rules: &KeyRules, request: &HeaderMap) {
    match rules.extra(request) {
        Err(ExtraTooLong) => {}
        Ok(text) => {
            assert!(text.len() <= MAX_EXTRA_BYTES && text.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{text:?}");
            assert!(text.starts_with("cookie") && text.contains(" header:accept-language"), "{text:?}");
            if rules.covers_cookies(request) && request.contains_key(COOKIE) {
                assert!(text.starts_with("cookie:a="), "{text:?} has all cookies of {request:?}");
            }
        }
    }
}
