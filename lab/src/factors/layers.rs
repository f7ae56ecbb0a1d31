//! The layers of the service, and what each may be exchanged for. One table: everything else reads it.

/// A layer of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// For people.
    pub(super) title: &'static str,
    /// What examples/users has.
    pub(super) applied: &'static str,
    /// Why, if the difference alone does not say it.
    pub(super) why: &'static str,
    /// What the published study found, on its machine.
    pub(super) published: Option<&'static str>,
    pub(super) changes: &'static [Change],
}

/// What a layer is exchanged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The variant's id; the program's name if it is another one.
    pub(super) id: &'static str,
    /// For people.
    pub(super) title: &'static str,
    pub(super) by: By,
}

/// How it is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Another build: a program of lab/peers/factors.
    Program,
    /// A setting of the client: an option of the URL of Redis.
    Option(&'static str),
    /// TLS to Redis.
    Tls,
    /// A setting of the program or of its runtime.
    Setting,
}

/// The program that is made as examples/users is, and its variant.
pub(super) const BASE: &str = "base";

pub(super) const LAYERS: [Layer; 6] = [
    Layer {
        title: "allocator",
        applied: "mimalloc",
        why: "it is linked with one line",
        published: Some("+21 % throughput from allocator and runtime together"),
        changes: &[
            Change { id: "allocator-system", title: "the system's allocator", by: By::Program },
            Change { id: "allocator-jemalloc", title: "jemalloc", by: By::Program },
        ],
    },
    Layer {
        title: "runtime",
        applied: "a current-thread runtime for each core",
        why: "nothing that a request touches is shared between threads, which keeps the code simple",
        published: Some("+21 % throughput from allocator and runtime together"),
        changes: &[Change {
            id: "runtime-multi-thread",
            title: "one runtime whose threads take tasks from each other",
            by: By::Program,
        }],
    },
    Layer {
        title: "HTTP",
        applied: "hyper alone",
        why: "three routes need no router",
        published: Some("+1.4 % throughput"),
        changes: &[Change { id: "http-axum", title: "axum on hyper", by: By::Program }],
    },
    Layer {
        title: "JSON",
        applied: "written by hand",
        why: "pages of 20 users, not measured here, gain more from it than single ones",
        published: Some("+0.2 % throughput on a hit, +5 % on a miss"),
        changes: &[Change { id: "json-serde", title: "serde_json", by: By::Program }],
    },
    Layer {
        title: "connections to Redis",
        applied: "one lane for each thread",
        why: "fewer connections are fewer writes, and less for Redis to do",
        published: None,
        changes: &[
            Change { id: "lanes-2", title: "two lanes", by: By::Option("lanes=2") },
            Change { id: "lanes-4", title: "four lanes", by: By::Option("lanes=4") },
        ],
    },
    Layer {
        title: "TLS to Redis",
        applied: "none on one machine",
        why: "it is for networks that others listen to, and is set by the URL: rediss://",
        published: None,
        changes: &[Change { id: "tls", title: "TLS", by: By::Tls }],
    },
];

/// Every change with its layer.
pub(super) fn changes() -> impl Iterator<Item = (&'static Layer, &'static Change)> {
    LAYERS.iter().flat_map(|layer| layer.changes.iter().map(move |change| (layer, change)))
}
