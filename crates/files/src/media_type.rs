//! `Content-Type` by the ending of a name.

use http::HeaderValue;

use crate::options::FileRule;

/// Where the table has another type than IANA's registry, or none, or one that browsers do not take.
const OTHERS: [(&str, &str); 7] = [
    ("cjs", "text/javascript"),
    ("map", "application/json"), // of bundlers
    ("obj", "model/obj"),
    ("rpm", "application/x-rpm"),
    ("stl", "model/stl"),
    ("svgz", "image/svg+xml"),
    ("ts", "video/mp2t"),
];

/// That of the file at a path: what the rules say, or what its ending is for.
pub(crate) fn of(path: &str, rules: &[FileRule]) -> HeaderValue {
    if let Some(value) = FileRule::value_for(rules, path) {
        return value.clone();
    }
    let octets = HeaderValue::from_static("application/octet-stream");
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let other = OTHERS.iter().find(|(other, _)| ending.eq_ignore_ascii_case(other)).map(|(_, kind)| *kind);
    let Some(guess) = other.or_else(|| mime_guess::from_path(path).first_raw()) else { return octets };
    match guess {
        "text/html" => HeaderValue::from_static("text/html; charset=utf-8"),
        "text/javascript" | "application/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
        text if text.starts_with("text/") => HeaderValue::try_from(format!("{text}; charset=utf-8")).unwrap_or(octets),
        other => HeaderValue::from_static(other),
    }
}

/// Whether the bytes of a file are compressed, and its type that of what is in them.
pub(crate) fn is_gzip(path: &str) -> bool {
    path.len() > 5 && path.as_bytes()[path.len() - 5..].eq_ignore_ascii_case(b".svgz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(of(name, &[]), expected, "{name}");
    }

    #[test]
    fn rules_come_first() {
        let rules = [("*.ts", "text/plain"), ("live/*", "video/x")]
            .map(|(pattern, value)| FileRule::new(pattern, HeaderValue::from_static(value)).unwrap());
        for (path, expected) in
            [("a.ts", "text/plain"), ("live/1.ts", "video/x"), ("a.txt", "text/plain; charset=utf-8")]
        {
            assert_eq!(of(path, &rules), expected, "{path}");
        }
    }

    #[test]
    fn types() {
        check("index.html", "text/html; charset=utf-8");
        check("a.HTML", "text/html; charset=utf-8");
        check("app.js", "text/javascript; charset=utf-8");
        check("app.mjs", "text/javascript; charset=utf-8");
        check("a.css", "text/css; charset=utf-8");
        check("a.txt", "text/plain; charset=utf-8");
        check("a.json", "application/json");
        check("a.svg", "image/svg+xml");
        check("a.wasm", "application/wasm");
        check("a.woff2", "font/woff2");
        check("a.webp", "image/webp");
        check("a.avif", "image/avif");
        check("a.pdf", "application/pdf");
        check("app.js.map", "application/json");
        check("site.webmanifest", "application/manifest+json");
        check("a.svgz", "image/svg+xml");
        check("a.cjs", "text/javascript; charset=utf-8");
        check("a.STL", "model/stl");
        check("a.obj", "model/obj");
        check("a.rpm", "application/x-rpm");
        check("live/1.ts", "video/mp2t");
        check("noending", "application/octet-stream");
    }
}
