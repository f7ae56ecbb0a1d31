//! The five published cases, and what is measured in each.

use clap::ValueEnum;
use serde::Serialize;

use super::services::{Language, SDK};

/// A case of the published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
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

/// Whether a variant stands for itself or is the second of a pair of equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is what is measured.
    Measured,
    /// The same once more: what differs between the two is what this machine cannot tell apart.
    Control,
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
    /// Measured or control.
    pub(crate) role: Role,
}

impl Variant {
    /// The name by which the report refers to it: `pilotlight/python/pipe-warm/SDK`.
    #[must_use]
    pub(crate) fn id(&self) -> String {
        let case = self.case.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let front = self.front.title().to_lowercase().replace(' ', "-");
        let control = if self.role == Role::Control { "/control" } else { "" };
        format!("{front}/{}/{case}/{}{control}", self.language.title().to_lowercase(), self.server)
    }

    /// What happens in it.
    pub(crate) fn description(&self) -> &'static str {
        match (self.front, self.case) {
            (Front::Bare, Case::PipeCold | Case::PipeWarm | Case::Cached) => {
                "the lab starts the service itself, as a gateway of Pipe/1 would, and asks once"
            }
            (Front::Bare, Case::HttpCold | Case::HttpWarm) => {
                "the lab starts the service itself, with its socket as descriptor 3, and asks once over HTTP/1.1"
            }
            (Front::Uwsgi, Case::HttpCold) => {
                "uWSGI is started anew, without a worker; the request makes it start one with the application"
            }
            (Front::Uwsgi, _) => "uWSGI's worker runs, with the application in it",
            (Front::ModFcgid, Case::HttpCold) => {
                "Apache is started anew; the request makes its module start the FastCGI program"
            }
            (Front::ModFcgid, _) => "the FastCGI program runs",
            (Front::Nginx, Case::Cached) => "the answer is in nginx's cache",
            (Front::Nginx, _) => "the service runs; HTTP/1.1 on a kept Unix socket",
            (Front::Pilotlight, Case::Cached) => "the answer is in the gateway's memory",
            (Front::Pilotlight, Case::HttpWarm) => "the service runs; HTTP/1.1 on a kept Unix socket",
            (Front::Pilotlight, Case::PipeWarm) => "the service runs; Pipe/1",
            (Front::Pilotlight, Case::HttpCold) => {
                "the service is stopped before each request, and its process gone; HTTP/1.1"
            }
            (Front::Pilotlight, Case::PipeCold) => {
                "the service is stopped before each request, and its process gone; Pipe/1"
            }
        }
    }

    /// For a line of progress and tables: `Python pipe warm`, `Python HTTP warm (uvicorn), nginx`.
    #[must_use]
    pub(crate) fn title(&self) -> String {
        let server = if self.server == SDK { String::new() } else { format!(" ({})", self.server) };
        let front = if self.front == Front::Pilotlight { String::new() } else { format!(", {}", self.front.title()) };
        let control = if self.role == Role::Control { ", again" } else { "" };
        format!("{} {}{server}{front}{control}", self.language.title(), self.case.title())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variants() {
        let variant = |case, server, front, role| Variant { case, language: Language::Python, server, front, role };
        let plain = variant(Case::PipeWarm, "SDK", Front::Pilotlight, Role::Measured);
        assert_eq!(
            (plain.id().as_str(), plain.title().as_str()),
            ("pilotlight/python/pipe-warm/SDK", "Python pipe warm")
        );
        let peer = variant(Case::HttpCold, "FastCGI", Front::ModFcgid, Role::Control);
        assert_eq!(peer.id(), "apache-mod_fcgid/python/http-cold/FastCGI/control");
        assert_eq!(peer.title(), "Python HTTP cold (FastCGI), Apache mod_fcgid, again");
    }
}
