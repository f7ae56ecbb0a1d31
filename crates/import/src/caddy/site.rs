//! A site: its addresses, and where its certificate comes from.

use crate::directive::Directive;
use crate::document::Value;
use crate::door::{Door, ToTls};
use crate::rules::{CLOSED, Place};

use super::level::{Done, Level};
use super::reader::Reader;
use super::words::{Address, address, is_signed_locally};

/// Where the certificate of a site comes from.
#[derive(Debug, Default, PartialEq, Eq)]
enum Certificate {
    /// As Caddy does without a word: by ACME, or by the local authority for names of this machine.
    #[default]
    Automatic,
    Files,
    Internal,
}

/// What `tls`, `bind` and the addresses say of a whole site.
#[derive(Debug, Default)]
struct Whole {
    certificate: Certificate,
    is_on_demand: bool,
    bind: Vec<String>,
    /// A rule of access of the whole site could not be mapped.
    is_closed: bool,
}

/// A host and a path of a site, with its listeners.
#[derive(Debug)]
struct Part {
    path: String,
    /// None: every host.
    host: Option<String>,
    doors: Vec<Door>,
    has_plain: bool,
    has_tls: bool,
    is_internal: bool,
}

impl Part {
    /// Whether all but the host is that of another.
    fn is_beside(&self, other: &Part) -> bool {
        let flags = |part: &Part| (part.has_plain, part.has_tls, part.is_internal);
        self.path == other.path && self.doors == other.doors && flags(self) == flags(other)
    }
}

impl Reader {
    /// The hosts of all sites that speak TLS.
    pub(super) fn addresses_of_tls(&mut self, sites: &[Directive]) {
        for site in sites {
            for one in addresses(site).iter().filter_map(|text| address(text)) {
                if let (true, Some(host)) = (self.speaks_tls(&one), one.host) {
                    self.tls_hosts.insert(host);
                }
            }
        }
    }

    fn speaks_tls(&self, address: &Address) -> bool {
        let is_tls_port = address.port.is_some_and(|port| port == self.options.https_port.unwrap_or(443));
        let is_plain_port = address.port.is_some_and(|port| port == self.options.http_port.unwrap_or(80));
        match address.scheme.as_deref() {
            Some(scheme) => scheme == "https",
            None if is_tls_port => true,
            None => address.host.is_some() && !is_plain_port && !self.options.is_plain,
        }
    }

    pub(super) fn site(&mut self, site: &Directive) {
        let mut whole = Whole { bind: self.options.bind.clone(), ..Whole::default() };
        for directive in site.children() {
            let done = match directive.name.as_str() {
                "tls" => self.tls(directive, &mut whole),
                "bind" => {
                    whole.bind.clone_from(&directive.args);
                    Done::Mapped("listen".to_owned())
                }
                "log" => self.log(directive),
                _ => continue,
            };
            self.note(directive.line, &directive.name, done);
        }
        let parts = self.parts(site, &whole);
        if parts.is_empty() {
            let why = "none of the addresses of its site can be mapped, and it must not be reached at others";
            return self.lost_block(site.children(), why);
        }
        let mut rest = parts.as_slice();
        while let Some((first, _)) = rest.split_first() {
            // Hosts with the same listeners are read at once.
            let count = rest.iter().take_while(|part| part.is_beside(first)).count();
            let (together, others) = rest.split_at(count);
            rest = others;
            let mut level = Level::default();
            level.rules.is_closed = whole.is_closed || self.closed.contains(&site.line);
            if first.has_tls && (first.has_plain || self.options.has_no_redirects) {
                level.rules.keys.text("https", "allow");
            }
            if first.is_internal {
                level.rules.keys.text("tls", "internal");
            }
            let hosts: Vec<Option<String>> = together.iter().map(|part| part.host.clone()).collect();
            let place = Place { path: first.path.clone(), exact: false };
            let number = self.draft.site(site.line..=site.last_line(), label(site), first.doors.clone());
            for host in hosts.iter().filter(|_| place == Place::root()) {
                first.doors.iter().for_each(|door| self.draft.claim(host.clone(), door.clone(), number));
            }
            self.scope(&hosts, &place, &level, site.children());
        }
    }

    /// The hosts and paths of a site's addresses, each with its listeners; those with the same listeners follow one
    /// another.
    fn parts(&mut self, site: &Directive, whole: &Whole) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for text in addresses(site) {
            let Some(one) = address(&text).filter(|one| one.path.is_empty() || one.path.starts_with('/')) else {
                let why = "an address is a host, maybe with a scheme and a port".to_owned();
                self.note(site.line, &text, Done::NotMapped(why));
                continue;
            };
            let has_tls = self.speaks_tls(&one);
            let (doors, is_internal) = match has_tls {
                true => self.listen_tls(site, &one, whole),
                false => {
                    let port = one.port.or(self.options.http_port).unwrap_or(80);
                    (self.listen_at(whole, "", port), false)
                }
            };
            self.note(site.line, &text, Done::Mapped("listen, host".to_owned()));
            let path = crate::directive::route_path(one.path.trim_end_matches('*')).unwrap_or_else(|| "/".to_owned());
            let host = named(one.host);
            match parts.iter_mut().find(|part| part.path == path && part.host == host) {
                Some(part) => {
                    part.doors.extend(doors);
                    part.has_plain |= !has_tls;
                    part.has_tls |= has_tls;
                    part.is_internal |= is_internal;
                }
                None => parts.push(Part { path, host, doors, has_plain: !has_tls, has_tls, is_internal }),
            }
        }
        let mut sorted: Vec<Part> = Vec::new();
        for part in parts {
            let at = sorted.iter().rposition(|other| other.is_beside(&part)).map_or(sorted.len(), |at| at + 1);
            sorted.insert(at, part);
        }
        sorted
    }

    /// Listens for a site with TLS: its listeners, and whether its route says that the local authority signs.
    fn listen_tls(&mut self, site: &Directive, one: &Address, whole: &Whole) -> (Vec<Door>, bool) {
        let line = site.line;
        let port = one.port.or(self.options.https_port).unwrap_or(443);
        let host = one.host.as_deref().unwrap_or_default();
        let is_local = host == "localhost" || host.ends_with(".localhost");
        let plain = self.options.http_port.unwrap_or(80);
        if is_local && whole.certificate != Certificate::Files {
            let own = self.draft.listen(format!("https://{host}:{port}"));
            if one.port.is_none() && one.scheme.is_none() && !self.options.has_no_redirects {
                let plain = self.draft.listen(format!("localhost:{plain}"));
                self.sent_to_tls(site, one, vec![plain]);
            }
            return (vec![own], false);
        }
        let doors = self.listen_at(whole, "https://", port);
        if one.port.is_none() && !self.options.has_no_redirects {
            let plain = self.listen_at(whole, "", plain);
            self.sent_to_tls(site, one, plain);
        }
        let is_internal = whole.certificate == Certificate::Internal || self.options.has_local_certificates;
        let is_private = is_signed_locally(host) && whole.certificate == Certificate::Automatic;
        self.draft.other("tls");
        let is_internal = match &whole.certificate {
            Certificate::Files => false,
            _ if is_private || (is_internal && is_signed_locally(host)) => true,
            _ if is_internal => {
                let why = "the local authority signs for names below .localhost, .test, .internal, .local, .home.arpa and .lan";
                self.note(line, &format!("tls internal of {host}"), Done::NotMapped(why.to_owned()));
                false
            }
            _ => {
                self.acme(line, host, whole);
                false
            }
        };
        (doors, is_internal)
    }

    /// The way from plain HTTP to TLS, which Caddy has without a word.
    fn sent_to_tls(&mut self, site: &Directive, one: &Address, plain: Vec<Door>) {
        let number = self.draft.site(site.line..=site.line, label(site), plain);
        self.draft.to_tls.push(ToTls { host: named(one.host.clone()), site: number });
    }

    fn acme(&mut self, line: usize, host: &str, whole: &Whole) {
        let acme = self.options.acme.clone();
        let ask = self.options.ask.clone();
        let tls = self.draft.other("tls");
        if tls.get("acme").is_none() {
            tls.set("acme", if acme.is_empty() { Value::Truth(true) } else { Value::Table(acme) });
        }
        match ask.filter(|_| whole.is_on_demand) {
            Some(ask) => {
                let table = vec![("ask".to_owned(), Value::Text(ask))];
                tls.insert("acme", "on_demand", Value::Table(table));
            }
            None if host.starts_with("*.") => {
                let why =
                    "there is no DNS-01, so no certificate for a wildcard: name a file, or certificates on demand";
                self.note(line, &format!("certificate of {host}"), Done::NotMapped(why.to_owned()));
            }
            None => {}
        }
    }

    fn listen_at(&mut self, whole: &Whole, scheme: &str, port: u16) -> Vec<Door> {
        let wildcard = ["0.0.0.0".to_owned()];
        let hosts = if whole.bind.is_empty() { &wildcard[..] } else { &whole.bind[..] };
        let address = |host: &String| match host.strip_prefix("unix/") {
            Some(path) => format!("unix:{}", path.split('|').next().unwrap_or(path)),
            None if host.contains(':') && !host.starts_with('[') => format!("{scheme}[{host}]:{port}"),
            None => format!("{scheme}{host}:{port}"),
        };
        hosts.iter().map(|host| self.draft.listen(address(host))).collect()
    }

    fn tls(&mut self, directive: &Directive, whole: &mut Whole) -> Done {
        for one in directive.children() {
            let done = match one.name.as_str() {
                "on_demand" if self.options.ask.is_some() => {
                    whole.is_on_demand = true;
                    Done::Mapped("tls.acme.on_demand".to_owned())
                }
                "on_demand" => {
                    Done::NotMapped("certificates on demand need `ask`, a URL that says for whom".to_owned())
                }
                "protocols" => {
                    if one.arg(0) == "tls1.3" {
                        self.draft.other("tls").text("min_version", "1.3");
                    }
                    Done::Mapped("tls.min_version".to_owned())
                }
                "client_auth" => self.client_certificates(one, whole),
                "ca" | "ca_root" | "eab" => {
                    Done::NotMapped("[tls.acme] has `directory`, `ca` and `eab`, for all hosts".to_owned())
                }
                "dns" | "resolvers" | "propagation_timeout" | "propagation_delay" => {
                    Done::NotMapped("there is no DNS-01, so no certificate for a wildcard".to_owned())
                }
                "ciphers" | "curves" | "alpn" | "key_type" | "reuse_private_keys" => {
                    Done::NotNeeded("the gateway chooses these itself")
                }
                _ => Done::NotMapped("there is no key for it".to_owned()),
            };
            self.note(one.line, &one.name, done);
        }
        match directive.args.as_slice() {
            [one] if one == "internal" => {
                whole.certificate = Certificate::Internal;
                Done::Mapped("tls = \"internal\"".to_owned())
            }
            [email] if email.contains('@') => {
                if !self.options.acme.iter().any(|(key, _)| key == "email") {
                    self.options.acme.push(("email".to_owned(), Value::Text(email.clone())));
                }
                Done::Mapped("tls.acme.email".to_owned())
            }
            [certificate, key] if !certificate.contains('{') && !key.contains('{') => {
                whole.certificate = Certificate::Files;
                let pair = [("certificate", certificate), ("key", key)];
                let pair = pair.map(|(name, file)| (name.to_owned(), Value::Text(file.clone()))).to_vec();
                let tls = self.draft.other("tls");
                let mut pairs = match tls.get("certificates") {
                    Some(Value::Tables(pairs)) => pairs.clone(),
                    _ => Vec::new(),
                };
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                }
                tls.set("certificates", Value::Tables(pairs));
                Done::Mapped("tls.certificates".to_owned())
            }
            [] => Done::NotNeeded("TLS is spoken by what the address says"),
            _ => Done::NotMapped("a certificate is two files, or comes by ACME or from the local authority".to_owned()),
        }
    }

    fn client_certificates(&mut self, one: &Directive, whole: &mut Whole) -> Done {
        let file = ["trusted_ca_cert_file", "trusted_ca_certs"].iter().find_map(|name| one.child(name));
        let file = file.map(|file| file.arg(0).to_owned()).or_else(|| {
            let pool = one.child("trust_pool").filter(|pool| pool.arg(0) == "file")?;
            Some(pool.child("pem_file").map_or(pool.arg(1), |file| file.arg(0)).to_owned())
        });
        let mode = match one.child("mode").map_or("require_and_verify", |mode| mode.arg(0)) {
            "require_and_verify" => Some("required"),
            "verify_if_given" => Some("optional"),
            _ => None,
        };
        let (Some(file), Some(mode)) = (file.filter(|file| !file.is_empty()), mode) else {
            whole.is_closed = true;
            return Done::NotMapped(format!(
                "[tls.client_certificates] has `ca`, a file, and `mode`: required or optional; {CLOSED}"
            ));
        };
        if !self.draft.is_client_authority(&file) {
            whole.is_closed = true;
            return Done::NotMapped(format!("there is one authority of client certificates for all hosts; {CLOSED}"));
        }
        let tls = self.draft.other("tls");
        let is_required = tls
            .table("client_certificates")
            .is_some_and(|known| known.contains(&("mode".to_owned(), Value::Text("required".to_owned()))));
        tls.insert("client_certificates", "ca", Value::Text(file));
        let mode = if is_required { "required" } else { mode };
        tls.insert("client_certificates", "mode", Value::Text(mode.to_owned()));
        Done::Mapped("tls.client_certificates, for all hosts".to_owned())
    }

    fn log(&mut self, directive: &Directive) -> Done {
        let output = directive.child("output");
        let path = match output.map_or("stdout", |output| output.arg(0)) {
            "file" => output.map_or("", |output| output.arg(1)).to_owned(),
            "stdout" | "stderr" => "stdout".to_owned(),
            "discard" => return Done::NotNeeded("there is no access log but by [access_log]"),
            _ => return Done::NotMapped("an access log is a file, or the standard output".to_owned()),
        };
        let log = self.draft.other("access_log");
        match log.get("path") {
            Some(Value::Text(there)) if *there != path => {
                Done::NotMapped("there is one access log for all hosts; `host` is among its fields".to_owned())
            }
            _ => {
                log.text("path", path);
                if directive.child("format").is_some_and(|format| format.arg(0) == "console") {
                    log.text("format", "text");
                }
                Done::Mapped("access_log.path".to_owned())
            }
        }
    }
}

/// A host as `host` of a route has it, which for an address of IPv6 has no brackets.
fn named(host: Option<String>) -> Option<String> {
    host.map(|host| host.trim_matches(['[', ']']).to_owned())
}

/// How notes name a site.
fn label(site: &Directive) -> String {
    format!("site {}", addresses(site).join(", ")).chars().take(60).collect()
}

/// The addresses of a site, which commas and spaces part.
fn addresses(site: &Directive) -> Vec<String> {
    let words = std::iter::once(&site.name).chain(&site.args).flat_map(|word| word.split(','));
    words.map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
