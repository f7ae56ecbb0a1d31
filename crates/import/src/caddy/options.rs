//! Global options of a Caddyfile.

use crate::directive::{Directive, caddy_size, is_network, milliseconds, time};
use crate::document::Value;

use super::level::Done;
use super::reader::Reader;

fn mapped(key: &str) -> Done {
    Done::Mapped(key.to_owned())
}

fn not_mapped(why: &str) -> Done {
    Done::NotMapped(why.to_owned())
}

impl Reader {
    pub(super) fn options(&mut self, block: &Directive) {
        for option in block.children() {
            let done = self.option(option);
            self.note(option.line, &option.name, done);
        }
    }

    fn option(&mut self, option: &Directive) -> Done {
        self.of_certificates(option).unwrap_or_else(|| self.other_option(option))
    }

    fn of_certificates(&mut self, option: &Directive) -> Option<Done> {
        let value = Value::Text(option.arg(0).to_owned());
        let key = match option.name.as_str() {
            "email" if !option.arg(0).contains('@') => return Some(not_mapped("it is no address for mail")),
            "acme_ca" if !option.arg(0).starts_with("https://") => return Some(not_mapped("it is no https:// URL")),
            "email" => "email",
            "acme_ca" => "directory",
            "acme_ca_root" => "ca",
            "acme_eab" => {
                let why = "write `eab = { kid, key_file }` into [tls.acme]: the key is in a file of its own";
                return Some(not_mapped(why));
            }
            "acme_dns" | "dns" => return Some(not_mapped("there is no DNS-01, so no certificate for a wildcard")),
            _ => return None,
        };
        self.options.acme.push((key.to_owned(), value));
        Some(Done::Mapped(format!("tls.acme.{key}")))
    }

    fn other_option(&mut self, option: &Directive) -> Done {
        let value = option.arg(0).to_owned();
        match option.name.as_str() {
            "auto_https" => match value.as_str() {
                "off" => {
                    self.options.is_plain = true;
                    mapped("listen")
                }
                "disable_redirects" => {
                    self.options.has_no_redirects = true;
                    mapped("https = \"allow\"")
                }
                _ => not_mapped("certificates are of files, of ACME or of the local authority"),
            },
            "local_certs" => {
                self.options.has_local_certificates = true;
                mapped("tls = \"internal\"")
            }
            "http_port" | "https_port" => {
                let port = value.parse().ok();
                match option.name.as_str() {
                    "http_port" => self.options.http_port = port,
                    _ => self.options.https_port = port,
                }
                if port.is_some() { mapped("listen") } else { not_mapped("it is no port") }
            }
            "default_bind" => {
                self.options.bind.clone_from(&option.args);
                mapped("listen")
            }
            "admin" if value == "off" => {
                self.draft.top.set("admin", Value::Truth(false));
                mapped("admin")
            }
            "grace_period" => match milliseconds(&value) {
                Some(ms) => {
                    self.draft.limits.text("shutdown_timeout", time(ms.min(3_600_000)));
                    mapped("limits.shutdown_timeout")
                }
                None => not_mapped("it is no time"),
            },
            "on_demand_tls" => match option.child("ask").map(|ask| ask.arg(0)) {
                Some(url) if url.starts_with("http") => {
                    self.options.ask = Some(url.to_owned());
                    mapped("tls.acme.on_demand.ask")
                }
                _ => not_mapped("certificates on demand need `ask`, a URL that says for whom"),
            },
            "servers" => self.servers(option),
            "admin" => Done::NotNeeded("the admin interface is a Unix socket"),
            "debug" => Done::NotNeeded("PILOTLIGHT_LOG=debug says more"),
            "order" => Done::NotNeeded("the most specific route counts, whatever the order"),
            "log" => {
                Done::NotNeeded("the gateway's own log goes to the standard error, PILOTLIGHT_LOG says what of it")
            }
            "metrics" => Done::NotNeeded("metrics are on the admin socket; [metrics] is for Prometheus"),
            "persist_config"
            | "shutdown_delay"
            | "skip_install_trust"
            | "storage_clean_interval"
            | "renew_interval" => Done::NotNeeded("the gateway does this itself, or has no use for it"),
            "storage" => not_mapped("`storage` in [tls.acme] is a folder or Redis"),
            _ => not_mapped("there is no key for it"),
        }
    }

    fn servers(&mut self, servers: &Directive) -> Done {
        for one in servers.children() {
            let done = match one.name.as_str() {
                "trusted_proxies" => {
                    let words = one.args.iter().filter(|word| *word != "static");
                    let networks: Vec<String> = words
                        .flat_map(|word| match word.as_str() {
                            "private_ranges" => {
                                ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "::1", "fd00::/8"]
                                    .map(str::to_owned)
                                    .to_vec()
                            }
                            word => vec![word.to_owned()],
                        })
                        .collect();
                    if networks.iter().all(|network| is_network(network)) {
                        self.draft.top.set("trust_forwarded", Value::List(networks));
                        mapped("trust_forwarded")
                    } else {
                        not_mapped("networks are written like 10.0.0.0/8")
                    }
                }
                "timeouts" => {
                    for limit in one.children() {
                        let key = match limit.name.as_str() {
                            "read_header" => "header_timeout",
                            "read_body" | "write" => "body_timeout",
                            "idle" => "keepalive_timeout",
                            _ => continue,
                        };
                        let most = if key == "header_timeout" { 600_000 } else { 3_600_000 };
                        if let Some(ms) = milliseconds(limit.arg(0)) {
                            self.draft.limits.text(key, time(ms.clamp(1000, most)));
                            self.note(limit.line, &limit.name, Done::Mapped(format!("limits.{key}")));
                        } else {
                            self.note(limit.line, &limit.name, not_mapped("it is no time"));
                        }
                    }
                    continue;
                }
                "max_header_size" => match caddy_size(one.arg(0)) {
                    Some(size) => {
                        self.draft.limits.text("header_size", size);
                        mapped("limits.header_size")
                    }
                    None => not_mapped("it is no size"),
                },
                "protocols" if one.args.iter().any(|word| word == "h3") => {
                    Done::NotMapped("HTTP/1.1 and HTTP/2 are spoken, HTTP/3 is not".to_owned())
                }
                "protocols"
                | "strict_sni_host"
                | "trusted_proxies_strict"
                | "client_ip_headers"
                | "keepalive_interval"
                | "metrics"
                | "log_credentials"
                | "enable_full_duplex" => Done::NotNeeded("the gateway does this itself, or has no use for it"),
                "listener_wrappers" => not_mapped("`proxy_protocol` lists the networks of load balancers"),
                _ => not_mapped("there is no key for it"),
            };
            self.note(one.line, &one.name, done);
        }
        Done::NotNeeded("what it says stands in [limits] and at the top")
    }
}
