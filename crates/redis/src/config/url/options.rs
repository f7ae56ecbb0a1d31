//! The options of a URL: one row for each scalar setting.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::nodes::{ReadFrom, Topology};
use super::super::settings::{Config, Keepalive, Overload, ProtocolChoice, WhenDown};
use super::super::tls::{Pem, TlsConfig, TlsIdentity, TlsRoots, TlsServerName};
use super::error::{UrlErrorKind, suggestion};
use super::scalar::{
    COUNT, DURATION, FLAG, OPTIONAL_DURATION, OPTIONAL_SIZE, SIZE, count, decimal, duration, flag, natural,
    optional_duration, optional_size, size,
};
use crate::credentials::Credentials;

/// A configuration while it is read, with what takes several options to make.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) config: Config,
    seen: Vec<&'static str>,
    keepalive_is_off: bool,
    certificates: Option<Pem>,
    key: Option<Pem>,
    sentinel_username: Option<Arc<str>>,
    sentinel_password: Option<Arc<str>>,
    /// Default: as the servers.
    sentinel_tls: Option<bool>,
}

/// An option.
struct Knob {
    name: &'static str,
    scope: Scope,
    expected: &'static str,
    /// `None`: the value is not what is expected.
    set: fn(&mut Draft, &str) -> Option<()>,
}

/// Where an option has an effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Tls,
    Cluster,
    Sentinel,
}

const NAME: &str = "printable ASCII without blanks";
const PATH: &str = "the path of a file";
const TEXT: &str = "a text that is not empty";

const KNOBS: &[Knob] = &[
    Knob::any("db", "a number from 0 to 65535", |draft, text| put(&mut draft.config.database, natural(text))),
    Knob::any("client_name", NAME, |draft, text| put(&mut draft.config.client_name, client_name(text).map(Some))),
    Knob::any("protocol", "auto, resp2 or resp3", |draft, text| put(&mut draft.config.protocol, protocol(text))),
    Knob::any("lanes", COUNT, |draft, text| put(&mut draft.config.lanes, count(text))),
    Knob::any("connect_timeout", DURATION, |draft, text| put(&mut draft.config.connect_timeout, duration(text))),
    Knob::any("command_timeout", OPTIONAL_DURATION, |draft, text| {
        put(&mut draft.config.command_timeout, optional_duration(text))
    }),
    Knob::any("reconnect_min", DURATION, |draft, text| put(&mut draft.config.reconnect.min, duration(text))),
    Knob::any("reconnect_max", DURATION, |draft, text| put(&mut draft.config.reconnect.max, duration(text))),
    Knob::any("reconnect_factor", "a number from 1", |draft, text| {
        put(&mut draft.config.reconnect.factor, decimal(text).filter(|factor| *factor >= 1.0))
    }),
    Knob::any("keepalive", OPTIONAL_DURATION, |draft, text| {
        let idle = optional_duration(text)?;
        draft.keepalive_is_off = idle.is_none();
        idle.map_or(Some(()), |idle| put(&mut draft.keepalive()?.idle, Some(idle)))
    }),
    Knob::any("keepalive_interval", DURATION, |draft, text| put(&mut draft.keepalive()?.interval, duration(text))),
    Knob::any("keepalive_probes", COUNT, |draft, text| put(&mut draft.keepalive()?.probes, count(text))),
    Knob::any("tcp_user_timeout", OPTIONAL_DURATION, |draft, text| {
        put(&mut draft.config.tcp_user_timeout, optional_duration(text))
    }),
    Knob::any("no_delay", FLAG, |draft, text| put(&mut draft.config.no_delay, flag(text))),
    Knob::any("idle_ping", OPTIONAL_DURATION, |draft, text| {
        put(&mut draft.config.probe.idle_ping, optional_duration(text))
    }),
    Knob::any("stall", OPTIONAL_DURATION, |draft, text| put(&mut draft.config.probe.stall, optional_duration(text))),
    Knob::any("max_queued_bytes", SIZE, |draft, text| put(&mut draft.config.max_queued_bytes, size(text))),
    Knob::any("max_waiting_commands", COUNT, |draft, text| put(&mut draft.config.max_waiting_commands, count(text))),
    Knob::any("large_bytes", OPTIONAL_SIZE, |draft, text| put(&mut draft.config.large_bytes, optional_size(text))),
    Knob::any("flush_delay", OPTIONAL_DURATION, |draft, text| {
        put(&mut draft.config.flush_delay, optional_duration(text))
    }),
    Knob::any("max_blocking_connections", COUNT, |draft, text| {
        put(&mut draft.config.max_blocking_connections, count(text))
    }),
    Knob::any("subscription_max_messages", COUNT, |draft, text| {
        put(&mut draft.config.subscription_limits.max_messages, count(text))
    }),
    Knob::any("subscription_max_bytes", SIZE, |draft, text| {
        put(&mut draft.config.subscription_limits.max_bytes, size(text))
    }),
    Knob::any("overload", "wait, reject or shed", |draft, text| put(&mut draft.config.overload, overload(text))),
    Knob::any("when_down", "queue or fail_fast", |draft, text| put(&mut draft.config.when_down, when_down(text))),
    Knob::any("verify_replies", FLAG, |draft, text| put(&mut draft.config.verify_replies, flag(text))),
    Knob::any("no_evict", FLAG, |draft, text| put(&mut draft.config.no_evict, flag(text))),
    Knob::any("no_touch", FLAG, |draft, text| put(&mut draft.config.no_touch, flag(text))),
    Knob::any("max_bulk_bytes", SIZE, |draft, text| put(&mut draft.config.reply_limits.max_bulk_bytes, size(text))),
    Knob::any("max_line_bytes", SIZE, |draft, text| put(&mut draft.config.reply_limits.max_line_bytes, size(text))),
    Knob::any("max_depth", COUNT, |draft, text| put(&mut draft.config.reply_limits.max_depth, count(text))),
    Knob::any("max_elements", COUNT, |draft, text| put(&mut draft.config.reply_limits.max_elements, count(text))),
    Knob::any("max_frame_bytes", SIZE, |draft, text| put(&mut draft.config.reply_limits.max_frame_bytes, size(text))),
    Knob::any("read_from", "primary, replica, replica_only, latency, round_robin or az:ZONE", |draft, text| {
        put(&mut draft.config.read_from, read_from(text))
    }),
    Knob::within(Scope::Cluster, "max_redirects", "a whole number", |draft, text| {
        put(&mut draft.config.cluster.max_redirects, natural(text))
    }),
    Knob::within(Scope::Cluster, "refresh_min_interval", DURATION, |draft, text| {
        put(&mut draft.config.cluster.refresh_min_interval, duration(text))
    }),
    Knob::within(Scope::Cluster, "refresh_interval", OPTIONAL_DURATION, |draft, text| {
        put(&mut draft.config.cluster.refresh_interval, optional_duration(text))
    }),
    Knob::within(Scope::Tls, "tls_ca", PATH, |draft, text| put(&mut draft.tls()?.roots, pem(text).map(TlsRoots::Only))),
    Knob::within(Scope::Tls, "tls_cert", PATH, |draft, text| put(&mut draft.certificates, pem(text).map(Some))),
    Knob::within(Scope::Tls, "tls_key", PATH, |draft, text| put(&mut draft.key, pem(text).map(Some))),
    Knob::within(Scope::Tls, "sni", TEXT, |draft, text| {
        put(&mut draft.tls()?.server_name, shared(text).map(TlsServerName::Fixed))
    }),
    Knob::within(Scope::Tls, "insecure", FLAG, |draft, text| {
        put(&mut draft.tls()?.danger_accept_invalid_certs, flag(text))
    }),
    Knob::within(Scope::Sentinel, "sentinel_username", TEXT, |draft, text| {
        put(&mut draft.sentinel_username, shared(text).map(Some))
    }),
    Knob::within(Scope::Sentinel, "sentinel_password", TEXT, |draft, text| {
        put(&mut draft.sentinel_password, shared(text).map(Some))
    }),
    Knob::within(Scope::Sentinel, "sentinel_tls", "true or false", |draft, text| {
        put(&mut draft.sentinel_tls, flag(text).map(Some))
    }),
];

impl Knob {
    const fn any(name: &'static str, expected: &'static str, set: fn(&mut Draft, &str) -> Option<()>) -> Self {
        Self { name, scope: Scope::Any, expected, set }
    }

    const fn within(
        scope: Scope,
        name: &'static str,
        expected: &'static str,
        set: fn(&mut Draft, &str) -> Option<()>,
    ) -> Self {
        Self { name, scope, expected, set }
    }
}

impl Draft {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            seen: Vec::new(),
            keepalive_is_off: false,
            certificates: None,
            key: None,
            sentinel_username: None,
            sentinel_password: None,
            sentinel_tls: None,
        }
    }

    /// Takes an option.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), UrlErrorKind> {
        let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) else {
            let suggestion = suggestion(name, KNOBS.iter().map(|knob| knob.name));
            return Err(UrlErrorKind::UnknownOption { name: name.into(), suggestion });
        };
        self.check_scope(knob)?;
        if self.seen.contains(&knob.name) {
            return Err(UrlErrorKind::Duplicate { name: knob.name });
        }
        self.seen.push(knob.name);
        // The value of a password is always a text, so that none is ever repeated here.
        let wrong = || UrlErrorKind::Value { name: knob.name, expected: knob.expected, value: value.into() };
        (knob.set)(self, value).ok_or_else(wrong)
    }

    /// Puts together what took several options.
    pub(super) fn finish(mut self) -> Result<Config, UrlErrorKind> {
        if self.keepalive_is_off {
            self.config.keepalive = None;
        }
        if let Some(tls) = &mut self.config.tls {
            tls.identity = match (self.certificates, self.key) {
                (Some(certificates), Some(key)) => Some(TlsIdentity { certificates, key }),
                (None, None) => None,
                (Some(_), None) => return Err(UrlErrorKind::Misplaced { name: "tls_cert", needs: "tls_key" }),
                (None, Some(_)) => return Err(UrlErrorKind::Misplaced { name: "tls_key", needs: "tls_cert" }),
            };
        }
        if let Topology::Sentinel(sentinel) = &mut self.config.topology {
            let credentials = match (self.sentinel_username, self.sentinel_password) {
                (Some(username), Some(password)) => Some(Credentials::new(username, password)),
                (None, Some(password)) => Some(Credentials::password(password)),
                (None, None) => None,
                (Some(_), None) => {
                    return Err(UrlErrorKind::Misplaced { name: "sentinel_username", needs: "sentinel_password" });
                }
            };
            sentinel.credentials = credentials.map(|credentials| Arc::new(credentials) as _);
            sentinel.tls = match self.sentinel_tls {
                Some(false) => None,
                Some(true) => Some(self.config.tls.clone().unwrap_or_default()),
                None => self.config.tls.clone(),
            };
        }
        Ok(self.config)
    }

    fn check_scope(&self, knob: &Knob) -> Result<(), UrlErrorKind> {
        let (fits, needs) = match knob.scope {
            Scope::Any => (true, ""),
            Scope::Tls => (self.config.tls.is_some(), "TLS, as in rediss://"),
            Scope::Cluster => (matches!(self.config.topology, Topology::Cluster), "a cluster, as in redis+cluster://"),
            Scope::Sentinel => {
                (matches!(self.config.topology, Topology::Sentinel(_)), "Sentinels, as in redis+sentinel://")
            }
        };
        if fits { Ok(()) } else { Err(UrlErrorKind::Misplaced { name: knob.name, needs }) }
    }

    fn tls(&mut self) -> Option<&mut TlsConfig> {
        self.config.tls.as_mut()
    }

    fn keepalive(&mut self) -> Option<&mut Keepalive> {
        self.config.keepalive.as_mut()
    }
}

/// Puts the value into its place, if there is one.
fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn shared(text: &str) -> Option<Arc<str>> {
    if text.is_empty() { None } else { Some(text.into()) }
}

fn pem(path: &str) -> Option<Pem> {
    if path.is_empty() { None } else { Some(Pem::File(PathBuf::from(path))) }
}

fn client_name(text: &str) -> Option<Arc<str>> {
    let fits = text.bytes().all(|byte| byte.is_ascii_graphic());
    shared(text).filter(|_| fits)
}

fn protocol(text: &str) -> Option<ProtocolChoice> {
    match text {
        "auto" => Some(ProtocolChoice::Auto),
        "resp2" | "2" => Some(ProtocolChoice::Resp2),
        "resp3" | "3" => Some(ProtocolChoice::Resp3),
        _ => None,
    }
}

fn overload(text: &str) -> Option<Overload> {
    match text {
        "wait" => Some(Overload::Wait),
        "reject" => Some(Overload::Reject),
        "shed" => Some(Overload::Shed),
        _ => None,
    }
}

fn when_down(text: &str) -> Option<WhenDown> {
    match text {
        "queue" => Some(WhenDown::Queue),
        "fail_fast" => Some(WhenDown::FailFast),
        _ => None,
    }
}

fn read_from(text: &str) -> Option<ReadFrom> {
    match text {
        "primary" => Some(ReadFrom::Primary),
        "replica" | "prefer_replica" => Some(ReadFrom::PreferReplica),
        "replica_only" => Some(ReadFrom::OnlyReplicas),
        "latency" => Some(ReadFrom::LowestLatency),
        "round_robin" => Some(ReadFrom::RoundRobin),
        _ => shared(text.strip_prefix("az:")?).map(|zone| ReadFrom::AzAffinity { zone }),
    }
}
