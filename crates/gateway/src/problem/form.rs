//! The form of an answer that the gateway makes: a document for programs, or a page for a browser.

/// What a client gets to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/problem+json` (RFC 9457).
    Problem,
    /// A page of HTML.
    Page,
}

/// Weights (RFC 9110 §12.4.2) in thousandths.
const FULL: u16 = 1000;

impl Form {
    /// By `Accept` (RFC 9110 §12.5.1), all lines of it; `None` if it names neither HTML nor JSON, as those of most
    /// programs do. Of both, the one with the greater weight counts, then the first.
    pub(crate) fn preferred(accept: Option<&[u8]>) -> Option<Self> {
        let accept = accept?;
        // The greatest weight of each, and where it stands; the first of equals counts.
        let (mut page, mut problem): (Option<u16>, Option<u16>) = (None, None);
        let mut page_is_first = false;
        for member in accept.split(|byte| *byte == b',') {
            let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let media = parts.next().unwrap_or_default();
            let is = |names: &[&str]| names.iter().any(|name| media.eq_ignore_ascii_case(name.as_bytes()));
            let weight = parts.find_map(weight).unwrap_or(FULL);
            if is(&["text/html", "application/xhtml+xml"]) {
                page_is_first |= problem.is_none();
                page = page.max(Some(weight));
            } else if is(&["application/problem+json", "application/json"]) {
                problem = problem.max(Some(weight));
            }
        }
        match (page, problem) {
            (Some(0) | None, Some(0) | None) => None,
            (Some(page), Some(problem)) if page > problem || page == problem && page_is_first => Some(Self::Page),
            (Some(_), None) => Some(Self::Page),
            (_, Some(_)) => Some(Self::Problem),
        }
    }
}

/// `q=0.5`; what is no weight counts as none at all.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (name, value) = (parameter.get(..2)?, parameter.get(2..)?);
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let weight: f32 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    Some((weight.clamp(0.0, 1.0) * f32::from(FULL)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<Form>) {
        assert_eq!(Form::preferred(Some(accept.as_bytes())), expected, "{accept}");
    }

    #[test]
    fn browsers_get_pages_and_programs_documents() {
        assert_eq!(Form::preferred(None), None);
        for accept in ["", "*/*", "text/*", "image/png", "text/html;q=0"] {
            check(accept, None);
        }
        for accept in [
            "application/json",
            "application/json, text/html",
            "text/html;q=0.5, application/json",
            "application/problem+json, text/html;q=0.9, */*",
            "text/html;q=0, application/json;q=0.1",
        ] {
            check(accept, Some(Form::Problem));
        }
        for accept in [
            "text/html",
            "TEXT/HTML; q=0.4",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
            "text/html, application/json",
            "application/json;q=0.5, text/html;charset=utf-8;q=0.6",
            "application/xhtml+xml",
        ] {
            check(accept, Some(Form::Page));
        }
    }
}
