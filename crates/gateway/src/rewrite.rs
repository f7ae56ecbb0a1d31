//! Another path for the service than the one that the client asks for.
//!
//! It is matched as routes are: without dot segments, on whole segments. What the client wrote stays what the request
//! is for: its place in the cache, what is logged, what redirects of the service refer to.

use std::fmt;

use crate::path::normalized;

/// From a client's path to that of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    from: From,
    to: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    /// The path and everything below it; without a slash at the end.
    Prefix(Box<str>),
    /// The whole path, segment by segment; what a star matches is captured.
    Pattern(Box<[Segment]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(Box<str>),
    /// `a*b`: anything between the two within the segment, and not nothing.
    Star(Box<str>, Box<str>),
    /// `**` at the end: all segments that are left.
    Rest,
}

/// Why there is no such rewrite.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotARewrite {
    /// It does not begin with a slash.
    #[error("{0} must begin with `/`")]
    Slash(String),
    /// Longer than [`Rewrite::MAX_BYTES`].
    #[error("a path of it is longer than {} bytes", Rewrite::MAX_BYTES)]
    TooLong,
    /// A byte that no path has as it stands, or that ends it.
    #[error("{0} has a character that a path cannot have as it stands")]
    Character(String),
    /// `**` that is not the last segment, or more than one star in a segment.
    #[error("the pattern has two stars in a segment; `**` may only be the last segment")]
    Stars,
    /// More stars than [`Rewrite::MAX_CAPTURES`].
    #[error("the pattern has more than {} stars", Rewrite::MAX_CAPTURES)]
    TooManyStars,
    /// A number in braces that no star belongs to.
    #[error("`to` has {{{0}}}, and the pattern has no such star")]
    NoSuchStar(usize),
}

impl Rewrite {
    /// Most bytes of a prefix, of a pattern, and of what comes in its place.
    pub const MAX_BYTES: usize = 1024;
    /// Most stars of a pattern.
    pub const MAX_CAPTURES: usize = 9;

    /// `/api/x` becomes `/v1/x`, for the prefix `/api` and `/v1`.
    ///
    /// # Errors
    /// One of them is no path.
    pub fn prefix(prefix: &str, to: &str) -> Result<Self, NotARewrite> {
        check(prefix)?;
        check(to)?;
        Ok(Self { from: From::Prefix(prefix.trim_end_matches('/').into()), to: to.into() })
    }

    /// `/blog/7/a` becomes `/posts/a/7`, for the pattern `/blog/*/*` and `/posts/{2}/{1}`.
    ///
    /// # Errors
    /// One of them is no path, the stars of the pattern are wrong, or `to` has a number that no star belongs to.
    pub fn pattern(pattern: &str, to: &str) -> Result<Self, NotARewrite> {
        check(pattern)?;
        check(to)?;
        let segments = segments(pattern)?;
        let stars = segments.iter().filter(|segment| !matches!(segment, Segment::Text(_))).count();
        if stars > Self::MAX_CAPTURES {
            return Err(NotARewrite::TooManyStars);
        }
        if let Some(wrong) = numbers(to).find(|number| *number == 0 || *number > stars) {
            return Err(NotARewrite::NoSuchStar(wrong));
        }
        Ok(Self { from: From::Pattern(segments.into()), to: to.into() })
    }

    /// The target that the service is asked for; `None` where the path does not match.
    pub(crate) fn target(&self, path: &str, query: Option<&str>) -> Option<String> {
        let path = normalized(path);
        let mut target = match &self.from {
            From::Prefix(prefix) => {
                let rest = path.strip_prefix(&**prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
                let rest = rest.trim_start_matches('/');
                match (self.to.trim_end_matches('/'), rest) {
                    (to, "") if path.ends_with('/') || to.is_empty() => format!("{to}/"),
                    (to, "") => to.to_owned(),
                    (to, rest) => format!("{to}/{rest}"),
                }
            }
            From::Pattern(segments) => fill(&self.to, &captures(segments, &path)?),
        };
        // What a star has matched may be empty or begin with a slash; `//host` means another host to some programs.
        let slashes = target.len() - target.trim_start_matches('/').len();
        target.replace_range(..slashes, "/");
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        Some(target)
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            From::Prefix(prefix) => write!(f, "{}", if prefix.is_empty() { "/" } else { prefix })?,
            From::Pattern(segments) => segments.iter().try_for_each(|segment| match segment {
                Segment::Text(text) => write!(f, "/{text}"),
                Segment::Star(before, behind) => write!(f, "/{before}*{behind}"),
                Segment::Rest => f.write_str("/**"),
            })?,
        }
        write!(f, " → {}", self.to)
    }
}

fn check(path: &str) -> Result<(), NotARewrite> {
    if !path.starts_with('/') {
        return Err(NotARewrite::Slash(path.to_owned()));
    }
    if path.len() > Rewrite::MAX_BYTES {
        return Err(NotARewrite::TooLong);
    }
    let is_good = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>^`|".contains(&byte);
    if path.bytes().all(is_good) { Ok(()) } else { Err(NotARewrite::Character(path.to_owned())) }
}

fn segments(pattern: &str) -> Result<Vec<Segment>, NotARewrite> {
    let parts: Vec<&str> = pattern.split('/').skip(1).collect();
    let last = parts.len() - 1;
    let segment = |(index, part): (usize, &&str)| match part.split_once('*') {
        None => Ok(Segment::Text((*part).into())),
        Some(("", "*")) if index == last => Ok(Segment::Rest),
        Some((_, behind)) if behind.contains('*') => Err(NotARewrite::Stars),
        Some((before, behind)) => Ok(Segment::Star(before.into(), behind.into())),
    };
    parts.iter().enumerate().map(segment).collect()
}

/// The numbers in braces.
fn numbers(text: &str) -> impl Iterator<Item = usize> {
    text.split('{').skip(1).filter_map(|after| after.split_once('}')?.0.parse().ok())
}

/// What the stars match, if the whole path does.
fn captures<'p>(segments: &[Segment], path: &'p str) -> Option<Vec<&'p str>> {
    let mut captures = Vec::new();
    let mut rest = Some(path.strip_prefix('/')?);
    for segment in segments {
        let left = rest.take()?;
        let (part, behind) = left.split_once('/').map_or((left, None), |(part, behind)| (part, Some(behind)));
        match segment {
            Segment::Text(text) => (*part == **text).then_some(())?,
            Segment::Star(before, after) => {
                let inner = part.strip_prefix(&**before)?.strip_suffix(&**after)?;
                captures.push(Some(inner).filter(|inner| !inner.is_empty())?);
            }
            Segment::Rest => {
                captures.push(left);
                return Some(captures);
            }
        }
        rest = behind;
    }
    rest.is_none().then_some(captures)
}

fn fill(to: &str, captures: &[&str]) -> String {
    let mut filled = String::new();
    let mut rest = to;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let capture = after.split_once('}').and_then(|(number, rest)| {
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            Some((*captures.get(index)?, rest))
        });
        match capture {
            Some((capture, behind)) => {
                filled.push_str(capture);
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(rewrite: &Result<Rewrite, NotARewrite>, path: &str, expected: Option<&str>) {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        assert_eq!(rewrite.as_ref().unwrap().target(path, query).as_deref(), expected, "{path}");
    }

    #[test]
    fn by_prefix() {
        let rewrite = Rewrite::prefix("/api", "/v1");
        check(&rewrite, "/api/x?q=%2F", Some("/v1/x?q=%2F"));
        check(&rewrite, "/api", Some("/v1"));
        check(&rewrite, "/api/", Some("/v1/"));
        check(&rewrite, "/apix", None);
        check(&rewrite, "/public/../api/x", Some("/v1/x"));
        let rewrite = Rewrite::prefix("/api/", "/");
        check(&rewrite, "/api", Some("/"));
        check(&rewrite, "/api?x", Some("/?x"));
        check(&rewrite, "/api//evil.example/x", Some("/evil.example/x"));
        let rewrite = Rewrite::prefix("/", "/app");
        check(&rewrite, "/", Some("/app/"));
        check(&rewrite, "/x/", Some("/app/x/"));
    }

    #[test]
    fn by_pattern() {
        let rewrite = Rewrite::pattern("/blog/*/*.html", "/posts/{2}/{1}{x}");
        check(&rewrite, "/blog/7/a.html?p", Some("/posts/a/7{x}?p"));
        check(&rewrite, "/blog/7/a.htm", None);
        check(&rewrite, "/blog/7/.html", None);
        check(&rewrite, "/blog/7/b/a.html", None);
        check(&rewrite, "/blog/7", None);
        let rewrite = Rewrite::pattern("/old/**", "/{1}");
        check(&rewrite, "/old/a/b?x", Some("/a/b?x"));
        check(&rewrite, "/old/", Some("/"));
        check(&rewrite, "/old", None);
        check(&rewrite, "/old//evil.example", Some("/evil.example"));
        check(&Rewrite::pattern("/a", "/b"), "/a", Some("/b"));
        check(&Rewrite::pattern("/a/", "/b"), "/a", None);
    }

    #[test]
    fn what_is_no_rewrite() {
        for (result, why) in [
            (Rewrite::prefix("api", "/"), NotARewrite::Slash("api".into())),
            (Rewrite::prefix("/api", "v1"), NotARewrite::Slash("v1".into())),
            (Rewrite::prefix("/api", "/v1?x"), NotARewrite::Character("/v1?x".into())),
            (Rewrite::prefix("/a b", "/"), NotARewrite::Character("/a b".into())),
            (Rewrite::prefix("/a", &format!("/{}", "x".repeat(1024))), NotARewrite::TooLong),
            (Rewrite::pattern("/**/a", "/"), NotARewrite::Stars),
            (Rewrite::pattern("/a*b*", "/"), NotARewrite::Stars),
            (Rewrite::pattern("/a**", "/"), NotARewrite::Stars),
            (Rewrite::pattern("/*", "/{2}"), NotARewrite::NoSuchStar(2)),
            (Rewrite::pattern("/a", "/{0}"), NotARewrite::NoSuchStar(0)),
            (Rewrite::pattern(&"/*".repeat(10), "/"), NotARewrite::TooManyStars),
        ] {
            assert_eq!(result, Err(why));
        }
    }

    proptest! {
        #[test]
        fn the_service_gets_a_path_of_its_own_host(path in "/[a-z/.%2eE*]{0,12}", to in "/[a-z/]{0,4}(\\{1\\})?") {
            let all = [Rewrite::prefix("/", &to), Rewrite::prefix("/a", &to), Rewrite::pattern("/**", &to), Rewrite::pattern("/*/**", &to)];
            for rewrite in all.into_iter().flatten() {
                if let Some(target) = rewrite.target(&path, None) {
                    prop_assert!(target.starts_with('/') && !target.starts_with("//"), "{target}");
                }
            }
        }
    }
}
