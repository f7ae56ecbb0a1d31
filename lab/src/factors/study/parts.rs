//! What the study exchanges, and what was published of it. One table: everything else reads it.

use crate::factors::layers::{By, Change, Layer};

/// A service: its web framework, its JSON, its options of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    http: &'static str,
    json: &'static str,
    rts: &'static [&'static str],
}

impl Stack {
    pub(super) fn about(self) -> String {
        self.settings().collect::<Vec<_>>().join(", ")
    }

    pub(super) fn settings(self) -> impl Iterator<Item = &'static str> {
        [self.http, self.json].into_iter().chain(self.rts.iter().copied())
    }

    /// What its program reads.
    pub(super) fn environment(self) -> Vec<String> {
        vec![format!("HTTP={}", self.http), format!("JSON={}", self.json)]
    }

    /// What its runtime reads.
    pub(super) fn options(self) -> impl Iterator<Item = &'static str> {
        std::iter::once("+RTS").chain(self.rts.iter().copied()).chain(["-RTS"])
    }
}

/// What was published of one, by path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Elsewhere {
    /// In words, beside the base.
    pub(super) effect: &'static str,
    pub(super) hit: Option<Measured>,
    pub(super) miss: Option<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// A variant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) stack: Stack,
    pub(super) published: Option<Elsewhere>,
    pub(super) is_quick: bool,
}

/// A factor of the study.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) base: &'static Member,
    /// Why the base stays unless it surely loses.
    why: &'static str,
    pub(super) others: &'static [Member],
}

impl Part {
    /// The base exchanged for a member.
    pub(super) fn layer(&self, member: &Member) -> (Layer, Change) {
        let layer = Layer {
            title: self.title,
            applied: self.base.title,
            why: self.why,
            published: member.published.map(|published| published.effect),
            changes: &[],
        };
        (layer, Change { id: member.id, title: member.title, by: By::Setting })
    }
}

const fn measured(per_second: f64, p50_ms: f64, p99_ms: f64) -> Option<Measured> {
    Some(Measured { per_second, p50_ms, p99_ms })
}

const fn published(effect: &'static str, hit: Option<Measured>, miss: Option<Measured>) -> Option<Elsewhere> {
    Some(Elsewhere { effect, hit, miss })
}

const DEFAULT: &[&str] = &["-N"];
/// What the study has found best, and has applied in what it measured afterwards.
const TUNED: &[&str] = &["-N", "-H1024m", "-A128m", "-n8m", "-qb"];

const fn scotty(rts: &'static [&'static str]) -> Stack {
    Stack { http: "scotty", json: "value", rts }
}

const fn option(id: &'static str, rts: &'static [&'static str]) -> Member {
    Member { id, title: id, stack: scotty(rts), published: None, is_quick: false }
}

const OPTIONS_BASE: Member = Member {
    id: "default",
    title: "-N alone",
    stack: scotty(DEFAULT),
    published: published("", measured(88_081.0, 11.0, 16.0), None),
    is_quick: true,
};

const SCOTTY: Member = Member {
    id: "scotty",
    title: "Scotty",
    stack: scotty(TUNED),
    published: published("", measured(102_931.0, 9.0, 16.0), None),
    is_quick: true,
};

const AESON: Member = Member {
    id: "aeson",
    title: "aeson through a value",
    stack: Stack { http: "warp", json: "value", rts: TUNED },
    published: published("", measured(106_291.0, 9.0, 13.0), measured(96_806.0, 9.0, 23.0)),
    is_quick: false,
};

pub(super) const PARTS: [Part; 3] = [
    Part {
        id: "rts",
        title: "options of the runtime",
        base: &OPTIONS_BASE,
        why: "it takes least memory",
        others: &[
            Member {
                id: "tuned",
                title: "-H1024m -A128m -n8m -qb",
                stack: scotty(TUNED),
                published: published("+17.8 % throughput", measured(103_787.0, 9.0, 15.0), None),
                is_quick: true,
            },
            Member {
                id: "aggressive-nursery",
                title: "-A64m -n4m -H512m",
                stack: scotty(&["-N", "-A64m", "-n4m", "-H512m"]),
                published: published("+15.6 % throughput", measured(101_845.0, 9.0, 16.0), None),
                is_quick: false,
            },
            Member {
                id: "large-nursery-no-idle",
                title: "-A128m -I0",
                stack: scotty(&["-N", "-A128m", "-I0"]),
                published: published("+16.4 % throughput", measured(102_558.0, 9.0, 15.0), None),
                is_quick: false,
            },
            Member {
                id: "nonmoving",
                title: "--nonmoving-gc",
                stack: scotty(&["-N", "--nonmoving-gc"]),
                published: published("-1.7 % throughput", measured(86_558.0, 11.0, 16.0), None),
                is_quick: false,
            },
            option("-A128m", &["-N", "-A128m"]),
            option("-A128m -n8m", &["-N", "-A128m", "-n8m"]),
            option("-H1024m", &["-N", "-H1024m"]),
            option("-qb", &["-N", "-qb"]),
        ],
    },
    Part {
        id: "http",
        title: "web framework",
        base: &SCOTTY,
        why: "its routes are easier to read",
        others: &[Member {
            id: "warp",
            title: "Warp alone",
            stack: Stack { http: "warp", json: "value", rts: TUNED },
            published: published("+1.4 % throughput", measured(104_403.0, 9.0, 14.0), None),
            is_quick: true,
        }],
    },
    Part {
        id: "json",
        title: "JSON",
        base: &AESON,
        why: "it is written once for all types",
        others: &[
            Member {
                id: "builder",
                title: "a builder by hand",
                stack: Stack { http: "warp", json: "builder", rts: TUNED },
                published: published(
                    "+0.2 % throughput on a hit, +5.0 % on a miss",
                    measured(106_522.0, 9.0, 13.0),
                    measured(101_621.0, 9.0, 21.0),
                ),
                is_quick: false,
            },
            Member {
                id: "encoding",
                title: "aeson straight into a builder",
                stack: Stack { http: "warp", json: "encoding", rts: TUNED },
                published: None,
                is_quick: false,
            },
        ],
    },
];
