//! The page that a browser shows for an answer of the gateway: for whoever meets it, not for who runs the gateway.
//! Nothing in it says what is behind the gateway, unless `dev` does.

use std::fmt::Write;

use http::StatusCode;
use pilotlight_printable::html;

use super::trace::Found;

/// What a page says.
pub(super) struct Page<'a> {
    pub(super) status: StatusCode,
    /// To be quoted by whoever asks for help.
    pub(super) request_id: &'a str,
    /// For developers; `None` without `dev`.
    pub(super) detail: Option<&'a str>,
    /// The last lines of a service that has failed; empty without `dev`.
    pub(super) output: &'a [String],
    /// What in the output says where to look.
    pub(super) found: Option<Found<'a>>,
    /// The page loads itself again when the program has changed since then, in milliseconds since 1970.
    pub(super) since_ms: Option<u64>,
}

/// What the page may do: nothing but look as it does. It loads nothing, and is in no frame.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The same for a page that loads itself again: it runs [`SCRIPT`], known by its SHA-256, and asks this host.
const RELOADING_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
script-src 'sha256-EOetwkYTk6eDhAzNmBWCxx7lM3VUg1m3dUL2N8l9Jqo='; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What such a page runs. What is particular to it stands in its body.
const SCRIPT: &str =
    "new EventSource('/.well-known/pilotlight/dev?since='+document.body.dataset.since).onmessage=()=>location.reload()";

/// What a page may do.
pub(super) fn policy(reloads: bool) -> &'static str {
    if reloads { RELOADING_POLICY } else { POLICY }
}

const STYLE: &str = "\
:root{color-scheme:light dark}\
*{box-sizing:border-box}\
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:#fff;color:#1c1f23;\
font:1.0625rem/1.6 system-ui,sans-serif}\
main{width:100%;max-width:38rem}\
.code{margin:0;font-size:1rem;font-weight:600;color:#5a6068}\
h1{margin:.25rem 0 1rem;font-size:1.75rem;line-height:1.25}\
p{margin:0 0 1rem}\
.id{margin-top:2rem;font-size:.875rem;color:#5a6068;overflow-wrap:anywhere}\
.wide{max-width:60rem}\
.place{overflow-wrap:anywhere}\
mark{background:#ffe9a8;color:inherit}\
code,pre{font:.875rem/1.5 ui-monospace,monospace}\
pre{margin:0 0 1rem;padding:.75rem 1rem;background:#f2f3f5;border-radius:.375rem;white-space:pre-wrap;\
overflow-wrap:anywhere}\
@media (prefers-color-scheme:dark){body{background:#16181b;color:#e8eaed}.code,.id{color:#a6adb5}pre{background:#24272b}mark{background:#4d3b00}}";

/// The whole document.
pub(super) fn document(page: &Page<'_>) -> String {
    let (title, text) = match page.since_ms {
        Some(_) if !page.output.is_empty() => ("The program does not start", "What it printed last is below."),
        _ => words(page.status),
    };
    let since = page.since_ms.map(|since| format!(" data-since=\"{since}\"")).unwrap_or_default();
    let class = if page.output.is_empty() { "" } else { " class=\"wide\"" };
    let mut out = String::with_capacity(2048);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body{since}>\n<main{class}>\n<p class=\"code\">Error {}</p>\n<h1>{title}</h1>\n<p>{text}</p>\n",
        page.status.as_u16()
    );
    if let Some(detail) = page.detail {
        let _ = writeln!(out, "<pre>{}</pre>", html(detail));
    }
    output(&mut out, page);
    if page.since_ms.is_some() {
        let _ = writeln!(out, "<p>This page loads itself again when a file is saved.</p>\n<script>{SCRIPT}</script>");
    }
    let _ = write!(
        out,
        "<p class=\"id\">If you ask for help, quote this number: <code>{}</code></p>\n</main>\n</body>\n</html>\n",
        html(page.request_id)
    );
    out
}

/// What the service printed last: first what it says is wrong and where, then all of it, with that part marked.
fn output(out: &mut String, page: &Page<'_>) {
    if page.output.is_empty() {
        return;
    }
    if let Some(found) = &page.found {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "<p class=\"place\"><strong>{}</strong></p>", html(found.message));
        let _ = writeln!(out, "<p>Look at <code>{}</code></p>", html(&found.place()));
    }
    out.push_str("<pre tabindex=\"0\" aria-label=\"Output of the service\">");
    for (number, line) in page.output.iter().enumerate() {
        let is_trace = page.found.as_ref().is_some_and(|found| found.lines.contains(&number));
        let line = html(line);
        let _ = if is_trace { writeln!(out, "<mark>{line}</mark>") } else { writeln!(out, "{line}") };
    }
    out.push_str("</pre>\n");
}

/// What a status means to a visitor, and what he can do.
fn words(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 => ("This request is not valid", "The address or what was sent with it has a mistake."),
        401 => ("Please sign in", "This page is only for people who are signed in."),
        403 => ("You may not open this page", "You do not have permission to see what is here."),
        404 | 410 => (
            "There is no such page",
            "Nothing is at this address. It may have moved, or the link that led here may have a mistake.",
        ),
        405 | 501 => ("This cannot be done here", "The server does not support what was asked for."),
        408 => ("The request took too long", "It did not arrive in time. Please check your connection and try again."),
        413 => ("This is too large", "What you sent is larger than this site accepts."),
        429 => ("Too many requests", "You have asked for much in a short time. Please wait a moment and try again."),
        431 => ("The request is too large", "Deleting the cookies of this site may help."),
        503 => ("The site is busy or being restarted", "Please try again in a moment. Nothing is wrong on your side."),
        504 => ("The site takes too long", "It did not answer in time. Please try again in a few minutes."),
        _ if status.is_client_error() => {
            ("This request cannot be answered", "The server does not accept what was asked for.")
        }
        _ => ("Something went wrong", "The fault is on our side, not on yours. Please try again in a few minutes."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn nothing_in_it_is_markup_but_its_own() {
        let output = ["<script>alert(1)</script>".to_owned()];
        let page = Page {
            status: StatusCode::BAD_GATEWAY,
            request_id: "\"><img src=x>'&",
            detail: Some("<b>bold</b>"),
            output: &output,
            found: None,
            since_ms: None,
        };
        let text = document(&page);
        for wrong in ["<script", "<img", "<b>", "x>'&"] {
            assert!(!text.contains(wrong), "{wrong} in {text}");
        }
        assert!(text.contains("&quot;&gt;&lt;img src=x&gt;&#39;&amp;"));
    }

    fn failing(output: &[String], since_ms: Option<u64>) -> String {
        let found = super::super::trace::find(output);
        let status = StatusCode::SERVICE_UNAVAILABLE;
        document(&Page { status, request_id: "1", detail: Some("it ended"), output, found, since_ms })
    }

    #[test]
    fn a_trace_is_named_first_and_marked() {
        let output = [
            "serving",
            "Traceback (most recent call last):",
            "  File \"/srv/a&b.py\", line 3, in <module>",
            "<b>Error: x",
        ];
        let text = failing(&output.map(str::to_owned), Some(17));
        for right in [
            "<body data-since=\"17\">",
            "<strong>&lt;b&gt;Error: x</strong>",
            "<code>/srv/a&amp;b.py:3</code>",
            "serving\n<mark>Traceback",
        ] {
            assert!(text.contains(right), "{right} in {text}");
        }
    }

    #[test]
    fn only_a_page_that_is_followed_runs_something_and_only_that() {
        assert!(!failing(&["x".to_owned()], None).contains("<script"));
        assert_eq!(failing(&["<script>".to_owned()], Some(1)).matches("<script").count(), 1);
        assert_eq!(policy(false), POLICY);
        let hash = ring::digest::digest(&ring::digest::SHA256, SCRIPT.as_bytes());
        let source = format!("script-src 'sha256-{}';", STANDARD.encode(hash));
        assert!(policy(true).contains(&source), "{source}");
        assert!(SCRIPT.contains(crate::EVENTS_PATH));
    }

    #[test]
    fn every_error_has_words() {
        for code in 400..=599 {
            let status = StatusCode::from_u16(code).unwrap();
            let (title, text) = words(status);
            assert!(!title.ends_with('.') && text.ends_with('.'), "{code}");
        }
    }
}
