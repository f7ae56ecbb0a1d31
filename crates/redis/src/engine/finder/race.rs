//! Several ways to the primary, tried beside each other: each gets a head start before the next one begins.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Aim, Finder, HEARSAY, Heard, Sentinels, Setup};
use crate::command::Command;
use crate::config::{Config, NodeAddress};
use crate::engine::lane::DialError;
use crate::net::connect::{Purpose, connect};
use crate::net::connection::Connection;
use crate::net::wire::Wire;
use crate::proto::asked::Asked;
use crate::proto::sentinel;

/// Sentinels asked at once.
const MAX_ASKED: usize = 3;
/// The head start (RFC 8305 has the same between addresses of one host).
const STAGGER: Duration = Duration::from_millis(250);

impl Finder {
    /// A connection to the primary, whose handshake ends with `setup`.
    ///
    /// # Errors
    /// Nobody who can be asked knows a server that is the primary, or it cannot be connected to.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub(crate) async fn connect(&self, purpose: Purpose, setup: &Setup) -> Result<Connection, DialError> {
        let mut heard = self.heard.subscribe();
        let connection = loop {
            heard.mark_unchanged();
            tokio::select! {
                biased;
                result = self.attempt(purpose, setup) => break result?,
                // An attempt at the old primary may hang: somebody knows better now.
                Ok(()) = heard.changed() => {}
            }
        };
        *self.last.lock() = Some(connection.address.clone());
        Ok(connection)
    }

    async fn attempt(&self, purpose: Purpose, setup: &Setup) -> Result<Connection, DialError> {
        let aim = Aim { config: Arc::clone(&self.config), purpose, setup: Arc::clone(setup) };
        let heard = self.heard.borrow().clone();
        if let Some(sentinels) = &self.sentinels {
            let hearsay = heard.filter(|heard| heard.at.elapsed() < HEARSAY).map(|heard| heard.address);
            return by_sentinels(sentinels, &aim, hearsay).await;
        }
        if let Some(Heard { address, .. }) = heard {
            // To where the server itself redirected. When that is gone, whoever is configured tells anew.
            match aim.connect(&address).await {
                Ok(connection) => return Ok(connection),
                Err(_) => self.forget(&address),
            }
        }
        match self.config.servers.as_slice() {
            [] => Err(DialError { text: "no server is configured".into(), is_final: true }),
            // The only one is what it is.
            [only] => aim.connect(only).await,
            servers => by_servers(self, servers, &aim).await,
        }
    }
}

/// The first of `servers` that is the primary; where it was last is tried first.
async fn by_servers(finder: &Finder, servers: &[NodeAddress], aim: &Aim) -> Result<Connection, DialError> {
    let last = finder.last();
    let mut rest: Vec<_> = servers.iter().filter(|&server| last.as_ref() != Some(server)).cloned().collect();
    if let Some(last) = last.filter(|last| servers.contains(last)) {
        rest.insert(0, last);
    }
    let mut rest = rest.into_iter();
    let mut connecting = JoinSet::new();
    let mut problems = Problems::default();
    let begin = |connecting: &mut JoinSet<_>, server: NodeAddress| {
        let aim = aim.clone();
        connecting.spawn(async move { aim.connect_primary(&server).await });
    };
    loop {
        if connecting.is_empty() {
            match rest.next() {
                Some(server) => begin(&mut connecting, server),
                None => return Err(problems.into_error("no server is the primary")),
            }
        }
        tokio::select! {
            Some(result) = connecting.join_next() => match result {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(problem)) => problems.add(problem),
                Err(_) => {}
            },
            () = tokio::time::sleep(STAGGER), if rest.len() > 0 => {
                rest.next().into_iter().for_each(|server| begin(&mut connecting, server));
            }
        }
    }
}

/// The primary that Sentinels name. `hearsay` is tried beside what they answer.
async fn by_sentinels(sentinels: &Sentinels, aim: &Aim, hearsay: Option<NodeAddress>) -> Result<Connection, DialError> {
    let mut search = Search {
        aim,
        sentinels,
        asked: JoinSet::new(),
        connecting: JoinSet::new(),
        tried: Vec::new(),
        problems: Problems::default(),
    };
    let mut rest = sentinels.order.lock().addresses().into_iter();
    hearsay.into_iter().for_each(|address| search.try_at(address));
    rest.by_ref().take(MAX_ASKED).for_each(|sentinel| search.ask(sentinel));
    loop {
        tokio::select! {
            Some(result) = search.connecting.join_next() => match result {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(problem)) => search.problems.add(problem),
                Err(_) => {}
            },
            Some(result) = search.asked.join_next() => if let Ok((sentinel, answer)) = result
                && !search.heed(&sentinel, answer)
            {
                // Another one in its place.
                rest.next().into_iter().for_each(|sentinel| search.ask(sentinel));
            },
            () = tokio::time::sleep(STAGGER), if rest.len() > 0 => {
                rest.next().into_iter().for_each(|sentinel| search.ask(sentinel));
            }
            else => return Err(search.problems.into_error(&format!("no Sentinel leads to {:?}", sentinels.master_name))),
        }
    }
}

struct Search<'s> {
    aim: &'s Aim,
    sentinels: &'s Sentinels,
    asked: JoinSet<(NodeAddress, Result<Option<NodeAddress>, DialError>)>,
    connecting: JoinSet<Result<Connection, DialError>>,
    tried: Vec<NodeAddress>,
    problems: Problems,
}

impl Search<'_> {
    fn ask(&mut self, sentinel: NodeAddress) {
        let (config, name) = (Arc::clone(&self.aim.config), Arc::clone(&self.sentinels.master_name));
        self.asked.spawn(async move {
            let answer = ask(&config, &sentinel, &name).await;
            (sentinel, answer)
        });
    }

    /// What a Sentinel answered. False: it did not help.
    fn heed(&mut self, sentinel: &NodeAddress, answer: Result<Option<NodeAddress>, DialError>) -> bool {
        match answer {
            Ok(Some(primary)) => {
                self.sentinels.order.lock().answered(sentinel);
                self.try_at(primary);
                return true;
            }
            Ok(None) => {
                let text = format!("{sentinel}: knows no primary called {:?}", self.sentinels.master_name);
                self.problems.add(DialError { text: text.into(), is_final: true });
            }
            Err(problem) => self.problems.add(problem),
        }
        self.sentinels.order.lock().failed(sentinel);
        false
    }

    fn try_at(&mut self, address: NodeAddress) {
        if self.tried.contains(&address) {
            return;
        }
        self.tried.push(address.clone());
        let aim = self.aim.clone();
        self.connecting.spawn(async move { aim.connect_primary(&address).await });
    }
}

/// Asks one Sentinel for the primary's address, within the connect time-out.
pub(crate) async fn ask(config: &Config, sentinel: &NodeAddress, name: &str) -> Result<Option<NodeAddress>, DialError> {
    let failed = |problem: String| DialError { text: format!("{sentinel}: {problem}").into(), is_final: false };
    let work = async {
        let mut wire = Wire::new(connect(config, sentinel, Purpose::Sentinel).await?);
        let command = Command::raw("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let reply = wire.exchange(&command).await.map_err(|error| failed(error.to_string()))?;
        sentinel::primary(&reply, &Asked::plain(sentinel)).map_err(|error| failed(error.to_string()))
    };
    match tokio::time::timeout(config.connect_timeout, work).await {
        Ok(answer) => answer,
        Err(_) => Err(failed(format!("no answer within {:?}", config.connect_timeout))),
    }
}

/// Why each of several ways led nowhere.
#[derive(Default)]
struct Problems(Vec<DialError>);

impl Problems {
    fn add(&mut self, problem: DialError) {
        self.0.push(problem);
    }

    /// Final if every one of them is. The cause is that of the first that has one.
    fn into_error(self, what: &str) -> DialError {
        let texts: Vec<_> = self.0.iter().map(|problem| &*problem.text).collect();
        let is_final = !self.0.is_empty() && self.0.iter().all(|problem| problem.is_final);
        let text = format!("{what}: {}", texts.join("; "));
        let text = match self.0.iter().find(|problem| problem.text.cause().is_some()) {
            Some(problem) => problem.text.told(text),
            None => text.into(),
        };
        DialError { text, is_final }
    }
}
