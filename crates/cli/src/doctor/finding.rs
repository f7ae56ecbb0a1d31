//! What a check found.

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    /// Worth knowing; nothing fails because of it now.
    Note,
    /// Something fails, or will.
    Problem,
}

impl Level {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "problem",
        }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Area {
    Program,
    Configuration,
    Gateway,
    Listeners,
    Services,
    Certificates,
    Redis,
    Limits,
    Isolation,
    Files,
}

impl Area {
    /// In the order in which they are shown.
    pub(super) const ALL: [Area; 10] = [
        Area::Program,
        Area::Configuration,
        Area::Gateway,
        Area::Listeners,
        Area::Services,
        Area::Certificates,
        Area::Redis,
        Area::Limits,
        Area::Isolation,
        Area::Files,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Area::Program => "program",
            Area::Configuration => "configuration",
            Area::Gateway => "gateway",
            Area::Listeners => "listeners",
            Area::Services => "services",
            Area::Certificates => "certificates",
            Area::Redis => "redis",
            Area::Limits => "limits",
            Area::Isolation => "isolation",
            Area::Files => "files",
        }
    }
}

/// One fact, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) area: Area,
    pub(super) level: Level,
    pub(super) fact: String,
    /// None: nothing is to be done.
    pub(super) remedy: Option<String>,
}

impl Area {
    pub(super) fn ok(self, fact: impl Into<String>) -> Finding {
        Finding { area: self, level: Level::Ok, fact: fact.into(), remedy: None }
    }

    pub(super) fn note(self, fact: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { area: self, level: Level::Note, fact: fact.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn problem(self, fact: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { area: self, level: Level::Problem, fact: fact.into(), remedy: Some(remedy.into()) }
    }
}

/// A number of things: `1 service`, `2 services`.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
