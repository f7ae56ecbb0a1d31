//! The published scenarios, and what each sends.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

use crate::load::{Load, Next, Pace};

/// Users in a new database.
pub(super) const ROWS: u64 = 10_000;
/// What a slow disk adds to each fsync.
pub(super) const SLOW_FSYNC: Duration = Duration::from_millis(5);

/// A scenario, with what its state is at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Case {
    /// GET one, 100 connections × 10 pipelined, random users, all of them cached
    GetWarm,
    /// the same, beginning with an empty cache
    GetCold,
    /// GET a page of 20, 100 connections × 10 pipelined
    List,
    /// POST with unique emails, 10 connections
    Post,
    /// 70 % GET one, 10 % list, 10 % POST, 5 % PUT, 5 % DELETE, 20 connections
    Mixed,
    /// post, with 5 ms added to each fsync
    PostSlow,
    /// post with 100 connections, with 5 ms added to each fsync
    PostSlow100,
    /// mixed, with 5 ms added to each fsync
    MixedSlow,
}

impl Case {
    pub(super) const ALL: [Self; 8] = [
        Self::GetWarm,
        Self::GetCold,
        Self::List,
        Self::Post,
        Self::Mixed,
        Self::PostSlow,
        Self::PostSlow100,
        Self::MixedSlow,
    ];

    /// As on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it is, in a line.
    pub(super) fn description(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
    }

    pub(super) fn is_slow(self) -> bool {
        matches!(self, Self::PostSlow | Self::PostSlow100 | Self::MixedSlow)
    }

    /// Whether every user is read before it begins.
    pub(super) fn is_warm(self) -> bool {
        self == Self::GetWarm
    }

    pub(crate) fn load(self, address: std::net::SocketAddr, duration: Duration) -> Load {
        let (connections, depth) = match self {
            Self::GetWarm | Self::GetCold | Self::List => (100, 10),
            Self::Post | Self::PostSlow => (10, 1),
            Self::PostSlow100 => (100, 1),
            Self::Mixed | Self::MixedSlow => (20, 1),
        };
        Load { to: address.into(), connections, pace: Pace::Closed { depth }, duration }
    }

    /// What answers may be besides a failure of the run.
    pub(crate) fn expects(self, status: u16) -> bool {
        match self {
            Self::GetWarm | Self::GetCold | Self::List => status == 200,
            Self::Post | Self::PostSlow | Self::PostSlow100 => status == 201,
            // Users that the load itself deleted are missing.
            Self::Mixed | Self::MixedSlow => matches!(status, 200 | 201 | 204 | 404),
        }
    }

    /// The requests. `part` keeps emails of several loads on one database apart.
    pub(crate) fn requests(self, seed: u64, part: &'static str) -> Box<Next> {
        let mut rng = Rng::with_seed(seed);
        let mut count = 0_u64;
        Box::new(move |out| {
            count += 1;
            let id = |rng: &mut Rng| 1 + rng.u64(..ROWS);
            match self {
                Self::GetWarm | Self::GetCold => get_one(out, id(&mut rng)),
                Self::List => get_page(out, 1),
                Self::Post | Self::PostSlow | Self::PostSlow100 => post(out, part, count),
                Self::Mixed | Self::MixedSlow => match rng.u8(..20) {
                    0..14 => get_one(out, id(&mut rng)),
                    14..16 => get_page(out, 1 + rng.u64(..ROWS / 20)),
                    16..18 => post(out, part, count),
                    18 => put(out, id(&mut rng), part, count),
                    _ => delete(out, id(&mut rng)),
                },
            }
            true
        })
    }
}

/// Reads each user once.
pub(crate) fn every_user() -> Box<Next> {
    let mut id = 0;
    Box::new(move |out| {
        id += 1;
        if id <= ROWS {
            get_one(out, id);
        }
        id <= ROWS
    })
}

fn get_one(out: &mut Vec<u8>, id: u64) {
    head(out, &format!("GET /users/{id}"));
}

fn get_page(out: &mut Vec<u8>, page: u64) {
    head(out, &format!("GET /users?page={page}&limit=20"));
}

fn delete(out: &mut Vec<u8>, id: u64) {
    head(out, &format!("DELETE /users/{id}"));
}

fn head(out: &mut Vec<u8>, request: &str) {
    out.extend_from_slice(request.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nhost: localhost\r\n\r\n");
}

fn post(out: &mut Vec<u8>, part: &str, count: u64) {
    with_body(out, "POST /users", &user("Bench", "b", part, count));
}

fn put(out: &mut Vec<u8>, id: u64, part: &str, count: u64) {
    with_body(out, &format!("PUT /users/{id}"), &user("Changed", "c", part, count));
}

fn user(name: &str, mark: &str, part: &str, count: u64) -> String {
    format!(
        "{{\"name\":\"{name} User\",\"email\":\"{mark}_{part}_{count}@test.com\",\"bio\":\"created by benchmark\"}}"
    )
}

fn with_body(out: &mut Vec<u8>, request: &str, body: &str) {
    let length = body.len();
    let fields = "host: localhost\r\ncontent-type: application/json";
    out.extend_from_slice(
        format!("{request} HTTP/1.1\r\n{fields}\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_has_the_published_shares() {
        let mut next = Case::Mixed.requests(1, "x");
        let (mut out, mut seen) = (Vec::new(), std::collections::BTreeMap::<&str, u32>::new());
        for _ in 0..20_000 {
            out.clear();
            next(&mut out);
            let kinds = [
                ("GET /users/", "one"),
                ("GET /users?", "list"),
                ("POST", "post"),
                ("PUT", "put"),
                ("DELETE", "delete"),
            ];
            let kind = kinds.iter().find(|(start, _)| out.starts_with(start.as_bytes())).expect("a known kind").1;
            *seen.entry(kind).or_default() += 1;
        }
        for (kind, share) in [("one", 0.7), ("list", 0.1), ("post", 0.1), ("put", 0.05), ("delete", 0.05)] {
            let found = f64::from(seen[kind]) / 20_000.0;
            assert!((found - share).abs() < 0.01, "{kind}: {found}");
        }
    }

    #[test]
    fn every_user_is_read_once() {
        let mut next = every_user();
        let mut out = Vec::new();
        assert_eq!((0..).take_while(|_| next(&mut out)).count() as u64, ROWS);
        assert!(out.ends_with(b"GET /users/10000 HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    }

    #[test]
    fn names_and_descriptions() {
        assert_eq!(Case::PostSlow100.name(), "post-slow100");
        assert!(Case::ALL.iter().all(|case| !case.description().is_empty()));
    }
}
