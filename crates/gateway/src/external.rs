//! Services that Pilotlight does not start.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pilotlight_tls::ServerTls;

use crate::options::dns::ServerName;
use crate::options::external::{BalanceBy, ExternalSpec, ServerProtocol, ServerSpec, Versions};
use crate::servers::{Listed, Live, OneServer, Predecessor};

/// A service that Pilotlight does not start: one server, or several that share the requests.
#[derive(Debug)]
pub struct External {
    /// Without its servers, which may change.
    spec: ExternalSpec,
    list: List,
    /// Where TLS is spoken: what handshakes begin from, or why there can be none.
    tls: Option<Result<ServerTls, String>>,
    /// The secret of what clients are told of a server that are to come back to it.
    sticky: Option<Vec<u8>>,
}

/// Where its requests go.
#[derive(Debug)]
enum List {
    /// One server, of which there is nothing to know.
    One(Box<OneServer>),
    /// Several, or one that there is something to know of, or none; they may change.
    Live(Box<Live>),
}

impl External {
    /// The service of these settings.
    #[must_use]
    pub fn new(mut spec: ExternalSpec) -> Self {
        let has_tls = matches!(spec.protocol, ServerProtocol::Https(_));
        let tls = has_tls.then(|| ServerTls::load(&spec.tls).map_err(|e| e.to_string()));
        if let Some(Err(why)) = &tls {
            tracing::error!(service = spec.name, "its servers cannot be connected to: {why}");
        }
        let sticky = matches!(spec.balance.by, BalanceBy::Sticky(_)).then(|| sticky_secret(&spec));
        let listed = std::mem::take(&mut spec.servers);
        let is_watched = !spec.names.is_empty() || spec.health.is_some() || spec.balance.settings.max_open.is_some();
        let list = match <[ServerSpec; 1]>::try_from(listed) {
            Ok([one]) if !is_watched => List::One(Box::new(OneServer::new(one, 0, None))),
            Ok([one]) => List::Live(Box::new(Live::new(vec![one], &spec, sticky.as_deref()))),
            Err(listed) => List::Live(Box::new(Live::new(listed, &spec, sticky.as_deref()))),
        };
        Self { spec, list, tls, sticky }
    }

    /// Whether it is of the same settings and files, whichever servers the settings list.
    fn is_like(&self, other: &Self) -> bool {
        self.spec == other.spec && self.tls == other.tls && self.sticky == other.sticky
    }

    /// Has the servers of `new` from now on, if nothing else is different. Those that stay keep their connections and
    /// whatever is known of them. `false`: something else is different, and nothing has changed.
    #[must_use]
    pub fn follow(&self, new: &Self) -> bool {
        if !self.is_like(new) {
            return false;
        }
        let listed = new.listed();
        if self.listed() == listed {
            return true;
        }
        let List::Live(live) = &self.list else { return false };
        let servers = live.list(listed, &self.spec, self.sticky.as_deref());
        live.tell_predecessors(&servers);
        true
    }

    /// It stands for another service of that name from now on, whose other settings have changed: what is known of
    /// servers that are in both lists goes on to count, and servers that were given stay.
    pub(crate) fn take_over(&self, old: &Arc<Self>) {
        match (&self.list, &old.list) {
            (List::Live(new), List::Live(live)) => {
                let predecessor: Weak<dyn Predecessor> = Arc::downgrade(&(Arc::clone(old) as Arc<dyn Predecessor>));
                new.take_over(live, predecessor, &self.spec, self.sticky.as_deref());
            }
            (List::One(one), List::Live(_)) => old.follow_successor(std::slice::from_ref(one.spec())),
            (_, List::One(_)) => {}
        }
    }

    /// What the DNS says of a name, and when it is asked again. Returns whether that changes its servers.
    pub(crate) fn resolved(&self, name: &ServerName, found: Result<Vec<ServerSpec>, String>, next: Duration) -> bool {
        let List::Live(live) = &self.list else { return false };
        let Some(servers) = live.resolved(name, found, next, &self.spec, self.sticky.as_deref()) else { return false };
        live.tell_predecessors(&servers);
        true
    }

    /// What the settings list.
    fn listed(&self) -> Vec<ServerSpec> {
        match &self.list {
            List::One(one) => vec![one.spec().clone()],
            List::Live(live) => live.now().listed().to_vec(),
        }
    }

    /// Its settings but for its servers.
    #[must_use]
    pub fn spec(&self) -> &ExternalSpec {
        &self.spec
    }

    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its servers, unless it is one of which there is nothing to know.
    pub(crate) fn live(&self) -> Option<&Live> {
        match &self.list {
            List::Live(live) => Some(live),
            List::One(_) => None,
        }
    }

    /// Its only server, of which there is nothing to know.
    pub(crate) fn only(&self) -> Option<&OneServer> {
        match &self.list {
            List::One(one) => Some(one),
            List::Live(_) => None,
        }
    }

    /// Whether the server of this number is one of its servers now.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.live().is_none_or(|live| live.now().of_number(number).is_some())
    }

    /// Has these servers from now on.
    ///
    /// # Errors
    /// The settings list its servers.
    pub(crate) fn give(&self, servers: &[ServerSpec]) -> Result<(), Listed> {
        match &self.list {
            List::One(_) => Err(Listed),
            List::Live(live) => {
                live.give(servers.to_vec(), &self.spec, self.sticky.as_deref())?;
                live.tell_predecessors(servers);
                Ok(())
            }
        }
    }

    /// TLS to its servers, if that is spoken.
    pub(crate) fn tls(&self) -> Option<Result<&ServerTls, &str>> {
        self.tls.as_ref().map(|tls| tls.as_ref().map_err(String::as_str))
    }

    pub(crate) fn offers_http2(&self) -> bool {
        self.spec.protocol == ServerProtocol::Https(Versions::Both)
    }

    /// Its servers, for people.
    pub(crate) fn address(&self) -> String {
        match &self.list {
            List::One(one) => one.address().to_owned(),
            List::Live(live) => {
                let now = live.now();
                let servers: Vec<&str> = now.all().iter().map(|one| one.address()).collect();
                servers.join(", ")
            }
        }
    }
}

impl Predecessor for External {
    fn follow_successor(&self, servers: &[ServerSpec]) {
        if let List::Live(live) = &self.list {
            live.follow_successor(servers.to_vec(), &self.spec, self.sticky.as_deref());
            live.tell_predecessors(servers);
        }
    }

    fn waiting(&self) -> usize {
        self.live().map_or(0, |live| live.line().length())
    }
}

/// Reads the secret of a service's cookies.
///
/// # Errors
/// The file cannot be read, or is empty or larger than 4 KiB.
pub fn read_sticky_key(path: &Path) -> io::Result<Vec<u8>> {
    let mut secret = Vec::new();
    File::open(path)?.take(MAX_STICKY_KEY + 1).read_to_end(&mut secret)?;
    let is_good = !secret.is_empty() && secret.len() as u64 <= MAX_STICKY_KEY;
    let what = format!("it is to have 1 to {MAX_STICKY_KEY} bytes");
    if is_good { Ok(secret) } else { Err(io::Error::new(io::ErrorKind::InvalidData, what)) }
}

/// Most bytes of the file of `sticky_key`.
const MAX_STICKY_KEY: u64 = 4096;

/// A random one if it cannot be read.
fn sticky_secret(spec: &ExternalSpec) -> Vec<u8> {
    let secret = spec.balance.sticky_key.as_deref().map(read_sticky_key).transpose().unwrap_or_else(|e| {
        tracing::error!(
            service = spec.name,
            "sticky_key cannot be used, clients may not come back to their servers: {e}"
        );
        Some((0..size_of::<u64>()).map(|_| fastrand::u8(..)).collect())
    });
    secret.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::options::external::{BalanceOptions, ExternalAddr};

    fn specs(hosts: &[&str]) -> Vec<ServerSpec> {
        hosts.iter().map(|host| ServerSpec::new(ExternalAddr::Tcp((*host).to_owned(), 80))).collect()
    }

    fn external(hosts: &[&str], balance: BalanceOptions) -> External {
        let one = ExternalSpec::one("app", ExternalAddr::Unix("/x".into()), ServerProtocol::Http1);
        External::new(ExternalSpec { servers: specs(hosts), balance, ..one })
    }

    fn sticky(hosts: &[&str], sticky_key: Option<PathBuf>) -> External {
        let by = BalanceBy::Sticky("at".to_owned());
        external(hosts, BalanceOptions { by, sticky_key, ..BalanceOptions::default() })
    }

    /// What clients are told of a server.
    fn id(external: &External, index: usize) -> String {
        external.live().unwrap().now().one(index).unwrap().id().unwrap().to_owned()
    }

    fn server_of(external: &External, id: &str) -> Option<usize> {
        external.live().unwrap().now().of_id(id.as_bytes())
    }

    #[test]
    fn a_server_is_known_by_its_id_in_any_order_and_only_with_the_secret() {
        let (one, other) = (sticky(&["a", "b"], None), sticky(&["b", "c", "a"], None));
        let id = id(&one, 0);
        assert_eq!((id.len(), server_of(&other, &id), server_of(&one, &id)), (16, Some(2), Some(0)));
        assert_eq!(server_of(&one, "a:80"), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret").unwrap();
        let keyed = || sticky(&["a", "b"], Some(file.path().to_owned()));
        assert_eq!(server_of(&keyed(), &id), None);
        assert!(keyed().follow(&keyed()));
        let before = keyed();
        std::fs::write(file.path(), "another").unwrap();
        assert!(!keyed().follow(&before));
    }

    fn addresses(external: &External) -> String {
        external.address()
    }

    #[test]
    fn one_server_has_no_list_and_cannot_be_given_another() {
        let one = external(&["a"], BalanceOptions::default());
        assert!(one.live().is_none() && one.give(&specs(&["b"])).is_err());
        assert!(one.follow(&external(&["a"], BalanceOptions::default())));
        assert!(!one.follow(&external(&["b"], BalanceOptions::default())));
        assert!(!one.follow(&external(&["a", "b"], BalanceOptions::default())));
    }

    #[test]
    fn a_reload_changes_what_is_listed_and_leaves_what_was_given() {
        let (balance, none) = (BalanceOptions::default(), &[] as &[&str]);
        let service = external(none, balance.clone());
        service.give(&specs(&["a", "b", "a"])).unwrap();
        assert_eq!(addresses(&service), "a:80, b:80", "each once");
        assert!(service.follow(&external(none, balance.clone())));
        assert_eq!(addresses(&service), "a:80, b:80");
        assert!(service.follow(&external(&["b", "c"], balance.clone())));
        assert_eq!(addresses(&service), "b:80, c:80");
        assert!(service.give(&specs(&["d"])).is_err(), "the file has them now");
        assert!(service.follow(&external(&["c"], balance.clone())), "it keeps its list");
        assert!(service.follow(&external(none, balance)));
        assert_eq!(addresses(&service), "");
        assert!(service.give(&specs(&["d"])).is_ok());
    }

    #[test]
    fn other_settings_make_another_service_that_takes_over_what_is_known() {
        use pilotlight_balance::{Ask, Ms};
        let now = crate::timing::millis(crate::timing::Moment::now());
        let other = || BalanceOptions { connect_timeout: Duration::from_secs(9), ..BalanceOptions::default() };
        let old = Arc::new(external(&[], BalanceOptions::default()));
        old.give(&specs(&["a", "b"])).unwrap();
        let before = old.live().unwrap().now();
        while !before.group().failed(0, now) {}
        assert_eq!(before.group().choose(Ask { now, ..Ask::default() }), Some(1));
        let new = Arc::new(external(&[], other()));
        assert!(!old.follow(&new));
        new.take_over(&old);
        let after = new.live().unwrap().now();
        assert_eq!((addresses(&new), after.group().open(1)), ("a:80, b:80".to_owned(), 1));
        assert!(after.group().is_ejected(0, Ms(now.0 + 1)));
        new.give(&specs(&["a", "b", "d"])).unwrap();
        assert_eq!(addresses(&old), "a:80, b:80, d:80", "requests may wait there yet");
        let listed = external(&["b", "c"], BalanceOptions::default());
        listed.take_over(&new);
        assert_eq!((addresses(&listed), listed.live().unwrap().now().group().open(0)), ("b:80, c:80".to_owned(), 1));
        assert_eq!((addresses(&old), addresses(&new)), (addresses(&listed), addresses(&listed)));
        external(&["e"], BalanceOptions::default()).take_over(&new);
        assert_eq!(addresses(&new), "e:80", "one server has no list");
    }
}
