//! The five published cases, and what is measured in each.

use clap::ValueEnum;

use super::services::{Language, SDK};

/// A case of the published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Case {
    /// Answered from memory.
    Cached,
    /// From a running service over HTTP.
    HttpWarm,
    /// From a service over HTTP that the request has to start.
    HttpCold,
    /// From a running service over the pipe.
    PipeWarm,
    /// From a service over the pipe that the request has to start.
    PipeCold,
}

impl Case {
    /// All, in the order of the published table.
    pub(crate) const ALL: [Self; 5] = [Self::Cached, Self::HttpWarm, Self::HttpCold, Self::PipeWarm, Self::PipeCold];

    /// As it is written in tables.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::HttpWarm => "HTTP warm",
            Self::HttpCold => "HTTP cold",
            Self::PipeWarm => "pipe warm",
            Self::PipeCold => "pipe cold",
        }
    }

    /// Whether each request starts the service.
    #[must_use]
    pub(crate) fn is_cold(self) -> bool {
        matches!(self, Self::HttpCold | Self::PipeCold)
    }
}

/// Who answers the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// Pilotlight.
    Pilotlight,
    /// nginx, as a proxy before a service that somebody else has started.
    Nginx,
    /// uWSGI, which starts its worker for the first request.
    Uwsgi,
    /// Apache with mod_fcgid, which starts a FastCGI program for the first request.
    ModFcgid,
    /// Nobody: the service is started and asked by the lab itself. What is left of a cold start without a gateway.
    Bare,
}

impl Front {
    /// As it is written in tables.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Pilotlight => "Pilotlight",
            Self::Nginx => "nginx",
            Self::Uwsgi => "uWSGI",
            Self::ModFcgid => "Apache mod_fcgid",
            Self::Bare => "no gateway",
        }
    }
}

/// One row of the report: a case with a service behind a front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The case.
    pub(crate) case: Case,
    /// The service's language.
    pub(crate) language: Language,
    /// The SDK or the HTTP server.
    pub(crate) server: &'static str,
    /// Who answers the client.
    pub(crate) front: Front,
}

impl Variant {
    /// The name by which the report refers to it: `pilotlight/python/pipe-warm/SDK`.
    #[must_use]
    pub(crate) fn id(&self) -> String {
        format!("{}{}", Self::prefix(self.front, self.language, self.case), self.server)
    }

    /// What of that name stands before the server's.
    #[must_use]
    pub(crate) fn prefix(front: Front, language: Language, case: Case) -> String {
        let case = case.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let front = front.title().to_lowercase().replace(' ', "-");
        format!("{front}/{}/{case}/", language.title().to_lowercase())
    }

    /// For a line of progress and tables: `Python pipe warm`, `Python HTTP warm (uvicorn), nginx`.
    #[must_use]
    pub(crate) fn title(&self) -> String {
        let server = if self.server == SDK { String::new() } else { format!(" ({})", self.server) };
        let front = if self.front == Front::Pilotlight { String::new() } else { format!(", {}", self.front.title()) };
        format!("{} {}{server}{front}", self.language.title(), self.case.title())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variants() {
        let variant = |case, server, front| Variant { case, language: Language::Python, server, front };
        let plain = variant(Case::PipeWarm, "SDK", Front::Pilotlight);
        assert_eq!(
            (plain.id().as_str(), plain.title().as_str()),
            ("pilotlight/python/pipe-warm/SDK", "Python pipe warm")
        );
        let peer = variant(Case::HttpCold, "FastCGI", Front::ModFcgid);
        assert_eq!(peer.id(), "apache-mod_fcgid/python/http-cold/FastCGI");
        assert_eq!(peer.title(), "Python HTTP cold (FastCGI), Apache mod_fcgid");
    }
}
