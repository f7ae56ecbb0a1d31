//! The page that a browser shows for an answer of the gateway: for whoever meets it, not for who runs the gateway.
//! Nothing in it says what is behind the gateway, unless `dev` does.

use std::fmt::Write;

use http::StatusCode;
use pilotlight_printable::html;

/// What a page says.
pub(super) struct Page<'a> {
    pub(super) status: StatusCode,
    /// To be quoted by whoever asks for help.
    pub(super) request_id: &'a str,
    /// For developers; `None` without `dev`.
    pub(super) detail: Option<&'a str>,
    /// The last lines of a service that has failed; empty without `dev`.
    pub(super) output: &'a [String],
}

/// What the page may do: nothing but look as it does. It loads nothing, and is in no frame.
pub(super) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
code,pre{font:.875rem/1.5 ui-monospace,monospace}\
pre{margin:0 0 1rem;padding:.75rem 1rem;background:#f2f3f5;border-radius:.375rem;white-space:pre-wrap;\
overflow-wrap:anywhere}\
@media (prefers-color-scheme:dark){body{background:#16181b;color:#e8eaed}.code,.id{color:#a6adb5}pre{background:#24272b}}";

/// The whole document.
pub(super) fn document(page: &Page<'_>) -> String {
    let (title, text) = words(page.status);
    let mut out = String::with_capacity(2048);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<p class=\"code\">Error {}</p>\n<h1>{title}</h1>\n<p>{text}</p>\n",
        page.status.as_u16()
    );
    if let Some(detail) = page.detail {
        let _ = writeln!(out, "<pre>{}</pre>", html(detail));
    }
    if !page.output.is_empty() {
        let _ = writeln!(out, "<pre>{}</pre>", html(&page.output.join("\n")));
    }
    let _ = write!(
        out,
        "<p class=\"id\">If you ask for help, quote this number: <code>{}</code></p>\n</main>\n</body>\n</html>\n",
        html(page.request_id)
    );
    out
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

    #[test]
    fn nothing_in_it_is_markup_but_its_own() {
        let output = ["<script>alert(1)</script>".to_owned()];
        let page = Page {
            status: StatusCode::BAD_GATEWAY,
            request_id: "\"><img src=x>'&",
            detail: Some("<b>bold</b>"),
            output: &output,
        };
        let text = document(&page);
        for wrong in ["<script", "<img", "<b>", "x>'&"] {
            assert!(!text.contains(wrong), "{wrong} in {text}");
        }
        assert!(text.contains("&quot;&gt;&lt;img src=x&gt;&#39;&amp;"));
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
