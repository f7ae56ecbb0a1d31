//! A whole Caddyfile: what its sites share, and snippets.

use std::collections::{BTreeMap, BTreeSet};

use crate::directive::{Directive, MAX_DEPTH};
use crate::document::Value;
use crate::model::{Became, Draft};

use crate::rules::{CLOSED, names_access};

use super::level::Done;

/// Most directives after all snippets were put in.
pub(super) const MAX_DIRECTIVES: usize = 20_000;
/// What sites have to know of them.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Sites without a scheme speak plain HTTP.
    pub(super) is_plain: bool,
    /// Plain HTTP is answered.
    pub(super) has_no_redirects: bool,
    pub(super) has_local_certificates: bool,
    pub(super) http_port: Option<u16>,
    pub(super) https_port: Option<u16>,
    pub(super) bind: Vec<String>,
    /// Where on-demand certificates are asked about.
    pub(super) ask: Option<String>,
    /// Keys of `acme`, for when a site needs it.
    pub(super) acme: Vec<(String, Value)>,
}

/// Why a file that is included is not mapped.
pub(super) const ONE_FILE: &str = "one file is read: put its lines in this place, or import it by itself";

#[derive(Default)]
pub(super) struct Reader {
    pub(super) draft: Draft,
    pub(super) snippets: BTreeMap<String, Vec<Directive>>,
    pub(super) options: Options,
    /// Hosts of sites that speak TLS.
    pub(super) tls_hosts: BTreeSet<String>,
    /// What was noted, by line and name: a directive that counts for several routes is noted once.
    pub(super) noted: BTreeSet<(usize, String)>,
    pub(super) directives: usize,
    /// Lines of sites that import what is not here, and has rules of access by its name.
    pub(super) closed: BTreeSet<usize>,
    /// The site that is being put together is one of them.
    pub(super) is_closing: bool,
}

impl Reader {
    pub(super) fn note(&mut self, line: usize, option: &str, done: Done) {
        if self.noted.insert((line, option.to_owned())) {
            let became = match done {
                Done::Mapped(to) => Became::Mapped(to),
                Done::NotNeeded(why) => Became::NotNeeded(why),
                Done::NotMapped(why) => Became::NotMapped(why),
            };
            self.draft.note(line, option, became);
        }
    }

    /// Notes every line of directives that are left out.
    pub(super) fn lost_block(&mut self, directives: &[Directive], why: &str) {
        for one in directives {
            self.note(one.line, &one.label(), Done::NotMapped(why.to_owned()));
            self.lost_block(one.children(), why);
        }
    }

    /// Directives with the snippets that they import in their place.
    pub(super) fn expanded(&mut self, directives: &[Directive], depth: usize) -> Vec<Directive> {
        let mut all = Vec::new();
        for directive in directives {
            self.directives += 1;
            if depth > MAX_DEPTH || self.directives > MAX_DIRECTIVES {
                self.note(directive.line, &directive.name, Done::NotMapped("there are too many imports".to_owned()));
                return all;
            }
            if directive.name == "import" {
                let snippet = self.snippets.get(directive.arg(0)).cloned();
                match snippet {
                    Some(mut snippet) => {
                        snippet.iter_mut().for_each(|one| fill(one, &directive.args[1..]));
                        self.note(directive.line, "import", Done::Mapped("what its snippet says".to_owned()));
                        all.extend(self.expanded(&snippet, depth + 1));
                    }
                    None if names_access(directive.arg(0)) => {
                        self.is_closing = true;
                        let why = format!("its name says that it has rules of access, and {ONE_FILE}; {CLOSED}");
                        self.note(directive.line, &directive.label(), Done::NotMapped(why));
                    }
                    None => self.note(directive.line, &directive.label(), Done::NotMapped(ONE_FILE.to_owned())),
                }
                continue;
            }
            let block = directive.block.as_ref().map(|block| self.expanded(block, depth + 1));
            all.push(Directive { block, ..directive.clone() });
        }
        all
    }
}

/// Puts the arguments of an import in the place of `{args[0]}`.
fn fill(directive: &mut Directive, values: &[String]) {
    for word in
        directive.args.iter_mut().chain(std::iter::once(&mut directive.name)).filter(|word| word.contains("{args"))
    {
        for (index, value) in values.iter().enumerate() {
            *word = word.replace(&format!("{{args[{index}]}}"), value).replace(&format!("{{args.{index}}}"), value);
        }
    }
    for child in directive.block.iter_mut().flatten() {
        fill(child, values);
    }
}
