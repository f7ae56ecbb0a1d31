//! Programs that are told requests as variables, as services: by FastCGI, SCGI or uwsgi, with a folder of scripts or
//! without. Shared by nginx and Caddy.

use crate::document::{Section, Value};
use crate::model::Draft;

/// What the program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    FastCgi,
    Scgi,
    Uwsgi,
}

impl Protocol {
    /// Its name as `transport`, and as the scheme of a `url`.
    fn name(self) -> &'static str {
        match self {
            Protocol::FastCgi => "fastcgi",
            Protocol::Scgi => "scgi",
            Protocol::Uwsgi => "uwsgi",
        }
    }
}

/// A server that somebody else runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) protocol: Protocol,
    /// `unix:/path`, or a host and a port.
    pub(crate) address: String,
    /// Variables with fixed values.
    pub(crate) params: Vec<(String, String)>,
    /// None: the program itself is what is run.
    pub(crate) site: Option<Site>,
}

/// A folder of scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) root: String,
    pub(crate) index: Vec<String>,
    pub(crate) fallback: Option<String>,
    /// None: every script of the folder.
    pub(crate) run: Option<Vec<String>>,
}

/// `cgi.index` of a service that does not say it.
const USUAL_INDEX: [&str; 2] = ["index.php", "index.html"];

impl Program {
    fn section(&self) -> Section {
        let name = self.protocol.name();
        let mut section = match self.address.starts_with("unix:") {
            true => Section::default().with("url", self.address.as_str()).with("transport", name),
            false => Section::default().with("url", format!("{name}://{}", self.address)),
        };
        let mut cgi = self.site.as_ref().map(Site::table).unwrap_or_default();
        if !self.params.is_empty() {
            let params = self.params.iter().map(|(name, value)| (name.clone(), Value::Text(value.clone())));
            cgi.push(("params".to_owned(), Value::Table(params.collect())));
        }
        if !cgi.is_empty() {
            section.set("cgi", Value::Table(cgi));
        }
        section
    }
}

impl Site {
    fn table(&self) -> Vec<(String, Value)> {
        let mut table = vec![("root".to_owned(), Value::Text(self.root.clone()))];
        if self.index != USUAL_INDEX {
            table.push(("index".to_owned(), Value::List(self.index.clone())));
        }
        if let Some(fallback) = &self.fallback {
            table.push(("fallback".to_owned(), Value::Text(fallback.clone())));
        }
        if let Some(run) = &self.run {
            table.push(("run".to_owned(), Value::List(run.clone())));
        }
        table
    }
}

impl Draft {
    /// The service of a program, which may be there already: programs at one address differ by their folders.
    pub(crate) fn program(&mut self, wanted: &str, program: &Program) -> String {
        let section = program.section();
        if let Some((name, _)) = self.services.iter().find(|(_, other)| *other == section) {
            return name.clone();
        }
        let name = self.service_name(wanted);
        self.services.push((name.clone(), section));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::keys;

    #[test]
    fn programs_as_services() {
        let site = Site {
            root: "/srv".to_owned(),
            index: USUAL_INDEX.map(str::to_owned).to_vec(),
            fallback: Some("index.php".to_owned()),
            run: Some(vec!["index.php".to_owned()]),
        };
        let mut program = Program {
            protocol: Protocol::FastCgi,
            address: "unix:/run/php.sock".to_owned(),
            params: vec![("A".to_owned(), "b".to_owned())],
            site: Some(site),
        };
        assert_eq!(
            keys(&program.section()),
            "url = \"unix:/run/php.sock\"\ntransport = \"fastcgi\"\n\
             cgi = { \"root\" = \"/srv\", \"fallback\" = \"index.php\", \"run\" = [\"index.php\"], \
             \"params\" = { \"A\" = \"b\" } }\n"
        );
        let mut draft = Draft::default();
        assert_eq!(draft.program("php", &program), "php");
        assert_eq!(draft.program("php", &program), "php");
        program = Program { protocol: Protocol::Uwsgi, address: "a:1".to_owned(), params: Vec::new(), site: None };
        assert_eq!(keys(&program.section()), "url = \"uwsgi://a:1\"\n");
        assert_eq!(draft.program("php", &program), "php-2");
    }
}
