//! Gateways of our classes: what is listened on, and which routes may come.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::hosts;
use super::model::Options;
use super::text::{Table, quoted};
use crate::api::{GATEWAY_CONTROLLER, GROUP, Listener, ObjectRef, Selector};
use crate::conditions::{Condition, ListenerStatus, Statuses, Subject, Wanted};
use crate::snapshot::{Key, Snapshot, TlsSecret};

/// Most ports; the configuration has this limit.
const MAX_PORTS: usize = 16;

/// What is spoken at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Http,
    Https,
}

impl Protocol {
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Which namespaces routes may come from.
#[derive(Clone, Debug)]
enum From {
    Same,
    All,
    Selected(Selector),
    Nowhere,
}

/// A reason as a word, and for people.
type Why = (&'static str, String);

/// A listener of one of our Gateways.
pub(super) struct Door {
    pub(super) gateway: Key,
    pub(super) name: String,
    /// As the Gateway has it.
    pub(super) port: u16,
    /// Where it is listened on.
    pub(super) listened: u16,
    pub(super) protocol: Protocol,
    /// In small letters; none: every host.
    pub(super) hostname: Option<String>,
    from: From,
    takes_http_routes: bool,
    accepted: Option<Why>,
    conflicted: Option<Why>,
    resolved: Option<Why>,
    /// Names of files.
    certificates: Vec<String>,
    attached: BTreeSet<Key>,
}

impl Door {
    /// Whether it is listened on.
    pub(super) fn is_open(&self) -> bool {
        self.accepted.is_none()
            && self.conflicted.is_none()
            && self.takes_http_routes
            && (self.protocol == Protocol::Http || !self.certificates.is_empty())
    }

    /// Whether routes of a namespace may come.
    pub(super) fn allows(&self, snapshot: &Snapshot, namespace: &str) -> bool {
        self.takes_http_routes
            && match &self.from {
                From::Same => *self.gateway.namespace == *namespace,
                From::All => true,
                From::Selected(selector) => snapshot.selects(selector, namespace),
                From::Nowhere => false,
            }
    }
}

/// All listeners, and the ports of Ingresses.
pub(super) struct Doors {
    pub(super) all: Vec<Door>,
    /// Ports beside those of Gateways.
    more: BTreeMap<u16, Protocol>,
    files: BTreeMap<String, Arc<TlsSecret>>,
}

/// The classes that are ours.
pub(super) fn classes(snapshot: &Snapshot, options: &Options, statuses: &mut Statuses) {
    for (key, class) in &snapshot.gateway_classes {
        if class.spec.controller_name == GATEWAY_CONTROLLER && is_wanted(&key.name, options) {
            let conditions = vec![Condition::yes("Accepted", "Accepted")];
            statuses.insert(Subject::GatewayClass(key.clone()), Wanted::Class(conditions));
        }
    }
}

fn is_wanted(class: &str, options: &Options) -> bool {
    options.class_name.as_deref().is_none_or(|wanted| wanted == class)
}

/// Whether a Gateway's class is ours.
fn is_ours(snapshot: &Snapshot, options: &Options, class: &str) -> bool {
    let known = snapshot.gateway_classes.get(&Key::new("", class));
    is_wanted(class, options) && known.is_some_and(|class| class.spec.controller_name == GATEWAY_CONTROLLER)
}

impl Doors {
    pub(super) fn of(snapshot: &Snapshot, options: &Options) -> Self {
        let mut doors = Self { all: Vec::new(), more: BTreeMap::new(), files: BTreeMap::new() };
        let mut gateways: Vec<_> = snapshot.gateways.iter().collect();
        gateways.retain(|(_, gateway)| is_ours(snapshot, options, &gateway.spec.gateway_class_name));
        gateways.sort_by_key(|(key, gateway)| (gateway.meta.created, (*key).clone()));
        for (key, gateway) in gateways {
            let first = doors.all.len();
            for listener in &gateway.spec.listeners {
                let door = doors.door(snapshot, options, key, listener);
                doors.all.push(door);
            }
            conflicts(&mut doors.all[first..]);
            doors.ports_of_others(first, options);
        }
        doors
    }

    fn door(&mut self, snapshot: &Snapshot, options: &Options, gateway: &Key, listener: &Listener) -> Door {
        let protocol = if listener.protocol == "HTTPS" { Protocol::Https } else { Protocol::Http };
        let is_known = matches!(listener.protocol.as_str(), "HTTP" | "HTTPS");
        let unknown = || ("UnsupportedProtocol", format!("{} is not HTTP or HTTPS", listener.protocol));
        let namespaces = listener.allowed_routes.namespaces.clone().unwrap_or_default();
        let from = match namespaces.from.as_deref() {
            Some("All") => From::All,
            Some("Selector") => From::Selected(namespaces.selector.unwrap_or_default()),
            Some("None") => From::Nowhere,
            _ => From::Same,
        };
        let kinds = &listener.allowed_routes.kinds;
        let is_http_route = |kind: &&crate::api::RouteKind| {
            kind.kind == "HTTPRoute" && kind.group.as_deref().is_none_or(|group| group == GROUP)
        };
        let unknown_kind = kinds.iter().find(|kind| !is_http_route(kind));
        let mut door = Door {
            gateway: gateway.clone(),
            name: listener.name.clone(),
            port: listener.port,
            listened: options.listened(listener.port),
            protocol,
            hostname: listener.hostname.as_deref().filter(|host| !host.is_empty()).map(str::to_ascii_lowercase),
            from,
            takes_http_routes: is_known && (kinds.is_empty() || kinds.iter().any(|kind| is_http_route(&kind))),
            accepted: (!is_known).then(unknown),
            conflicted: None,
            resolved: unknown_kind
                .map(|kind| ("InvalidRouteKinds", format!("routes of the kind {} are not supported", kind.kind))),
            certificates: Vec::new(),
            attached: BTreeSet::new(),
        };
        if is_known && protocol == Protocol::Https {
            self.certificates(snapshot, listener, &mut door);
        }
        door
    }

    fn certificates(&mut self, snapshot: &Snapshot, listener: &Listener, door: &mut Door) {
        let tls = listener.tls.clone().unwrap_or_default();
        if tls.mode.as_deref().is_some_and(|mode| mode != "Terminate") {
            door.accepted = Some(("UnsupportedValue", "tls.mode is not Terminate".to_owned()));
            return;
        }
        if tls.certificate_refs.is_empty() {
            door.resolved = Some(("InvalidCertificateRef", "tls.certificateRefs is empty".to_owned()));
        }
        for reference in &tls.certificate_refs {
            match certificate(snapshot, &door.gateway, reference) {
                Ok((key, secret)) => door.certificates.push(self.file(&key, secret)),
                Err(why) => door.resolved = Some(why),
            }
        }
    }

    /// The name of a certificate's files, which changes with what is in them.
    pub(super) fn file(&mut self, key: &Key, secret: &Arc<TlsSecret>) -> String {
        let name = format!("{}_{}_{:016x}", key.namespace, key.name, secret.digest());
        self.files.insert(name.clone(), Arc::clone(secret));
        name
    }

    /// Ports at which an older Gateway speaks something else, that cannot be had, or that are too many.
    fn ports_of_others(&mut self, first: usize, options: &Options) {
        let (older, own) = self.all.split_at_mut(first);
        let mut ports: BTreeMap<u16, (Protocol, Key)> = BTreeMap::new();
        for door in older.iter().filter(|door| door.is_open()) {
            ports.insert(door.listened, (door.protocol, door.gateway.clone()));
        }
        for door in own.iter_mut().filter(|door| door.accepted.is_none() && door.conflicted.is_none()) {
            let why = match (ports.get(&door.listened), options.unavailable.get(&door.listened)) {
                (_, Some(why)) => why.clone(),
                (Some((protocol, other)), _) if *protocol != door.protocol => {
                    format!("the Gateway {other} speaks {} at this port", protocol.scheme())
                }
                (None, _) if ports.len() >= MAX_PORTS => {
                    format!("all Gateways together have more than {MAX_PORTS} ports")
                }
                _ => {
                    if door.is_open() {
                        ports.insert(door.listened, (door.protocol, door.gateway.clone()));
                    }
                    continue;
                }
            };
            door.accepted = Some(("PortUnavailable", why));
        }
    }

    /// Listens at a port for Ingresses. Whether it can be had.
    pub(super) fn add(&mut self, listened: u16, protocol: Protocol, options: &Options) -> bool {
        let known = self.all.iter().find(|door| door.is_open() && door.listened == listened).map(|door| door.protocol);
        if known.or(self.more.get(&listened).copied()).is_some_and(|known| known != protocol)
            || options.unavailable.contains_key(&listened)
        {
            return false;
        }
        let is_new = known.is_none() && !self.more.contains_key(&listened);
        if is_new && self.ports().len() >= MAX_PORTS {
            return false;
        }
        self.more.insert(listened, protocol);
        true
    }

    /// The ports that are listened on.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.spoken().into_keys().collect()
    }

    fn spoken(&self) -> BTreeMap<u16, Protocol> {
        let open = self.all.iter().filter(|door| door.is_open()).map(|door| (door.listened, door.protocol));
        open.chain(self.more.clone()).collect()
    }

    /// For `listen`.
    pub(super) fn listen(&self, options: &Options) -> Vec<String> {
        let address = |(port, protocol): (u16, Protocol)| {
            format!("{}://{}", protocol.scheme(), SocketAddr::new(options.bind, port))
        };
        self.spoken().into_iter().map(address).collect()
    }

    /// Whether a host of a door's routes is one of another door of the same port, with more of a host.
    pub(super) fn is_of_narrower(&self, index: usize, host: Option<&str>) -> bool {
        let (Some(door), Some(host)) = (self.all.get(index), host) else { return false };
        let mut others = self.all.iter().filter(|other| other.is_open() && other.listened == door.listened);
        others.any(|other| {
            let own = other.hostname.as_deref();
            own.is_some_and(|own| is_narrower(Some(own), door.hostname.as_deref()) && hosts::within(host, own))
        })
    }

    /// Hosts of doors, with the port, whose requests routes of another door or of Ingresses would take as well.
    pub(super) fn narrower(&self) -> BTreeSet<(String, u16)> {
        let open = || self.all.iter().filter(|door| door.is_open());
        let is_wider = |door: &Door, other: &Door| {
            other.listened == door.listened && is_narrower(door.hostname.as_deref(), other.hostname.as_deref())
        };
        let is_apart =
            |door: &&Door| self.more.contains_key(&door.listened) || open().any(|other| is_wider(door, other));
        open().filter(is_apart).filter_map(|door| Some((door.hostname.clone()?, door.listened))).collect()
    }

    /// A route has a door.
    pub(super) fn attached(&mut self, door: usize, route: &Key) {
        if let Some(door) = self.all.get_mut(door) {
            door.attached.insert(route.clone());
        }
    }

    pub(super) fn certificates_text(&self, folder: &Path) -> String {
        let mut text = String::new();
        for name in self.files.keys() {
            let mut table = Table::default();
            for (key, ending) in [("certificate", "crt"), ("key", "key")] {
                table.set(key, quoted(&folder.join(format!("{name}.{ending}")).to_string_lossy()));
            }
            text.push_str(&table.text("[[tls.certificates]]"));
        }
        text
    }

    pub(super) fn files(&self) -> BTreeMap<String, Arc<TlsSecret>> {
        self.files.clone()
    }

    /// What is said of each Gateway.
    pub(super) fn statuses(&self, snapshot: &Snapshot, options: &Options, statuses: &mut Statuses) {
        for (key, gateway) in &snapshot.gateways {
            if !is_ours(snapshot, options, &gateway.spec.gateway_class_name) {
                continue;
            }
            let doors: Vec<&Door> = self.all.iter().filter(|door| door.gateway == *key).collect();
            let is_valid = |door: &&&Door| door.accepted.is_none() && door.conflicted.is_none();
            let valid = doors.iter().filter(is_valid).count();
            let accepted = match valid {
                0 => Condition::no("Accepted", "ListenersNotValid", "no listener can be had"),
                _ if valid == doors.len() => Condition::yes("Accepted", "Accepted"),
                _ => Condition {
                    message: "some listeners cannot be had".to_owned(),
                    ..Condition::yes("Accepted", "ListenersNotValid")
                },
            };
            let programmed = match doors.iter().any(|door| door.is_open()) {
                true => Condition::yes("Programmed", "Programmed"),
                false => Condition::no("Programmed", "Invalid", "no listener is listened on"),
            };
            let wanted = Wanted::Gateway {
                conditions: vec![accepted, programmed],
                listeners: doors.into_iter().map(listener_status).collect(),
                addresses: options.addresses.clone(),
            };
            statuses.insert(Subject::Gateway(key.clone()), wanted);
        }
    }
}

/// Whether one host is a part of the other; none: all hosts.
fn is_narrower(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(_), None) => true,
        (Some(one), Some(other)) => one != other && hosts::within(one, other),
        (None, _) => false,
    }
}

fn listener_status(door: &Door) -> ListenerStatus {
    let condition = |kind, good, why: &Option<Why>| match why {
        None => Condition::yes(kind, good),
        Some((reason, message)) => Condition::no(kind, reason, message.clone()),
    };
    let conflicted = match &door.conflicted {
        None => Condition::no("Conflicted", "NoConflicts", ""),
        Some((reason, message)) => Condition { message: message.clone(), ..Condition::yes("Conflicted", reason) },
    };
    let programmed = match door.is_open() {
        true => Condition::yes("Programmed", "Programmed"),
        false => Condition::no("Programmed", "Invalid", "the listener cannot be had; see the other conditions"),
    };
    ListenerStatus {
        name: door.name.clone(),
        kinds: if door.takes_http_routes { vec!["HTTPRoute"] } else { Vec::new() },
        attached: door.attached.len(),
        conditions: vec![
            condition("Accepted", "Accepted", &door.accepted),
            conflicted,
            condition("ResolvedRefs", "ResolvedRefs", &door.resolved),
            programmed,
        ],
    }
}

/// Listeners of one Gateway that want the same.
fn conflicts(doors: &mut [Door]) {
    for index in 0..doors.len() {
        let door = &doors[index];
        let others = doors.iter().enumerate().filter(|(other, one)| *other != index && one.port == door.port);
        let others: Vec<&Door> = others.map(|(_, other)| other).filter(|other| other.accepted.is_none()).collect();
        let why = if let Some(other) = others.iter().find(|other| other.protocol != door.protocol) {
            Some(("ProtocolConflict", format!("the listener {} has the same port", other.name)))
        } else {
            let same = others.iter().find(|other| other.hostname == door.hostname);
            same.map(|other| ("HostnameConflict", format!("the listener {} has the same port and host", other.name)))
        };
        doors[index].conflicted = why.filter(|_| doors[index].accepted.is_none());
    }
}

/// The Secret that a listener refers to.
fn certificate<'a>(
    snapshot: &'a Snapshot,
    gateway: &Key,
    reference: &ObjectRef,
) -> Result<(Key, &'a Arc<TlsSecret>), Why> {
    let ObjectRef { group, kind, namespace, name } = reference;
    let is_secret = group.as_deref().is_none_or(str::is_empty) && kind.as_deref().is_none_or(|kind| kind == "Secret");
    if !is_secret {
        let kind = kind.as_deref().unwrap_or_default();
        return Err(("InvalidCertificateRef", format!("{kind} {name} is not a Secret")));
    }
    let key = Key::new(namespace.as_deref().unwrap_or(&gateway.namespace), name);
    let from = (GROUP, "Gateway", &*gateway.namespace);
    if key.namespace != gateway.namespace && !is_granted(snapshot, from, ("", "Secret"), &key) {
        let message =
            format!("no ReferenceGrant in {} lets Gateways of {} refer to it", key.namespace, gateway.namespace);
        return Err(("RefNotPermitted", message));
    }
    let Some(secret) = snapshot.secrets.get(&key) else {
        return Err(("InvalidCertificateRef", format!("there is no Secret {key} of the type kubernetes.io/tls")));
    };
    match &secret.problem {
        None => Ok((key, secret)),
        Some(why) => Err(("InvalidCertificateRef", format!("the Secret {key} cannot be used: {why}"))),
    }
}

/// Whether a kind of object of another namespace may refer to an object.
pub(super) fn is_granted(snapshot: &Snapshot, from: (&str, &str, &str), to: (&str, &str), object: &Key) -> bool {
    let grants = snapshot.grants.iter().filter(|(key, _)| key.namespace == object.namespace);
    let (group, kind, namespace) = from;
    grants.into_iter().any(|(_, grant)| {
        grant.from.iter().any(|one| one.group == group && one.kind == kind && one.namespace == namespace)
            && grant.to.iter().any(|one| {
                one.group == to.0 && one.kind == to.1 && one.name.as_deref().is_none_or(|name| name == &*object.name)
            })
    })
}
