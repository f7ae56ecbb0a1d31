//! Published examples, and tokens that nobody may take.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::{Algorithm, Claims, Cost, Expiry, KeySet, KeysError, Rules, Token, TokenError};

/// RFC 7515 §A.2.1.
const RSA: &str = r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
/// RFC 7515 §A.3.1.
const EC: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
/// RFC 8037 §A.2.
const ED: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
/// RFC 7515 §A.1.1: `{"iss":"joe", "exp":1300819380, "http://example.com/is_root":true}`.
const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RS256: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const ES256: &str = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const HS256: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// Before the `exp` of the examples.
const THEN: u64 = 1_300_819_000;
const NOW: u64 = 1_800_000_000;

fn set(keys: &[&str]) -> KeySet {
    KeySet::parse(format!("{{\"keys\":[{}]}}", keys.join(",")).as_bytes()).unwrap()
}

fn open() -> Rules {
    Rules { expiry: Expiry::Optional, ..Rules::default() }
}

fn verify(keys: &KeySet, text: &str, rules: &Rules, now: u64) -> Result<Claims, TokenError> {
    let token = Token::parse(text.as_bytes())?;
    let cost = keys.cost(&token, rules);
    let verified = keys.verify(&token, rules, now);
    if let Err(e) = cost {
        assert_eq!(verified.as_ref().err(), Some(&e), "what the cost refuses, the verdict refuses");
    }
    verified
}

/// A token by a header as it is.
fn example(header: &str, signature: &str) -> String {
    format!("{}.{PAYLOAD}.{signature}", URL_SAFE_NO_PAD.encode(header))
}

#[test]
fn examples_of_rfc_7515() {
    let rules = Rules { issuers: vec!["joe".to_owned()], ..Rules::default() };
    let (rsa, ec) = (set(&[RSA]), set(&[EC]));
    let rs256 = example("{\"alg\":\"RS256\"}", RS256);
    let es256 = example("{\"alg\":\"ES256\"}", ES256);
    assert_eq!(verify(&rsa, &rs256, &rules, THEN).map(|claims| claims.expires()), Ok(Some(1_300_819_380)));
    assert!(verify(&ec, &es256, &rules, THEN).is_ok());
    assert_eq!(rsa.cost(&Token::parse(rs256.as_bytes()).unwrap_or_else(|e| panic!("{e}")), &rules), Ok(Cost::Small));
    assert_eq!(verify(&rsa, &rs256, &rules, NOW), Err(TokenError::Expired));
    // Another key, another algorithm of the same key, one bit.
    assert_eq!(verify(&ec, &rs256, &rules, THEN), Err(TokenError::Algorithm));
    assert_eq!(verify(&rsa, &example("{\"alg\":\"RS384\"}", RS256), &rules, THEN), Err(TokenError::UnknownKey));
    assert_eq!(verify(&rsa, &example("{\"alg\":\"PS256\"}", RS256), &rules, THEN), Err(TokenError::UnknownKey));
    assert_eq!(verify(&rsa, &rs256.replace(".cC4", ".cC5"), &rules, THEN), Err(TokenError::UnknownKey));
    assert_eq!(verify(&rsa, &rs256.replace(".eyJpc3", ".eyJpc2"), &rules, THEN), Err(TokenError::UnknownKey));
    let strict = Rules { algorithms: vec![Algorithm::Ps256], ..rules };
    assert_eq!(verify(&rsa, &rs256, &strict, THEN), Err(TokenError::Algorithm));
}

/// RFC 8037 §A.4: its payload is a text.
#[test]
fn example_of_rfc_8037() {
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let text = format!("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.{signature}");
    let keys = set(&[ED]);
    assert_eq!(verify(&keys, &text, &open(), NOW), Err(TokenError::Claims), "the signature is right");
    let other = text.replace("RXhhb", "RXhhc");
    assert_eq!(verify(&keys, &other, &open(), NOW), Err(TokenError::UnknownKey), "the signature is wrong");
}

/// RFC 7515 §A.1, §A.5; RFC 8725 §2.1.
#[test]
fn no_token_chooses_how_it_is_verified() {
    let keys = set(&[RSA, EC, ED]);
    assert_eq!(verify(&keys, &example("{\"alg\":\"none\"}", ""), &open(), THEN), Err(TokenError::Algorithm));
    assert_eq!(verify(&keys, &example("{\"alg\":\"nOnE\"}", ""), &open(), THEN), Err(TokenError::Algorithm));
    assert_eq!(verify(&keys, &example("{\"alg\":\"HS256\"}", HS256), &open(), THEN), Err(TokenError::Algorithm));
    // A key of its own in the header (jwk) is no key.
    let own = format!("{{\"alg\":\"ES256\",\"jwk\":{EC}}}");
    assert_eq!(verify(&set(&[RSA]), &example(&own, ES256), &open(), THEN), Err(TokenError::Algorithm));
    // Empty and all-zero signatures (CVE-2022-21449).
    for signature in [String::new(), "A".repeat(86)] {
        let text = example("{\"alg\":\"ES256\"}", &signature);
        assert_eq!(verify(&keys, &text, &open(), THEN), Err(TokenError::UnknownKey));
    }
}

#[test]
fn the_algorithm_of_a_key_is_the_only_one() {
    let ps = RSA.replace("\"kty\"", "\"alg\":\"PS256\",\"kid\":\"a\",\"kty\"");
    let text = example("{\"alg\":\"RS256\",\"kid\":\"a\"}", RS256);
    assert_eq!(verify(&set(&[&ps]), &text, &open(), THEN), Err(TokenError::Algorithm));
}

#[test]
fn keys_by_their_names() {
    let (ann, bob) = (Signer::new("ann"), Signer::new("bob"));
    let keys = set(&[&ann.jwk(), &bob.jwk()]);
    let claims = json!({ "exp": NOW + 10, "sub": "x" });
    assert!(verify(&keys, &ann.token(&claims), &open(), NOW).is_ok());
    assert!(verify(&keys, &bob.token(&claims), &open(), NOW).is_ok());
    let as_bob = Signer { kid: "bob", ..Signer::of(&ann) };
    assert_eq!(verify(&keys, &as_bob.token(&claims), &open(), NOW), Err(TokenError::Signature));
    let as_new = Signer { kid: "new", ..Signer::of(&ann) };
    assert_eq!(verify(&keys, &as_new.token(&claims), &open(), NOW), Err(TokenError::UnknownKey));
    let nameless = Signer { kid: "", ..Signer::of(&bob) };
    assert!(verify(&keys, &nameless.token(&claims), &open(), NOW).is_ok());
}

#[track_caller]
fn check_claims(rules: &Rules, claims: impl Into<Option<Value>>, expected: Result<(), TokenError>) {
    let (signer, claims) = (Signer::new("a"), claims.into().unwrap_or_default());
    let verified = verify(&set(&[&signer.jwk()]), &signer.token(&claims), rules, NOW).map(drop);
    assert_eq!(verified, expected, "{claims}");
}

#[test]
fn times() {
    let rules = Rules::default();
    let (soon, leeway) = (NOW + 10, 60);
    check_claims(&rules, json!({ "exp": soon }), Ok(()));
    check_claims(&rules, json!({ "exp": soon as f64 + 0.5 }), Ok(()));
    check_claims(&rules, json!({ "exp": NOW - leeway + 1 }), Ok(()));
    check_claims(&rules, json!({ "exp": NOW - leeway }), Err(TokenError::Expired));
    check_claims(&rules, json!({ "exp": -1 }), Err(TokenError::Expired));
    check_claims(&rules, json!({}), Err(TokenError::NoExpiry));
    check_claims(&open(), json!({}), Ok(()));
    check_claims(&open(), json!({ "exp": NOW - leeway }), Err(TokenError::Expired));
    for odd in [json!(soon.to_string()), json!(null), json!([soon])] {
        check_claims(&rules, json!({ "exp": odd }), Err(TokenError::Claims));
    }
    for name in ["nbf", "iat"] {
        check_claims(&rules, json!({ "exp": soon, name: NOW + leeway }), Ok(()));
        check_claims(&rules, json!({ "exp": soon, name: NOW + leeway + 1 }), Err(TokenError::NotYet));
        check_claims(&rules, json!({ "exp": soon, name: "now" }), Err(TokenError::Claims));
    }
}

#[test]
fn who_it_is_from_and_for() {
    let one = |text: &str| vec![text.to_owned()];
    let rules = Rules { issuers: one("https://a"), audiences: vec!["x".to_owned(), "y".to_owned()], ..open() };
    check_claims(&rules, json!({ "iss": "https://a", "aud": "x" }), Ok(()));
    check_claims(&rules, json!({ "iss": "https://a", "aud": ["z", "y"] }), Ok(()));
    check_claims(&rules, json!({ "iss": "https://a/", "aud": "x" }), Err(TokenError::Issuer));
    check_claims(&rules, json!({ "aud": "x" }), Err(TokenError::Issuer));
    check_claims(&rules, json!({ "iss": ["https://a"], "aud": "x" }), Err(TokenError::Claims));
    for aud in [json!("X"), json!("x y"), json!([]), json!(["z"])] {
        check_claims(&rules, json!({ "iss": "https://a", "aud": aud }), Err(TokenError::Audience));
    }
    check_claims(&rules, json!({ "iss": "https://a" }), Err(TokenError::Audience));
    check_claims(&rules, json!({ "iss": "https://a", "aud": ["x", 1] }), Err(TokenError::Claims));

    let rules = Rules { scopes: vec!["read".to_owned(), "write".to_owned()], ..open() };
    check_claims(&rules, json!({ "scope": "write admin read" }), Ok(()));
    check_claims(&rules, json!({ "scp": ["read", "write"] }), Ok(()));
    for scope in [json!("read"), json!("readwrite"), json!(["read"]), json!("")] {
        check_claims(&rules, json!({ "scope": scope }), Err(TokenError::Scope));
    }
    check_claims(&rules, json!({}), Err(TokenError::Scope));
}

#[test]
fn sets_of_keys() {
    let parse = |text: &str| KeySet::parse(text.as_bytes());
    for text in ["", "[]", "{}", "{\"keys\":{}}", RSA] {
        assert_eq!(parse(text), Err(KeysError::NoSet), "{text}");
    }
    assert!(matches!(parse("{\"keys\":[]}"), Err(KeysError::NoneOfUse { count: 0, .. })));
    let many = format!("{{\"keys\":[{}]}}", [EC; crate::MAX_KEYS + 1].join(","));
    assert_eq!(parse(&many), Err(KeysError::TooMany(crate::MAX_KEYS + 1)));
    assert_eq!(parse(&" ".repeat(crate::MAX_SET_BYTES + 1)), Err(KeysError::TooLarge));
    let others = [
        (r#"{"kty":"oct","k":"AAAA","kid":"s"}"#, "key 2 (\"s\"): it is a shared secret, which could also sign"),
        (r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#, "key 2: its curve is not supported (crv)"),
        (r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#, "key 2: its point is of another length"),
        (
            r#"{"kty":"RSA","n":"AAAA","e":"AQAB"}"#,
            "key 2: it is an RSA key of less than 2048 or more than 8192 bits, or with a large exponent",
        ),
        (r#"{"kty":"RSA","e":"AQAB"}"#, "key 2: it is incomplete"),
        (r#"{"kty":"RSA","use":"enc"}"#, "key 2: it is not for signatures (use)"),
        (r#"{"kty":"RSA","key_ops":["encrypt"]}"#, "key 2: it is not for verifying (key_ops)"),
        (r#"7"#, "key 2: it is no JSON object"),
        (r#"{"kty":"PQ"}"#, "key 2: its type is not supported (kty)"),
    ];
    for (other, why) in others {
        let keys = set(&[EC, other]);
        assert_eq!((keys.count(), keys.skipped()), (1, &[why.to_owned()][..]));
    }
    let hs = RSA.replace("\"kty\"", "\"alg\":\"HS256\",\"kty\"");
    assert_eq!(set(&[EC, &hs]).skipped(), ["key 2: its algorithm is not supported (alg)"]);
    let padded = RSA.replace("\"n\":\"ofgW", "\"n\":\"AAAAofgW");
    assert!(verify(&set(&[&padded]), &example("{\"alg\":\"RS256\"}", RS256), &open(), THEN).is_ok(), "leading zeros");
}

/// Without a name nobody has to try a hundred keys.
#[test]
fn a_token_that_names_no_key_is_tried_with_few() {
    let all: Vec<Signer> = (0..5).map(|_| Signer::new("")).collect();
    let jwks: Vec<String> = all.iter().map(Signer::jwk).collect();
    let texts: Vec<&str> = jwks.iter().map(String::as_str).collect();
    let token = all[0].token(&json!({}));
    assert!(verify(&set(&texts[..4]), &token, &open(), NOW).is_ok());
    assert_eq!(verify(&set(&texts), &token, &open(), NOW), Err(TokenError::UnknownKey));
}

/// What one signature costs; `cargo test --release -p pilotlight-jwt -- --ignored --nocapture costs`.
#[test]
#[ignore = "a measurement"]
fn costs() {
    let signer = Signer::new("a");
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(key.public_key()) }).to_string();
    let signed = format!("{}.{PAYLOAD}", URL_SAFE_NO_PAD.encode("{\"alg\":\"EdDSA\"}"));
    let ed_token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())));
    for (name, keys, token) in [
        ("RS256, 2048 bits", set(&[RSA]), example("{\"alg\":\"RS256\"}", RS256)),
        ("ES256", set(&[&signer.jwk()]), signer.token(&json!({ "exp": NOW }))),
        ("EdDSA", set(&[&ed]), ed_token),
    ] {
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..11 {
            let begun = std::time::Instant::now();
            for _ in 0..1000 {
                verify(&keys, &token, &open(), THEN).unwrap();
            }
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        println!("{name}: {:.1} us ({:.1} – {:.1})", times[5], times[0], times[10]);
    }
}

proptest! {
    #[test]
    fn nothing_is_too_odd_to_be_refused(text: Vec<u8>, parts in proptest::collection::vec("[A-Za-z0-9_=-]{0,40}", 0..7)) {
        let keys = set(&[RSA, EC, ED]);
        let joined = parts.join(".");
        for text in [&text[..], joined.as_bytes()] {
            if let Ok(token) = Token::parse(text) {
                prop_assert!(keys.verify(&token, &open(), NOW).is_err());
            }
        }
        let _ = KeySet::parse(&text);
    }

    #[test]
    fn odd_headers_and_payloads(header in json_text(), payload in json_text()) {
        let signer = Signer::new("a");
        let keys = set(&[&signer.jwk()]);
        let text = signer.sign(&header, &payload);
        if let Ok(token) = Token::parse(text.as_bytes())
            && let Ok(claims) = keys.verify(&token, &Rules::default(), NOW)
        {
            prop_assert!(claims.expires().is_some_and(|expires| expires + 60 > NOW));
            let _ = claims.as_text("a.b");
        }
    }

    #[test]
    fn odd_keys(members in proptest::collection::vec(("kty|crv|n|e|x|y|alg|use|kid|key_ops", "RSA|EC|OKP|P-256|Ed25519|AQAB|[A-Za-z0-9_-]{0,50}"), 0..8)) {
        let key: serde_json::Map<String, Value> = members.into_iter().map(|(name, value)| (name, value.into())).collect();
        let _ = KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes());
    }
}

fn json_text() -> impl Strategy<Value = String> {
    let member = (
        "alg|kid|crit|typ|exp|nbf|iat|iss|aud|scope|a",
        "\"ES256\"|\"a\"|1800000100|1e400|-1|null|\\[\"a\",\\{\\}\\]|\\{\"b\":2\\}|x",
    );
    proptest::collection::vec(member, 0..6).prop_map(|members| {
        let members: Vec<String> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{\"alg\":\"ES256\",{}}}", members.join(",")).replace(",}", "}")
    })
}

/// Who signs by ES256.
struct Signer {
    pkcs8: Vec<u8>,
    kid: &'static str,
}

impl Signer {
    fn new(kid: &'static str) -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self { pkcs8: pkcs8.as_ref().to_vec(), kid }
    }

    fn of(other: &Self) -> Self {
        Self { pkcs8: other.pkcs8.clone(), kid: other.kid }
    }

    fn pair(&self) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.pkcs8, &SystemRandom::new()).unwrap()
    }

    fn jwk(&self) -> String {
        let pair = self.pair();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let mut key = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y });
        if !self.kid.is_empty() {
            key["kid"] = self.kid.into();
        }
        key.to_string()
    }

    fn token(&self, claims: &Value) -> String {
        let mut header = json!({ "alg": "ES256" });
        if !self.kid.is_empty() {
            header["kid"] = self.kid.into();
        }
        self.sign(&header.to_string(), &claims.to_string())
    }

    fn sign(&self, header: &str, payload: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = self.pair().sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
