//! Variables, patterns and pages, as nginx writes them.

use crate::directive::{Directive, route_path};

/// A text with variables as one with placeholders; none if it has other variables.
pub(super) fn placeholders(text: &str) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let (name, behind) = match after.strip_prefix('{') {
            Some(after) => after.split_once('}')?,
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        rest = behind;
        match name {
            "host" | "http_host" | "server_name" => result.push_str("{host}"),
            "scheme" => result.push_str("{scheme}"),
            "request_uri" => result.push_str("{path}{query}"),
            "uri" | "document_uri" => result.push_str("{path}"),
            "remote_addr" | "realip_remote_addr" => result.push_str("{client}"),
            "request_id" => result.push_str("{request_id}"),
            "is_args" => {
                rest = rest.strip_prefix("$args").or_else(|| rest.strip_prefix("$query_string"))?;
                result.push_str("{query}");
            }
            "args" | "query_string" if result.ends_with('?') => {
                result.pop();
                result.push_str("{query}");
            }
            _ => return None,
        }
    }
    result.push_str(rest);
    Some(result)
}

/// Where a `return` or a `rewrite` sends clients; none if it has placeholders that a redirect has not.
pub(super) fn redirect(text: &str) -> Option<String> {
    let to = placeholders(text)?;
    let is_url = to.starts_with("http://") || to.starts_with("https://") || to.starts_with('/');
    let to = if to.starts_with("{scheme}://") { to } else { is_url.then_some(to)? };
    (!to.contains("{client}") && !to.contains("{request_id}")).then_some(to)
}

/// `error_page 500 502 /50x.html` as statuses and their page.
pub(super) fn status_pages(words: &[String]) -> Option<Vec<(String, String)>> {
    let (page, statuses) = words.split_last()?;
    let page = page.starts_with('/').then(|| page.clone()).filter(|page| !page.contains('$'))?;
    let is_error = |status: &String| status.parse::<u16>().is_ok_and(|status| (400..=599).contains(&status));
    (!statuses.is_empty() && statuses.iter().all(is_error))
        .then(|| statuses.iter().map(|status| (status.clone(), page.clone())).collect())
}

/// What a pattern of `rewrite` stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Every path.
    All,
    /// `^/old$`.
    Exactly(String),
    /// `^/old/(.*)$`: what is below, which is `$1`.
    Below(String),
}

/// A pattern of `rewrite`, if it is a simple one.
pub(super) fn pattern(text: &str) -> Option<Pattern> {
    if matches!(text, "^" | ".*" | "^.*$" | "^(.*)$" | "(.*)" | "^/(.*)$" | "^/(.*)") {
        return Some(Pattern::All);
    }
    let rest = text.strip_prefix('^')?;
    let below = [("/(.*)$", true), ("/(.*)", true), ("/(.+)$", true), ("/?$", false), ("$", false)];
    let (path, is_below) =
        below.iter().find_map(|(end, is_below)| rest.strip_suffix(end).map(|path| (path, *is_below)))?;
    let path = route_path(&path.replace("\\.", ".").replace("\\-", "-"))?;
    Some(if is_below { Pattern::Below(path) } else { Pattern::Exactly(path) })
}

/// The endings of `\.(js|css)$`; none if it is another pattern.
pub(super) fn endings(text: &str) -> Option<Vec<String>> {
    let rest =
        text.strip_prefix("\\.").or_else(|| text.strip_prefix(".*\\.")).or_else(|| text.strip_prefix("^.+\\."))?;
    let rest = rest.strip_suffix('$')?;
    let inner = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('(')).and_then(|rest| rest.strip_suffix(')'));
    let mut endings = Vec::new();
    for word in inner.unwrap_or(rest).split('|') {
        // `jpe?g` is two of them.
        match word.split_once('?') {
            Some((head, tail)) if !head.is_empty() && !tail.contains('?') => {
                endings.push(format!("{head}{tail}"));
                endings.push(format!("{}{tail}", &head[..head.len() - 1]));
            }
            _ => endings.push(word.to_owned()),
        }
    }
    let is_good = |ending: &String| !ending.is_empty() && ending.bytes().all(|b| b.is_ascii_alphanumeric());
    endings.iter().all(is_good).then_some(endings)
}

/// Whether a status of `return` refuses a request.
pub(super) fn is_error(status: &str) -> bool {
    status.parse::<u16>().is_ok_and(|status| (400..600).contains(&status))
}

/// The one thing that a block does: `return` or `deny all`.
pub(super) fn forbids(directive: &Directive) -> bool {
    directive.children().iter().any(|child| match child.name.as_str() {
        "deny" => child.arg(0) == "all",
        "return" => is_error(child.arg(0)),
        "internal" => true,
        _ => false,
    })
}

/// A directive for FastCGI, SCGI or uwsgi as the same for HTTP, if there is one.
pub(super) fn as_of_a_proxy(directive: &Directive) -> Option<Directive> {
    let rest = ["fastcgi_", "uwsgi_", "scgi_"].iter().find_map(|prefix| directive.name.strip_prefix(prefix))?;
    let is_own = matches!(rest, "pass" | "param" | "index" | "split_path_info" | "keep_conn" | "params");
    (!is_own).then(|| Directive { name: format!("proxy_{rest}"), ..directive.clone() })
}

/// The scripts of a location, by their paths below its folder: none for all of them; `None`: they cannot be told.
pub(super) fn script_names(location: &Directive) -> Option<Vec<String>> {
    let [modifier, text] = location.args.as_slice() else {
        return location.args.first().map(|path| vec![path.trim_start_matches('/').to_owned()]);
    };
    if !modifier.starts_with('~') {
        return Some(vec![text.trim_start_matches('/').to_owned()]);
    }
    let (head, tail) = text.split_once("\\.php")?;
    let ends = ["", "$", "(/|$)", "(?:/|$)", "($|/)", "(?:$|/)", "(/.*)?$", "(.*)$", ")(.*)$", ")(/.*)?$", "(/.*)$"];
    if !ends.contains(&tail) {
        return None;
    }
    if matches!(head, "" | "[^/]" | ".+" | ".*" | "^.+" | "^.*" | "(.+" | "^(.+" | "^(.+?" | "^(.*" | "^/.+" | "^/.*") {
        return Some(Vec::new());
    }
    let names = head.strip_prefix("^/")?;
    let names = names.strip_prefix("(?:").or_else(|| names.strip_prefix('(')).unwrap_or(names);
    let names: Vec<&str> = names.trim_end_matches(')').split('|').collect();
    let is_good = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/'))
    };
    names.iter().all(is_good).then(|| names.iter().map(|name| format!("{name}.php")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_placeholders() {
        for (text, expected) in [
            ("https://$host$request_uri", Some("https://{host}{path}{query}")),
            ("$scheme://new.example${uri}$is_args$args", Some("{scheme}://new.example{path}{query}")),
            ("/login?$args", Some("/login{query}")),
            ("$remote_addr", Some("{client}")),
            ("$upstream_addr", None),
            ("${host", None),
        ] {
            assert_eq!(placeholders(text).as_deref(), expected, "{text}");
        }
        assert_eq!(redirect("$remote_addr"), None);
        assert_eq!(redirect("example.org"), None);
    }

    #[test]
    fn scripts_of_a_location() {
        let check = |args: &[&str], expected: Option<&[&str]>| {
            let args = args.iter().map(|&text| text.to_owned()).collect();
            let names = script_names(&Directive { args, ..Directive::default() });
            let expected = expected.map(|names| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
            assert_eq!(names, expected);
        };
        for all in ["\\.php$", "[^/]\\.php(/|$)", "^(.+\\.php)(.*)$", "\\.php(?:$|/)", "^(.+?\\.php)(/.*)?$"] {
            check(&["~", all], Some(&[]));
        }
        check(&["~", "^/index\\.php(/|$)"], Some(&["index.php"]));
        check(&["~*", "^/(app|app_dev|sub/x)\\.php$"], Some(&["app.php", "app_dev.php", "sub/x.php"]));
        check(&["=", "/index.php"], Some(&["index.php"]));
        check(&["/a/x.php"], Some(&["a/x.php"]));
        for odd in ["/uploads/.*\\.php$", "^/[a-z]+\\.php$", "\\.php5?$", "\\.(php|phtml)$"] {
            check(&["~", odd], None);
        }
    }

    #[test]
    fn simple_patterns_are_paths() {
        assert_eq!(pattern("^/old/(.*)$"), Some(Pattern::Below("/old".to_owned())));
        assert_eq!(pattern("^/old/?$"), Some(Pattern::Exactly("/old".to_owned())));
        assert_eq!(pattern("^/(.*)$"), Some(Pattern::All));
        assert_eq!(pattern("^/a/(\\d+)$"), None);
        assert_eq!(endings("\\.(?:css|jpe?g)$"), Some(vec!["css".to_owned(), "jpeg".to_owned(), "jpg".to_owned()]));
        assert_eq!(endings("\\.php$"), Some(vec!["php".to_owned()]));
        assert_eq!(endings("^/a\\.css$"), None);
    }
}
