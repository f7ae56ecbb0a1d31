//! The layers, and what each is made of.

use crate::experiment::model::{Role, Skipped, Software};
use crate::processes::first_line;
use crate::rest::redis;

/// What a request goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// A loop that counts the ends of requests.
    Bare,
    /// hyper on tokio.
    Hyper,
    /// The gateway, which has no route for the request.
    Routing,
    /// The gateway, from its memory.
    Hit,
    /// The gateway, and a service over the pipe.
    Pipe,
    /// The gateway, and the same service over HTTP on a Unix socket.
    Http,
    /// The gateway, a service over the pipe, and Redis behind it.
    PipeRedis,
    /// The gateway, from its tier in Redis.
    HitRedis,
}

impl Layer {
    pub(super) const ALL: [Self; 8] =
        [Self::Bare, Self::Hyper, Self::Routing, Self::Hit, Self::Pipe, Self::Http, Self::PipeRedis, Self::HitRedis];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Hyper => "hyper",
            Self::Routing => "routing",
            Self::Hit => "hit",
            Self::Pipe => "pipe",
            Self::Http => "http",
            Self::PipeRedis => "pipe-redis",
            Self::HitRedis => "hit-redis",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Bare => "a bare epoll loop",
            Self::Hyper => "hyper alone",
            Self::Routing => "the gateway without a route for the request (404)",
            Self::Hit => "the gateway, from memory",
            Self::Pipe => "the gateway, a Rust service over the pipe",
            Self::Http => "the gateway, the same service over HTTP on a Unix socket",
            Self::PipeRedis => "the gateway, a Rust service over the pipe that asks Redis",
            Self::HitRedis => "the gateway, from Redis",
        }
    }

    pub(super) fn role(self) -> Role {
        if self == Self::Bare || self == Self::Hyper { Role::Floor } else { Role::Subject }
    }

    /// What has to be answered; the gateway's own 404 is worded otherwise.
    pub(super) fn status(self) -> u16 {
        if self == Self::Routing { 404 } else { 200 }
    }

    pub(super) fn has_redis(self) -> bool {
        matches!(self, Self::PipeRedis | Self::HitRedis)
    }

    /// Whether a service may not be asked, once everything is stored.
    pub(super) fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::HitRedis)
    }

    /// The gateway's configuration, if it takes part. `service` are the words of the service's command.
    pub(super) fn configuration(self, service: &[String], redis: Option<&str>) -> anyhow::Result<String> {
        // JSON's strings and lists are TOML's as well.
        let command = serde_json::to_string(service)?;
        let memory = if self == Self::HitRedis { SMALL_MEMORY } else { MEMORY };
        let transport =
            if self == Self::Http { "transport = \"http\"\nsocket = \"unix\"" } else { "transport = \"pipe\"" };
        let path = if self == Self::Routing { "/elsewhere" } else { "/" };
        let cache = if self.is_hit() { "\"10h\"" } else { "false" };
        let redis = match redis {
            Some(url) if self == Self::HitRedis => {
                format!("\n[cache.redis]\nurl = {url:?}\nbudget = \"1s\"\nqueue = 100000\nqueue_memory = \"512MiB\"\n")
            }
            _ => String::new(),
        };
        Ok(format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\n\n[cache]\nmemory = \"{memory}\"\n{redis}\n\
             [services.lab]\ncommand = {command}\n{transport}\nidle_timeout = \"none\"\nstart_timeout = \"60s\"\n\n\
             [[routes]]\npath = \"{path}\"\nservice = \"lab\"\ncache = {cache}\n"
        ))
    }

    pub(super) fn software(self) -> Vec<Software> {
        let own = |settings: &[&str]| Software {
            name: "pilotlight".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        };
        let mut software = vec![match self {
            Self::Bare => own(&["its hidden service `bare`: epoll, one thread"]),
            Self::Hyper => own(&["its hidden service `http-tcp`: hyper, tokio, one thread"]),
            Self::HitRedis => {
                own(&["workers = 1", "cache.memory = \"1MiB\", 20,000 targets in turn: not one in twenty is there"])
            }
            _ => own(&["workers = 1"]),
        }];
        if self.has_redis() {
            let version = redis::program().and_then(|program| first_line(program.as_os_str(), &["--version"]));
            software.push(Software {
                name: "redis-server".into(),
                version: version.unwrap_or_else(|| "unknown".into()),
                settings: vec!["one server, --save \"\" --appendonly no".into()],
            });
        }
        software
    }

    /// Why it cannot take part.
    pub(super) fn missing(self) -> Option<Skipped> {
        if self.has_redis() { redis::missing(self.title()) } else { None }
    }
}

const MEMORY: &str = "64MiB";
/// What the configuration takes at least.
const SMALL_MEMORY: &str = "1MiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations() {
        let service = ["/a \"b\"".to_owned(), "pipe".to_owned()];
        let text = Layer::HitRedis.configuration(&service, Some("redis://127.0.0.1:1")).expect("text");
        assert!(text.contains(r#"command = ["/a \"b\"","pipe"]"#), "{text}");
        assert!(text.contains("memory = \"1MiB\"") && text.contains("url = \"redis://127.0.0.1:1\""), "{text}");
        assert!(text.contains("cache = \"10h\""), "{text}");
        let text = Layer::PipeRedis.configuration(&service, Some("redis://127.0.0.1:1")).expect("text");
        assert!(!text.contains("[cache.redis]") && text.contains("cache = false"), "{text}");
        let text = Layer::Routing.configuration(&service, None).expect("text");
        assert!(text.contains("path = \"/elsewhere\""), "{text}");
    }
}
