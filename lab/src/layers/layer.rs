//! The layers, and what each is made of.

use std::net::SocketAddr;
use std::path::Path;

use crate::experiment::model::{Role, Skipped, Software};
use crate::front::server::SMALL;
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
    /// A loop that counts the ends of requests and asks Redis for the answers.
    BareRedis,
    /// The gateway, from its tier in Redis.
    HitRedis,
    /// The gateway, from its memory, ten requests at once. This and what follows is counted by the gate alone.
    HitPipelined,
    /// The gateway, from its memory, over TLS.
    HitTls,
    /// The gateway, from its memory, over HTTP/2 and TLS.
    HitH2,
    /// The gateway, a file of 200 bytes.
    File,
    /// The gateway and a service over the pipe, whose answer is stored.
    Miss,
}

impl Layer {
    pub(super) const ALL: [Self; 9] = [
        Self::Bare,
        Self::Hyper,
        Self::Routing,
        Self::Hit,
        Self::Pipe,
        Self::Http,
        Self::PipeRedis,
        Self::BareRedis,
        Self::HitRedis,
    ];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Hyper => "hyper",
            Self::Routing => "routing",
            Self::Hit => "hit",
            Self::Pipe => "pipe",
            Self::Http => "http",
            Self::PipeRedis => "pipe-redis",
            Self::BareRedis => "bare-redis",
            Self::HitRedis => "hit-redis",
            Self::HitPipelined => "hit-pipelined",
            Self::HitTls => "hit-tls",
            Self::HitH2 => "hit-h2",
            Self::File => "file",
            Self::Miss => "miss",
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
            Self::BareRedis => "a bare epoll loop that asks Redis",
            Self::HitRedis => "the gateway, from Redis",
            Self::HitPipelined => "the gateway, from memory, ten requests at once",
            Self::HitTls => "the gateway, from memory, over TLS",
            Self::HitH2 => "the gateway, from memory, over HTTP/2",
            Self::File => "the gateway, a file",
            Self::Miss => "the gateway, a Rust service over the pipe, and the answer is stored",
        }
    }

    pub(super) fn role(self) -> Role {
        if self.is_floor() { Role::Floor } else { Role::Subject }
    }

    /// Whether no gateway takes part.
    pub(super) fn is_floor(self) -> bool {
        matches!(self, Self::Bare | Self::Hyper | Self::BareRedis)
    }

    /// What has to be answered; the gateway's own 404 is worded otherwise.
    pub(super) fn status(self) -> u16 {
        if self == Self::Routing { 404 } else { 200 }
    }

    pub(super) fn has_redis(self) -> bool {
        matches!(self, Self::PipeRedis | Self::BareRedis | Self::HitRedis)
    }

    /// Whether a service may not be asked, once everything is stored.
    pub(super) fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::HitRedis | Self::HitPipelined) || self.is_secure()
    }

    /// Whether clients speak TLS.
    pub(super) fn is_secure(self) -> bool {
        matches!(self, Self::HitTls | Self::HitH2)
    }

    /// Whether a service is asked.
    pub(super) fn has_service(self) -> bool {
        matches!(self, Self::Pipe | Self::Http | Self::PipeRedis | Self::Miss)
    }

    /// Whether each request is for another target.
    pub(super) fn has_targets(self) -> bool {
        matches!(self, Self::HitRedis | Self::Miss)
    }

    /// Requests in flight on a connection.
    pub(super) fn depth(self) -> usize {
        if self == Self::HitPipelined { 10 } else { 1 }
    }

    /// What is asked for.
    pub(super) fn target(self, number: u32) -> String {
        if self == Self::File { SMALL.to_owned() } else { format!("/users/{number}") }
    }

    /// The gateway's configuration, if it takes part. `service` are the words of the service's command.
    pub(super) fn configuration(
        self,
        service: &[String],
        redis: Option<&str>,
        shared: &Shared<'_>,
    ) -> anyhow::Result<String> {
        // JSON's strings and lists are TOML's as well.
        let command = serde_json::to_string(service)?;
        let memory = if self == Self::HitRedis { SMALL_MEMORY } else { MEMORY };
        let transport =
            if self == Self::Http { "transport = \"http\"\nsocket = \"unix\"" } else { "transport = \"pipe\"" };
        let path = if self == Self::Routing { "/elsewhere" } else { "/" };
        let cache = if self.is_hit() || self == Self::Miss { "\"10h\"" } else { "false" };
        let file = |name: &str| serde_json::to_string(&shared.dir.join(name));
        let (listen, tls) = match shared.secure {
            Some(address) => (
                format!("[\"127.0.0.1:0\", \"https://{address}\"]"),
                format!(
                    "[tls]\ncertificates = [{{ certificate = {}, key = {} }}]\n\n",
                    file("certificate.pem")?,
                    file("key.pem")?
                ),
            ),
            None => ("\"127.0.0.1:0\"".to_owned(), String::new()),
        };
        if self == Self::File {
            let www = file("www")?;
            return Ok(format!("listen = {listen}\nworkers = 1\n\n[[routes]]\npath = \"/\"\nfiles = {www}\n"));
        }
        let https = if shared.secure.is_some() { "https = \"allow\"\n" } else { "" };
        let redis = match redis {
            Some(url) if self == Self::HitRedis => {
                format!("\n[cache.redis]\nurl = {url:?}\nbudget = \"1s\"\nqueue = 100000\nqueue_memory = \"512MiB\"\n")
            }
            _ => String::new(),
        };
        Ok(format!(
            "listen = {listen}\nworkers = 1\n\n{tls}[cache]\nmemory = \"{memory}\"\n{redis}\n\
             [services.lab]\ncommand = {command}\n{transport}\nidle_timeout = \"none\"\nstart_timeout = \"60s\"\n\n\
             [[routes]]\npath = \"{path}\"\nservice = \"lab\"\ncache = {cache}\n{https}"
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
            Self::BareRedis => {
                own(&["its hidden service `bare-redis`: epoll, one thread; the requests of a turn are one batch"])
            }
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

/// What some layers have besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'a> {
    /// A folder with a certificate and files.
    pub(super) dir: &'a Path,
    /// Where TLS is spoken, if it is.
    pub(super) secure: Option<SocketAddr>,
}

const MEMORY: &str = "64MiB";
/// What the configuration takes at least.
const SMALL_MEMORY: &str = "1MiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations() {
        let plain = Shared { dir: Path::new("/shared"), secure: None };
        let service = ["/a \"b\"".to_owned(), "pipe".to_owned()];
        let text = Layer::HitRedis.configuration(&service, Some("redis://127.0.0.1:1"), &plain).expect("text");
        assert!(text.contains(r#"command = ["/a \"b\"","pipe"]"#), "{text}");
        assert!(text.contains("memory = \"1MiB\"") && text.contains("url = \"redis://127.0.0.1:1\""), "{text}");
        assert!(text.contains("cache = \"10h\""), "{text}");
        let text = Layer::PipeRedis.configuration(&service, Some("redis://127.0.0.1:1"), &plain).expect("text");
        assert!(!text.contains("[cache.redis]") && text.contains("cache = false"), "{text}");
        let text = Layer::Routing.configuration(&service, None, &plain).expect("text");
        assert!(text.contains("path = \"/elsewhere\""), "{text}");
        let secure = Shared { secure: Some(([127, 0, 0, 1], 443).into()), ..plain };
        let text = Layer::HitTls.configuration(&service, None, &secure).expect("text");
        assert!(text.starts_with("listen = [\"127.0.0.1:0\", \"https://127.0.0.1:443\"]\nworkers = 1\n"), "{text}");
        assert!(text.contains("key = \"/shared/key.pem\"") && text.ends_with("https = \"allow\"\n"), "{text}");
        let text = Layer::File.configuration(&service, None, &plain).expect("text");
        assert!(text.ends_with("files = \"/shared/www\"\n") && !text.contains("service"), "{text}");
    }
}
