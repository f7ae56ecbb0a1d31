//! nginx as a proxy before an HTTP service on a Unix socket. It starts no services, so the service is started beside
//! it.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;

use super::super::cases::Case;
use super::super::client::Client;
use super::super::services::Server;
use super::{LISTEN_LIMIT, Processes, Target, free_address, listens, text};
use crate::processes::{Held, Program, usage};
use crate::service::answer_body;

/// A running nginx and its service. Fields are dropped in this order: the proxy before what it stands before.
#[derive(Debug)]
pub(super) struct Nginx {
    nginx: Held,
    service: Held,
    client: Client,
}

impl Nginx {
    pub(super) fn start(dir: PathBuf, case: Case, server: &Server, program: &Path) -> anyhow::Result<Self> {
        let socket = dir.join("service.sock");
        let mut command = server.command.clone();
        command.push(socket.clone().into());
        let service =
            Program { name: server.name.into(), command, dir: dir.clone(), output: dir.join("service.output") };
        let mut service = service.start()?;
        service.wait_until(LISTEN_LIMIT, "it listens", |_| UnixStream::connect(&socket).ok())?;

        let address = free_address()?;
        let file = dir.join("nginx.conf");
        fs::write(&file, configuration(text(&dir)?, &address.to_string(), case, text(&socket)?))?;
        let errors = dir.join("nginx.errors");
        let nginx = Program {
            name: "nginx".into(),
            command: vec![program.into(), "-e".into(), errors.into(), "-c".into(), file.into()],
            output: dir.join("nginx.output"),
            dir,
        };
        let mut nginx = nginx.start()?;
        nginx.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
        Ok(Self { nginx, service, client: Client::new(address, "/", &answer_body()) })
    }
}

impl Target for Nginx {
    fn request(&mut self) -> anyhow::Result<Duration> {
        Ok(self.client.get()?)
    }

    fn make_cold(&mut self) -> anyhow::Result<()> {
        bail!("nginx starts no services")
    }

    fn was_cached(&self) -> bool {
        self.client.field("x-cache").is_some_and(|value| value == "HIT")
    }

    fn processes(&self) -> Processes {
        let pids = |root: &Held| usage::tree(root.pid()).iter().map(|process| process.pid).collect();
        Processes { gateway: pids(&self.nginx), service: pids(&self.service) }
    }
}

fn configuration(dir: &str, address: &str, case: Case, socket: &str) -> String {
    // As root its worker would become another user, and be kept from the folders made here.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path {dir}/{name};\n"))
        .concat();
    let (zone, cache) = if case == Case::Cached {
        (
            format!("  proxy_cache_path {dir}/cache keys_zone=lab:1m max_size=16m inactive=1d;\n"),
            "proxy_cache lab; proxy_cache_valid 200 10h; add_header X-Cache $upstream_cache_status;",
        )
    } else {
        (String::new(), "")
    };
    format!(
        "{user}\nworker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/nginx.errors warn;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n  access_log off; tcp_nodelay on; keepalive_timeout 300; keepalive_requests 1000000000;\n{folders}{zone}\
         \x20 upstream service {{ server unix:{socket}; keepalive 8; keepalive_requests 1000000000; keepalive_timeout 300; }}\n\
         \x20 server {{ listen {address};\n\
         \x20   location / {{ proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ''; {cache} }} }}\n}}\n"
    )
}
