//! The configuration as it grows: routes, each read by the gateway's own reader before it is joined.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use pilotlight_cli::config;

use super::attach::Attachment;
use super::backends::Backends;
use super::text::{Table, quoted};
use crate::conditions::{Condition, ParentStatus};
use crate::snapshot::Snapshot;

/// Most routes of the configuration; the file has this limit.
pub const MAX_ROUTES: usize = 16_384;

/// What was found of texts of routes before: only those that are new are read.
#[derive(Debug, Default)]
pub struct Checks {
    /// What was found, and the turn in which it was asked for last.
    pub(super) known: HashMap<String, (Option<String>, u64)>,
    turn: u64,
}

impl Checks {
    /// What the reader of configurations says against a text, if anything.
    fn why_not(&mut self, text: &str) -> Option<String> {
        if let Some((found, turn)) = self.known.get_mut(text) {
            *turn = self.turn;
            return found.clone();
        }
        let found = read(text);
        self.known.insert(text.to_owned(), (found.clone(), self.turn));
        found
    }

    /// Forgets what was not asked for since the last time.
    pub fn forget(&mut self) {
        let turn = self.turn;
        self.known.retain(|_, (_, asked)| *asked == turn);
        self.turn += 1;
    }
}

fn read(text: &str) -> Option<String> {
    let whole = format!("[services.app]\nurl = \"http://localhost\"\n{text}");
    let report = config::parse(&whole, Path::new("route.toml")).err()?;
    let all: Vec<String> = report.diagnostics().iter().take(3).map(|found| found.message.clone()).collect();
    Some(all.join("; "))
}

/// What routes are made with.
pub(super) struct Work<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) backends: Backends,
    pub(super) checks: &'a mut Checks,
    pub(super) pieces: Vec<Placed>,
    /// Places that are taken: host, path and conditions.
    pub(super) seen: BTreeSet<String>,
    /// Hosts of which a route takes everything at a port.
    pub(super) taken: BTreeSet<(String, u16)>,
}

/// The text of a route that has its place.
pub(super) struct Placed {
    pub(super) place: String,
    pub(super) service: Option<String>,
    pub(super) text: String,
}

impl<'a> Work<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, checks: &'a mut Checks) -> Self {
        Self {
            snapshot,
            backends: Backends::default(),
            checks,
            pieces: Vec::new(),
            seen: BTreeSet::new(),
            taken: BTreeSet::new(),
        }
    }

    /// Takes back what has been joined since there were so many.
    pub(super) fn take_back(&mut self, count: usize) {
        for placed in self.pieces.drain(count..) {
            self.seen.remove(&placed.place);
        }
    }

    /// Joins a route unless an older one has its place.
    ///
    /// # Errors
    /// Why the gateway cannot have it.
    pub(super) fn push(&mut self, piece: &Piece) -> Result<(), String> {
        if self.pieces.len() >= MAX_ROUTES {
            return Err(format!("there are more than {MAX_ROUTES} routes"));
        }
        // One that is hidden by another is refused like any other.
        let checked = piece.table.replaced("service", "app").text("[[routes]]");
        if let Some(why) = self.checks.why_not(&checked) {
            return Err(why);
        }
        if self.seen.insert(piece.place.clone()) {
            let (place, service) = (piece.place.clone(), piece.service.clone());
            self.pieces.push(Placed { place, service, text: piece.table.text("[[routes]]") });
        }
        Ok(())
    }
}

/// Where a route of the gateway is: of two with the same place the older has it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) host: Option<&'a str>,
    pub(super) path: &'a str,
    pub(super) exact: bool,
    /// `when`, if there is one.
    pub(super) conditions: Option<&'a str>,
}

impl Place<'_> {
    /// The beginning of its section.
    pub(super) fn table(self) -> Table {
        let mut table = Table::default();
        if let Some(host) = self.host {
            table.set("host", quoted(host));
        }
        table.set("path", quoted(self.path));
        if self.exact {
            table.set("exact", "true".to_owned());
        }
        if let Some(conditions) = self.conditions {
            table.set("when", conditions.to_owned());
        }
        table
    }

    pub(super) fn text(self) -> String {
        let Self { host, path, exact, conditions } = self;
        format!("{}{path}{} {}", host.unwrap_or("*"), if exact { "=" } else { "" }, conditions.unwrap_or_default())
    }
}

/// A route of the gateway.
pub(super) struct Piece {
    /// That of its [`Place`].
    pub(super) place: String,
    /// Where it leads, if that is a service.
    pub(super) service: Option<String>,
    pub(super) table: Table,
}

/// Of one parent of a route: what was said so far.
pub(super) fn parent_status(attachment: &Attachment, accepted: Condition, resolved: Condition) -> ParentStatus {
    ParentStatus { parent: attachment.parent.clone(), conditions: vec![accepted, resolved] }
}
