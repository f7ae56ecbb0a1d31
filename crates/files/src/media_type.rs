//! `Content-Type` by the ending of a name.

use http::HeaderValue;

/// That of a file with this name.
pub(crate) fn of(name: &str) -> HeaderValue {
    let octets = HeaderValue::from_static("application/octet-stream");
    // Not in the table, or as what they were before.
    if name.ends_with(".map") {
        return HeaderValue::from_static("application/json"); // of bundlers: JSON
    }
    let Some(guess) = mime_guess::from_path(name).first_raw() else { return octets };
    match guess {
        "text/html" => HeaderValue::from_static("text/html; charset=utf-8"),
        "text/javascript" | "application/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
        text if text.starts_with("text/") => HeaderValue::try_from(format!("{text}; charset=utf-8")).unwrap_or(octets),
        other => HeaderValue::from_static(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(of(name), expected, "{name}");
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
        check("noending", "application/octet-stream");
    }
}
