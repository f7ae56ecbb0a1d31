//! Pilotlight before a service: a process of this very binary with a configuration of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::super::cases::Case;
use super::super::client::Client;
use super::super::services::{Server, Socket};
use super::admin::Admin;
use super::{LISTEN_LIMIT, Processes, Target, text};
use crate::interrupt;
use crate::processes::{Held, Program, gateway_program, usage};
use crate::service::answer_body;

/// The longest until a service that is stopped is gone.
const STOP_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(2);
const SERVICE_NAME: &str = "lab";

/// A running gateway with one service.
#[derive(Debug)]
pub(super) struct Pilotlight {
    gateway: Held,
    admin: Admin,
    client: Client,
}

impl Pilotlight {
    /// `others`: so many other services are configured, which nobody asks for.
    pub(super) fn start(dir: PathBuf, case: Case, server: &Server, others: u32) -> anyhow::Result<Self> {
        let file = dir.join("pilotlight.toml");
        let admin = Admin { socket: dir.join("admin.sock") };
        fs::write(&file, configuration(case, server, others)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let program = Program {
            name: "pilotlight".into(),
            command: vec![gateway_program()?.into(), "run".into(), "--config".into(), file.into()],
            output: dir.join("output"),
            dir,
        };
        let mut gateway = program.start()?;
        let address = gateway.listening(LISTEN_LIMIT)?;
        let client = Client::new(address, "/", &answer_body());
        // Where the time of a start went is worth the microseconds that asking for it costs.
        let client = if case.is_cold() { client.with_field("X-Pilotlight-Timing: 1") } else { client };
        Ok(Self { gateway, admin, client })
    }
}

impl Target for Pilotlight {
    fn request(&mut self) -> anyhow::Result<Duration> {
        Ok(self.client.get()?)
    }

    fn make_cold(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + STOP_LIMIT;
        self.admin.stop(SERVICE_NAME)?;
        while !self.admin.is_stopped(SERVICE_NAME)? || !self.processes().service.is_empty() {
            if Instant::now() > end {
                bail!("the service still runs {} s after it was told to stop", STOP_LIMIT.as_secs());
            }
            interrupt::check()?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn was_cached(&self) -> bool {
        self.client.field("cache-status").is_some_and(|value| value.contains("hit"))
    }

    fn phases(&self) -> Vec<(String, f64)> {
        self.client.field("server-timing").map(phases).unwrap_or_default()
    }

    /// The gateway, its guardian (its only child), and what the guardian has started.
    fn processes(&self) -> Processes {
        let pid = self.gateway.pid();
        let own = |process: &usage::Process| process.pid == pid || process.parent == pid;
        let (gateway, service): (Vec<_>, Vec<_>) = usage::tree(pid).into_iter().partition(own);
        let pids = |processes: Vec<usage::Process>| processes.into_iter().map(|process| process.pid).collect();
        Processes { gateway: pids(gateway), service: pids(service) }
    }
}

/// The durations of a `Server-Timing`: `parse;dur=0.021, route;dur=0.002`.
fn phases(value: &str) -> Vec<(String, f64)> {
    let metric = |text: &str| {
        let (name, rest) = text.trim().split_once(";dur=")?;
        Some((name.to_owned(), rest.parse().ok()?))
    };
    value.split(',').filter_map(metric).collect()
}

/// One worker, because there is one client; no cache but in the case that is about it.
fn configuration(case: Case, server: &Server, others: u32) -> anyhow::Result<String> {
    let (transport, cache, route_cache) = match case {
        Case::Cached => ("transport = \"pipe\"".into(), "true", "\"10h\""),
        Case::PipeWarm | Case::PipeCold => ("transport = \"pipe\"".into(), "false", "false"),
        Case::HttpWarm | Case::HttpCold => (over_socket(server)?, "false", "false"),
    };
    let words = server.command.iter().map(|word| text(word.as_ref()));
    // JSON's strings and lists are TOML's as well.
    let command = serde_json::to_string(&words.collect::<anyhow::Result<Vec<_>>>()?)?;
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\ndev = true\ncache = {cache}\n\n\
         [admin]\nsocket = \"admin.sock\"\n\n\
         [services.{SERVICE_NAME}]\ncommand = {command}\n{transport}\nidle_timeout = \"none\"\n\n\
         [[routes]]\npath = \"/\"\nservice = \"{SERVICE_NAME}\"\ncache = {route_cache}\n"
    );
    for other in 1..=others {
        writeln!(text, "\n[services.other-{other}]\ncommand = [\"/bin/false\"]")?;
        writeln!(text, "\n[[routes]]\npath = \"/other-{other}\"\nservice = \"other-{other}\"")?;
    }
    Ok(text)
}

/// How a service that has no SDK is reached.
fn over_socket(server: &Server) -> anyhow::Result<String> {
    Ok(match server.socket {
        Socket::Inherited | Socket::InheritedOrPath => "transport = \"http\"".into(),
        Socket::Port => "transport = \"http\"\nsocket = \"port\"".into(),
        Socket::FastCgi => match &server.scripts {
            None => "transport = \"fastcgi\"".into(),
            // A process of such a program answers one request at a time.
            Some(folder) => {
                let root = serde_json::to_string(text(folder)?)?;
                format!("transport = \"fastcgi\"\nconcurrency = 1\ncgi = {{ root = {root} }}")
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        let command = vec!["/a \"b\"/python".into(), "c\\d".into()];
        let server = Server { name: "SDK", socket: Socket::InheritedOrPath, scripts: None, command };
        let text = configuration(Case::HttpCold, &server, 2).expect("UTF-8");
        assert!(text.contains(r#"command = ["/a \"b\"/python","c\\d"]"#), "{text}");
        assert!(text.contains("transport = \"http\"\nidle_timeout = \"none\""), "{text}");
        assert_eq!(text.matches("\ncommand = [\"/bin/false\"]").count(), 2, "{text}");
    }

    #[test]
    fn phases_are_read_from_server_timing() {
        let found = phases("parse;dur=0.5, app;desc=\"mine, x\", connect;dur=61.25,total;dur=63");
        let wanted = [("parse", 0.5), ("connect", 61.25), ("total", 63.0)];
        assert_eq!(found, wanted.map(|(name, ms)| (name.to_owned(), ms)));
    }
}
