//! Signed tokens, whatever their bytes are: nothing panics, nobody without the key makes a token that is taken, and of
//! claims that an issuer has signed only those are taken that the rules allow.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pilotlight_jwt::{ClaimText, Expiry, KeySet, MAX_CLAIM_BYTES, MAX_KEYS, Rules, Token};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// Keys of RFC 7515 §A.2.1, §A.3.1 and RFC 8037 §A.2.
const KEYS: &str = r#"{"keys":[
{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"},
{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// What the owners of these keys have signed (RFC 7515 §A.2, §A.3): headers and payload.
const SIGNED: [&str; 2] = ["eyJhbGciOiJSUzI1NiJ9", "eyJhbGciOiJFUzI1NiJ9"];
const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
/// Before the `exp` of the examples.
const NOW: u64 = 1_300_819_000;

/// The first byte says what the rest is: a token, a set of keys, or claims that an issuer signs.
pub(crate) fn check(data: &[u8]) {
    let Some((&what, rest)) = data.split_first() else { return };
    match what % 3 {
        0 => token(rest),
        1 => keys(rest),
        _ => claims(rest),
    }
}

/// By somebody who has no key.
fn token(text: &[u8]) {
    let keys = KeySet::parse(KEYS.as_bytes());
    assert!(keys.is_ok(), "the keys of the examples");
    let (Ok(keys), Ok(token)) = (keys, Token::parse(text)) else { return };
    let rules = Rules { expiry: Expiry::Optional, ..Rules::default() };
    let (cost, verified) = (keys.cost(&token, &rules), keys.verify(&token, &rules, NOW));
    assert!(cost.is_ok() || verified.is_err(), "what the cost refuses, the verdict refuses");
    if verified.is_ok() {
        let is_theirs = SIGNED.iter().any(|header| text.starts_with(format!("{header}.{PAYLOAD}.").as_bytes()));
        assert!(is_theirs, "a token was taken that no owner of a key has made");
    }
}

fn keys(text: &[u8]) {
    let Ok(keys) = KeySet::parse(text) else { return };
    assert!((1..=MAX_KEYS).contains(&keys.count()));
    for header in SIGNED {
        let text = format!("{header}.{PAYLOAD}.{}", "A".repeat(86));
        let is_taken = Token::parse(text.as_bytes()).map(|token| keys.verify(&token, &Rules::default(), NOW).is_ok());
        assert_eq!(is_taken, Ok(false), "a signature of zeros (CVE-2022-21449)");
    }
}

/// By an issuer whose key is known.
fn claims(payload: &[u8]) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]);
    assert!(pair.is_ok(), "any 32 bytes are a seed");
    let Ok(pair) = pair else { return };
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let set = format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{x}\"}}]}}");
    let signed = format!("eyJhbGciOiJFZERTQSJ9.{}", URL_SAFE_NO_PAD.encode(payload)); // EdDSA
    let text = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes())));
    let (keys, token) = (KeySet::parse(set.as_bytes()), Token::parse(text.as_bytes()));
    assert!(keys.is_ok(), "a key that can verify");
    let (Ok(keys), Ok(token)) = (keys, token) else { return };
    let rules = Rules {
        issuers: vec!["joe".to_owned()],
        audiences: vec!["shop".to_owned()],
        scopes: vec!["read".to_owned()],
        ..Rules::default()
    };
    for rules in [Rules::default(), rules] {
        let Ok(claims) = keys.verify(&token, &rules, NOW) else { continue };
        assert!(
            claims.expires().is_some_and(|end| end.saturating_add(rules.leeway.as_secs()) >= NOW),
            "an expired token was taken"
        );
        let ours = [("iss", &rules.issuers), ("aud", &rules.audiences)];
        for (name, listed) in ours.into_iter().filter(|(_, listed)| !listed.is_empty()) {
            let ClaimText::Text(said) = claims.as_text(name) else { continue }; // a list with a comma in one of its texts
            assert!(said.split(',').any(|one| listed.iter().any(|ours| ours == one)), "{name} is another one");
        }
        for path in ["sub", "iss", "scope", "a.b", "aud", ""] {
            if let ClaimText::Text(text) = claims.as_text(path) {
                assert!(text.len() <= MAX_CLAIM_BYTES);
            }
        }
    }
}
