//! The same promise as in `two_users`, on routes with rules: keys with less of the query and more of the fields.
//!
//! The service reads cookies and parameters as services do: by one of several readers that disagree about odd forms, of
//! which the cache knows nothing. Every answer says what was read. Whoever is served a response would have been read
//! the same, by that reader, as far as the route's rules leave it in the key; and what a route sends past the cache is
//! never served.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{
    BypassRules, Cache, Decision, Key, KeyRules, Lookup, NamePatterns, Parameters, QueryRules, RouteControl,
    RouteRules, Timestamp, Turn,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::*;

/// What a service has read: names and their values, in order.
type Read = Vec<(String, String)>;

/// How a service reads queries and cookies.
#[derive(Debug, Clone, Copy)]
enum Reader {
    /// By the letter: `&` between parameters, `; ` between cookies.
    Plain,
    /// Names and values percent-decoded, `;` separates parameters, too; quotes taken off cookies.
    Decoding,
    /// Names in any letters, `.` as `_`, `a[b]` as `a`, blanks in front left out.
    Mangling,
    /// Cookies separated by anything.
    Loose,
}

const READERS: [Reader; 4] = [Reader::Plain, Reader::Decoding, Reader::Mangling, Reader::Loose];

impl Reader {
    fn query(self, target: &str) -> Read {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let pieces: Vec<&str> = match self {
            Self::Decoding => query.split(['&', ';']).collect(),
            _ => query.split('&').collect(),
        };
        pieces.into_iter().filter(|piece| !piece.is_empty()).map(|piece| self.pair(piece)).collect()
    }

    fn cookies(self, request: &HeaderMap) -> Read {
        let lines: Vec<&str> = request.get_all("cookie").iter().map(|line| line.to_str().unwrap()).collect();
        let whole = lines.join("; ");
        let pieces: Vec<&str> = match self {
            Self::Loose => whole.split([';', ',', ' ']).collect(),
            _ => whole.split(';').map(str::trim).collect(),
        };
        pieces.into_iter().filter(|piece| !piece.is_empty()).map(|piece| self.pair(piece)).collect()
    }

    fn pair(self, piece: &str) -> (String, String) {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        match self {
            Self::Plain | Self::Loose => (name.to_owned(), value.to_owned()),
            Self::Decoding => (decoded(name), decoded(value).trim_matches('"').to_owned()),
            Self::Mangling => {
                let name = decoded(name).trim_start_matches([' ', '+']).to_ascii_lowercase().replace('.', "_");
                (name.split('[').next().unwrap().to_owned(), value.to_owned())
            }
        }
    }
}

fn decoded(text: &str) -> String {
    ["6", "7"].iter().fold(text.to_owned(), |text, high| {
        (0..16).fold(text, |text, low| {
            let code = format!("%{high}{low:x}");
            let letter = char::from(u8::from_str_radix(&code[1..], 16).unwrap());
            text.replace(&code, &letter.to_string())
        })
    })
}

fn values<'a>(read: &'a Read, name: &str) -> Vec<&'a str> {
    read.iter().filter(|(one, _)| one == name).map(|(_, value)| &**value).collect()
}

#[derive(Debug, Clone)]
struct Asked {
    target: String,
    cookie: Option<String>,
    authorization: Option<&'static str>,
    language: Option<&'static str>,
}

impl Asked {
    fn fields(&self) -> HeaderMap {
        let mut list = Vec::new();
        list.extend(self.cookie.as_deref().map(|value| ("cookie", value)));
        list.extend(self.authorization.map(|value| ("authorization", value)));
        list.extend(self.language.map(|value| ("accept-language", value)));
        fields(&list)
    }
}

/// A response that the service made.
#[derive(Debug, Clone)]
struct Made {
    by: Asked,
    said: &'static str,
    vary: &'static str,
}

impl Made {
    fn says(&self, word: &str) -> bool {
        self.said.split(", ").any(|member| member.split('=').next() == Some(word))
    }

    /// What may not be shared, whatever the route says.
    fn is_for(&self, asker: &Asked) -> bool {
        let is_silent = !self.says("max-age") && !self.says("s-maxage");
        let shows = |asked: &Asked| asked.cookie.is_some() || asked.authorization.is_some();
        let is_credible = !is_silent || !shows(&self.by) && !shows(asker);
        let is_authorized = self.by.authorization.is_none() || self.says("public") || self.says("s-maxage");
        let is_varied = match self.vary {
            "cookie" => self.says("public") && self.by.cookie == asker.cookie,
            "authorization" => self.by.authorization == asker.authorization,
            _ => true,
        };
        !self.says("private") && !self.says("no-store") && is_credible && is_authorized && is_varied
    }
}

#[derive(Debug, Clone)]
struct Rules {
    query: &'static str,
    sort: bool,
    cookies: &'static [&'static str],
    languages: bool,
    bypass: &'static [&'static str],
    default_ttl: bool,
}

impl Rules {
    fn control(&self) -> RouteControl {
        let patterns = |list: &[&str]| NamePatterns(list.iter().map(|text| text.parse().unwrap()).collect());
        let parameters = match self.query {
            "ignore" => Parameters::Except(patterns(&["utm_*", "x"])),
            "only" => Parameters::Only(patterns(&["page"])),
            _ => Parameters::All,
        };
        RouteControl {
            key: KeyRules {
                route: String::new(),
                query: QueryRules { parameters, sort: self.sort },
                cookies: self.cookies.iter().map(|name| (*name).to_owned()).collect(),
                headers: if self.languages { vec![http::header::ACCEPT_LANGUAGE] } else { Vec::new() },
            },
            bypass: BypassRules { cookies: patterns(self.bypass), ..BypassRules::default() },
            ..RouteControl::default()
        }
    }

    /// Both requests look the same to the service, as far as the operator has not said that the difference does not
    /// matter.
    fn same(&self, reader: Reader, one: &Asked, other: &Asked) -> Result<(), String> {
        let (a, b) = (reader.query(&one.target), reader.query(&other.target));
        let counts = |name: &str| match self.query {
            // Only names as they were promised; in another form the service may read something else.
            "ignore" => !(name.starts_with("utm_") || name == "x"),
            "only" => name == "page",
            _ => true,
        };
        let names: Vec<&String> = a.iter().chain(&b).map(|(name, _)| name).filter(|name| counts(name)).collect();
        for name in names {
            if values(&a, name) != values(&b, name) {
                return Err(format!("parameter {name}: {a:?} and {b:?}"));
            }
        }
        let (a, b) = (reader.cookies(&one.fields()), reader.cookies(&other.fields()));
        for name in self.cookies {
            if values(&a, name) != values(&b, name) {
                return Err(format!("cookie {name}: {a:?} and {b:?}"));
            }
        }
        match self.languages && one.language != other.language {
            true => Err(format!("language {:?} and {:?}", one.language, other.language)),
            false => Ok(()),
        }
    }

    /// Some service finds a cookie in the request that sends it past the cache.
    fn goes_past(&self, asked: &Asked) -> bool {
        READERS
            .iter()
            .any(|reader| reader.cookies(&asked.fields()).iter().any(|(name, _)| self.bypass.contains(&name.as_str())))
    }
}

/// What the gateway does with a request (`gateway/src/cache_key.rs`), the service played. `Some`: served, made by whom.
fn ask(cache: &Cache, rules: &Rules, made: &mut Vec<Made>, step: &(Asked, Made), now: Timestamp) -> Option<usize> {
    let (asked, answer) = step;
    let (control, request) = (rules.control(), asked.fields());
    if control.bypass.applies(&Method::GET, &asked.target, &request).is_some() {
        return None;
    }
    let (target, extra) = (control.key.target(&asked.target), control.key.extra(&request).unwrap());
    let key = Key { target: &target, extra: &extra, ..KEY };
    let served =
        |stored: &pilotlight_cache::Stored| std::str::from_utf8(&stored.body().to_bytes()).unwrap().parse().unwrap();
    if let Lookup::Hit(stored) = cache.lookup(&key, &Method::GET, &request, now) {
        return Some(served(&stored));
    }
    let fill = match cache.begin(&key, &Method::GET, &request, now) {
        Turn::Leader(fill) => fill,
        Turn::Hit(stored) => return Some(served(&stored)),
        Turn::Follower(_) | Turn::Live(_) | Turn::Failed(_) => panic!("nobody else is asking"),
    };
    let entry = made.len();
    made.push(Made { by: asked.clone(), ..answer.clone() });
    let mut fields_of_answer = Vec::new();
    fields_of_answer.extend(Some(answer.said).filter(|said| !said.is_empty()).map(|said| ("cache-control", said)));
    fields_of_answer.extend(Some(answer.vary).filter(|vary| !vary.is_empty()).map(|vary| ("vary", vary)));
    let route = RouteRules {
        default_ttl: rules.default_ttl.then(|| std::time::Duration::from_secs(60)),
        cookies_in_key: control.key.covers_cookies(&request),
        ..RouteRules::default()
    };
    if let Decision::Store(mut recorder) =
        fill.response(&request, StatusCode::OK, &fields(&fields_of_answer), at(now), route)
    {
        recorder.push(entry.to_string().as_bytes()).unwrap();
        recorder.finish(now).unwrap();
    }
    None
}

fn parameter() -> impl Strategy<Value = String> {
    let name = select(vec![
        "page",
        "page",
        "Page",
        "p%61ge",
        "page[]",
        "+page",
        "utm_a",
        "utm_b",
        "x",
        "y",
        "x;page",
        "utm_c=1;page",
        "",
    ]);
    let odd = (name, select(vec!["=1", "=2", "=", "", "=1;page=2", "=\"1\""]));
    let plain = (select(vec!["page", "page", "y", "utm_a"]), select(vec!["=1", "=2"]));
    prop_oneof![1 => odd, 3 => plain].prop_map(|(name, value)| format!("{name}{value}"))
}

fn cookie() -> impl Strategy<Value = String> {
    let name = select(vec!["theme", "theme", "Theme", "th%65me", "session", "a", "theme[x]", "them.e"]);
    let value = select(vec!["=dark", "=light", "=", "", "=\"dark\"", "=1 theme=dark", "=1,theme=light"]);
    let odd = (name, value, select(vec!["; ", ";", ",", " "]));
    let plain = (select(vec!["theme", "theme", "a"]), select(vec!["=dark", "=light"]), Just("; "));
    let pair = prop_oneof![1 => odd, 3 => plain].prop_map(|(name, value, after)| (format!("{name}{value}"), after));
    proptest::collection::vec(pair, 1..3).prop_map(|pairs| {
        let joined: String = pairs.iter().map(|(pair, after)| format!("{pair}{after}")).collect();
        let end = pairs.last().map_or(0, |(_, after)| after.len());
        joined[..joined.len() - end].to_owned()
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    (
        prop_oneof![Just(Vec::new()), proptest::collection::vec(parameter(), 1..4)],
        proptest::option::weighted(0.6, cookie()),
        proptest::option::weighted(0.2, select(vec!["ann", "bob"])),
        select(vec![None, Some("de"), Some("en"), Some("")]),
    )
        .prop_map(|(parameters, cookie, authorization, language)| {
            let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
            Asked { target: format!("/p{query}"), cookie, authorization, language }
        })
}

fn step() -> impl Strategy<Value = (Asked, Made)> {
    let said = select(vec![
        "",
        "public",
        "max-age=60",
        "max-age=60",
        "max-age=60, public",
        "s-maxage=60",
        "max-age=60, private",
    ]);
    let vary = select(vec!["", "", "cookie", "authorization", "accept"]);
    (asked(), said, vary).prop_map(|(by, said, vary)| (by.clone(), Made { by, said, vary }))
}

fn rules() -> impl Strategy<Value = Rules> {
    let cookies = select(vec![&[][..], &["theme"][..], &["session", "theme"][..]]);
    let bypass = select(vec![&[][..], &[][..], &["session"][..]]);
    (select(vec!["all", "ignore", "only"]), any::<bool>(), cookies, any::<bool>(), bypass, any::<bool>()).prop_map(
        |(query, sort, cookies, languages, bypass, default_ttl)| Rules {
            query,
            sort,
            cookies,
            languages,
            bypass,
            default_ttl,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn on_no_route_is_an_answer_given_to_whom_it_is_not_for(
        rules in rules(), steps in proptest::collection::vec(step(), 1..30),
    ) {
        let cache = cache();
        let mut made = Vec::new();
        for step in &steps {
            let Some(entry) = ask(&cache, &rules, &mut made, step, START) else { continue };
            let (asker, made) = (&step.0, &made[entry]);
            prop_assert!(made.is_for(asker), "{asker:?} was served {made:?}");
            prop_assert!(!rules.goes_past(asker) && !rules.goes_past(&made.by), "{asker:?} was served {made:?}");
            for reader in READERS {
                let same = rules.same(reader, &made.by, asker);
                prop_assert!(same.is_ok(), "{reader:?} reads another {}: {asker:?} was served {made:?}", same.unwrap_err());
            }
        }
    }
}

/// The property is not true for want of hits: what the rules say is the same is shared.
#[test]
fn what_the_rules_call_the_same_is_shared() {
    let rules = Rules {
        query: "ignore",
        sort: true,
        cookies: &["theme"],
        languages: false,
        bypass: &["session"],
        default_ttl: false,
    };
    let ask_for = |target: &str, cookie: &str, language| Asked {
        target: target.to_owned(),
        cookie: Some(cookie.to_owned()),
        authorization: None,
        language,
    };
    let cache = cache();
    let (mut made, mut served) = (Vec::new(), BTreeMap::<usize, usize>::new());
    for asked in [
        ask_for("/p?b=1&page=2&utm_a=3", "theme=dark", None),
        ask_for("/p?page=2&b=1", "theme=dark; a=1", Some("de")),
        ask_for("/p?x=1&page=2&b=1", "b=2; theme=dark", Some("en")),
        ask_for("/p?page=2&b=1", "theme=light", None),
    ] {
        let answer = Made { by: asked.clone(), said: "max-age=60, public", vary: "" };
        if let Some(entry) = ask(&cache, &rules, &mut made, &(asked, answer), START) {
            *served.entry(entry).or_default() += 1;
        }
    }
    assert_eq!((made.len(), served), (2, BTreeMap::from([(0, 2)])));
}
