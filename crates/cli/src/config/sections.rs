//! A text of many sections that changes a little at a time: sections that were read before are not read again.
//!
//! The head of the text is read each time. Behind it are sections of a service or a route each, which are read one by
//! one and remembered by their text, and joined to what the head says. What holds between sections is looked at each
//! time.
//!
//! Invariant: what comes of it is what [`super::load_text`] reads from the whole text. Where that is not certain, or
//! where more is to be said than warnings of the head, there is no answer here and the whole has to be read: so places
//! in reports are those of the whole text, of which the head is the beginning.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Severity, Span};
use super::environment;
use super::error_pages::Pages;
use super::listeners::Ports;
use super::load::Loaded;
use super::model::{Config, Service};
use super::report::Report;
use super::root::{self, More};
use super::route::{self, Draft};
use super::schema::{MAX_ROUTES, MAX_SERVICES, Part};
use super::section::Section;
use super::service::{self, ForAll};
use super::syntax::Syntax;

/// A text, and where sections begin that can be read by themselves, each a service or a route, up to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sectioned {
    /// All of it.
    pub text: Arc<str>,
    /// The first byte of each, in order.
    pub starts: Arc<[usize]>,
}

/// What was read of sections before.
#[derive(Debug, Default)]
pub struct Known {
    /// The head that they were read with, whose defaults count for them.
    head: String,
    sections: HashMap<Box<str>, Remembered>,
    /// How many texts were read.
    turn: u64,
}

#[derive(Debug)]
struct Remembered {
    section: Read,
    /// The turn in which it was there last.
    turn: u64,
}

#[derive(Debug)]
enum Read {
    Service(Box<Service>),
    Route(Box<Draft>),
}

impl Sectioned {
    /// A text without sections of its own.
    #[must_use]
    pub fn whole(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), starts: Arc::default() }
    }

    fn head(&self) -> &str {
        let end = self.starts.first().copied().unwrap_or(self.text.len());
        self.text.get(..end).unwrap_or_default()
    }

    fn sections(&self) -> impl Iterator<Item = &str> {
        let ends = self.starts.iter().skip(1).copied().chain([self.text.len()]);
        self.starts.iter().zip(ends).map(|(start, end)| self.text.get(*start..end).unwrap_or_default())
    }
}

impl Known {
    /// Forgets sections that were in none of the texts read since this was called last.
    pub fn next_turn(&mut self) {
        let turn = self.turn;
        self.sections.retain(|_, section| section.turn == turn);
        self.turn += 1;
    }

    /// Reads a text as [`super::load_text`] does, if there is nothing to say of its sections.
    pub fn load(&mut self, text: &Sectioned, file: &Path, ports: Ports) -> Option<Loaded> {
        let (config, found) = self.read(text, file, |config| environment::check(config, ports))?;
        Some(Loaded { config, warnings: Report::new(file.display().to_string(), text.text.to_string(), found) })
    }

    /// The same without a look at the machine.
    pub fn reread(&mut self, text: &Sectioned, file: &Path) -> Option<Config> {
        self.read(text, file, |_| Vec::new()).map(|(config, _)| config)
    }

    fn read(
        &mut self,
        text: &Sectioned,
        file: &Path,
        machine: impl FnOnce(&Config) -> Vec<Diagnostic>,
    ) -> Option<(Config, Vec<Diagnostic>)> {
        if text.starts.is_empty() {
            return None;
        }
        let absolute = std::path::absolute(file).ok()?;
        let folder = absolute.parent().unwrap_or(Path::new("/"));
        let head = text.head();
        if self.head != head {
            self.sections.clear();
            head.clone_into(&mut self.head);
        }
        let (tree, syntax) = Syntax::parse(head);
        let (mut found, mut behind) = (Vec::new(), Behind { known: self, text, is_whole: true });
        let config = root::read_with(&tree, folder, &mut behind, &mut found);
        let is_whole = behind.is_whole && syntax.found.is_empty();
        let names: HashSet<&str> = config.services.iter().map(Service::name).collect();
        let is_within = config.services.len() <= MAX_SERVICES && config.routes.len() <= MAX_ROUTES;
        if !is_whole || !is_within || names.len() != config.services.len() {
            return None;
        }
        found.extend(machine(&config));
        let has_errors = found.iter().any(|found| found.severity == Severity::Error);
        (!has_errors).then_some((config, found))
    }

    /// What is known of a section, or what it says.
    fn section(&mut self, text: &str, for_all: ForAll<'_>) -> Option<&Read> {
        if !self.sections.contains_key(text) {
            let section = read_one(text, for_all)?;
            self.sections.insert(text.into(), Remembered { section, turn: self.turn });
        }
        let known = self.sections.get_mut(text)?;
        known.turn = self.turn;
        Some(&known.section)
    }
}

/// The sections behind a head.
struct Behind<'a> {
    known: &'a mut Known,
    text: &'a Sectioned,
    /// Whether each of them could be read by itself, and has nothing to do with the others that is worth saying.
    is_whole: bool,
}

impl More for Behind<'_> {
    fn add(&mut self, for_all: ForAll<'_>, services: &mut service::Services, drafts: &mut Vec<Draft>) {
        for section in self.text.sections() {
            match self.known.section(section, for_all) {
                Some(Read::Service(one)) => {
                    services.declared.push((one.name().to_owned(), Span::default()));
                    services.complete.push((**one).clone());
                }
                Some(Read::Route(draft)) => drafts.push((**draft).clone()),
                None => self.is_whole = false,
            }
        }
    }

    fn related(&mut self, found: usize) {
        self.is_whole &= found == 0;
    }
}

/// A section by itself; `None` if there is anything to say of it.
fn read_one(text: &str, for_all: ForAll<'_>) -> Option<Read> {
    let (tree, syntax) = Syntax::parse(text);
    let mut found = Vec::new();
    let root = Section::read(Part::Top, "at the top of the file", 0..0, &tree, &mut found);
    let mut pages = Pages { folder: for_all.folder, files: Vec::new(), services: Vec::new() };
    let services = service::read_all(root.field("services"), for_all, &mut found);
    let mut drafts = route::read_all(root.field("routes"), &mut pages, &mut found);
    let is_good = tree.len() == 1 && found.is_empty() && syntax.found.is_empty();
    let is_alone = pages.files.is_empty() && pages.services.is_empty();
    if !is_good || !is_alone {
        return None;
    }
    let mut services = services.complete;
    // What needs something of this machine has its place in reports of that.
    let is_pure = |service: &Service| service.spec().is_none();
    let needs_nothing =
        |draft: &Draft| draft.needs.files.is_empty() && route::file_roots(std::slice::from_ref(draft)).is_empty();
    match (services.pop(), drafts.pop()) {
        (Some(service), None) if services.is_empty() && is_pure(&service) => Some(Read::Service(Box::new(service))),
        (None, Some(draft)) if drafts.is_empty() && needs_nothing(&draft) => Some(Read::Route(Box::new(draft))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;

    const HEAD: &str = "listen = \"127.0.0.1:0\"\nworkers = 1\n[limits]\nqueue = 7\n[services.base]\nurl = \"http://a\"\n\
                        [[routes]]\npath = \"/base\"\nservice = \"base\"\n";

    fn file() -> &'static Path {
        Path::new("/x/kubernetes.toml")
    }

    fn text(head: &str, sections: &[&str]) -> Sectioned {
        let (mut text, mut starts) = (head.to_owned(), Vec::new());
        for section in sections {
            starts.push(text.len());
            text.push_str(section);
        }
        Sectioned { text: text.into(), starts: starts.into() }
    }

    fn service(name: &str) -> String {
        format!("\n[services.{name}]\nurl = []\nqueue = {{ timeout = \"1s\" }}\n")
    }

    fn route(host: &str, service: &str) -> String {
        format!("\n[[routes]]\nhost = \"{host}\"\npath = \"/\"\nwhen = {{ ports = [80] }}\nservice = \"{service}\"\n")
    }

    #[track_caller]
    fn check(known: &mut Known, text: &Sectioned) {
        known.next_turn();
        let found = known.load(text, file(), Ports::Skip).expect("read by its sections");
        let whole = load_text(&text.text, file(), Ports::Skip).unwrap();
        assert_eq!(found.config.routes, whole.config.routes);
        let kinds = |config: &Config| config.services.iter().map(|one| one.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&found.config), kinds(&whole.config));
        assert_eq!(found.warnings, whole.warnings);
    }

    #[test]
    fn what_is_read_by_sections_is_what_the_whole_says() {
        let head = HEAD; // whose limit has a warning
        let mut known = Known::default();
        let (a, b, to_a, to_b) = (service("a"), service("b"), route("a.test", "a"), route("b.test", "b"));
        check(&mut known, &text(head, &[&a, &to_a]));
        check(&mut known, &text(head, &[&a, &b, &to_a, &to_b]));
        check(&mut known, &text(head, &[&b, &a, &to_b, &to_a]));
        check(&mut known, &text(head, &[&a, &b, &route("a.test", "b"), &to_b, &route("c.test", "a")]));
        assert!(known.sections.contains_key(&*to_a), "as long as the text before may be read again");
        check(&mut known, &text(head, &[&a, &to_a]));
        known.next_turn();
        assert_eq!(known.sections.len(), 2);
    }

    #[test]
    fn what_there_is_something_to_say_of_is_not() {
        let head = HEAD.replace("[limits]\nqueue = 7\n", "");
        let (a, to_a) = (service("a"), route("a.test", "a"));
        let none = |head: &str, sections: &[&str]| {
            assert_eq!(Known::default().load(&text(head, sections), file(), Ports::Skip), None, "{sections:?}");
        };
        none(&head, &[&a, &a, &to_a]);
        none(&head, &[&a, &to_a, &to_a]);
        none(&head, &[&a, &route("b.test", "unknown")]);
        none(&head, &[&a, &service("unused"), &to_a]);
        none(&head, &[&service("base"), &a, &to_a]);
        none(&head, &[&a, &to_a.replace("path = \"/\"", "path = \"x\"")]);
        none(&head, &[&a, &to_a, "\n[cache]\nmemory = \"1MiB\"\n"]);
        none(&head, &[&a, &to_a, "\nthis is no TOML\n"]);
        none(&head, &[&format!("{a}{to_a}")]);
        none(&head.replace("workers = 1", "worker = 1"), &[&a, &to_a]);
        none(&head, &[]);
    }

    #[test]
    fn another_head_counts_for_all() {
        let (mut known, (a, to_a)) = (Known::default(), (service("a"), route("a.test", "a")));
        let head = HEAD.replace("[limits]\nqueue = 7\n", "");
        check(&mut known, &text(&head, &[&a, &to_a]));
        check(&mut known, &text(&head.replace("workers = 1", "workers = 2"), &[&a, &to_a]));
    }
}
