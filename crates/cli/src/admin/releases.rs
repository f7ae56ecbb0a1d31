//! `pilotlight deploy`, `rollback` and `releases`: a service's folder of releases is changed here, under its lock; the
//! gateway tries a release, and switches.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use pilotlight_printable::{printable, printable_lines};
use pilotlight_releases::{Name, Release, Releases, State};
use pilotlight_supervisor::{HealthCheck, ServiceSpec};
use serde_json::{Value, json};

use super::arguments::Running;
use super::client::{self, Client, Failure};
use super::columns::{Cell, Style, left, right, rows};
use super::options::Effect;
use super::report::{Report, json_text, report_change};
use crate::config::commands::Outcome;
use source::Source;
use ssh::Remote;

mod source;
mod ssh;

/// How much longer than a start and a health request the gateway may take to answer.
const MARGIN: Duration = Duration::from_secs(60);
/// How long it is waited for that the last instance of another release takes no more requests.
const MAX_REPLACING: Duration = Duration::from_secs(60);
/// How often it is looked.
const REPLACING_PAUSE: Duration = Duration::from_millis(20);
/// Characters of a reason that a table shows.
const MAX_REASON: usize = 60;

/// Examples for the help of `deploy`.
pub const DEPLOY_EXAMPLES: &str = "Examples:
  pilotlight deploy dist --service app            a folder as it is now, without .git, .hg and .svn
  pilotlight deploy app.tar.gz --service app      an archive: .tar, .tar.gz or .tar.zst
  pilotlight deploy v1.4 --service app            a commit of the Git repository of this folder, by `git archive`
  tar c dist | pilotlight deploy - --service app
  pilotlight deploy dist --service app --host deploy@example.org --config /etc/pilotlight/pilotlight.toml

The service needs `releases`, the folder where they are kept. An instance of the new release is started beside those
that serve and is asked for `health`; only if the answer is good does it take requests, and the others are replaced.
Otherwise nothing changes, and the exit code is 1.";

/// Examples for the help of `rollback`.
pub const ROLLBACK_EXAMPLES: &str = "Examples:
  pilotlight rollback --service app               the release that was the current one before
  pilotlight rollback 20261124-001500-v1.4 --service app
  pilotlight rollback --service app --host deploy@example.org --any";

/// Examples for the help of `releases`.
pub const RELEASES_EXAMPLES: &str = "Examples:
  pilotlight releases --service app               the newest first, and why one was not used
  pilotlight releases --service app --json";

/// What is deployed, and where.
#[derive(Args, Debug)]
pub struct DeployArguments {
    /// A folder, an archive, `-` for an archive on the standard input, or else a commit of Git
    #[arg(value_name = "DIR|ARCHIVE|COMMIT")]
    what: PathBuf,
    /// The end of the release's name [default: the name of the folder or archive, or the commit]
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// What is gone back to.
#[derive(Args, Debug)]
pub struct RollbackArguments {
    /// The release [default: the one before the current one]
    release: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Whose releases are listed.
#[derive(Args, Debug)]
pub struct ReleasesArguments {
    #[command(flatten)]
    place: Place,
}

/// Where a command does its work.
#[derive(Args, Debug)]
struct Place {
    /// The service [default: the only one that has releases]
    #[arg(long, short, value_name = "NAME")]
    service: Option<String>,
    /// Do it on this host, by the ordinary `ssh`: a name, user@name or ssh://user@name:port
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// What `ssh` takes behind -o; may be repeated
    #[arg(long, value_name = "OPTION", requires = "host")]
    ssh_option: Vec<String>,
    /// How Pilotlight is called there, in the words of that host's shell
    #[arg(long, value_name = "COMMAND", default_value = "pilotlight", requires = "host")]
    remote_command: String,
    #[command(flatten)]
    gateway: Running,
}

impl Place {
    fn remote(&self) -> Option<Result<Remote, Failure>> {
        let host = self.host.as_deref()?;
        Some(Remote::new(host, &self.ssh_option, &self.remote_command))
    }

    /// The arguments that say the same there.
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.service.iter().flat_map(|name| ["--service".to_owned(), name.clone()]));
        words.extend(self.gateway.words());
        words
    }
}

/// `pilotlight deploy`.
///
/// # Errors
/// Only if the output cannot be written.
pub fn deploy(arguments: DeployArguments) -> io::Result<Outcome> {
    let DeployArguments { what, label, place } = arguments;
    let source = match Source::of(&what) {
        Ok(source) => source,
        Err(failure) => return told(&failure),
    };
    let label = label.unwrap_or_else(|| source.label());
    if let Some(remote) = place.remote() {
        let mut words = vec!["deploy".to_owned(), "-".to_owned(), "--label".to_owned(), label];
        words.extend(place.words());
        return remote.and_then(|remote| remote.send(&words, &source)).or_else(|failure| told(&failure));
    }
    let service = place.service;
    place.gateway.run(Effect::Changes, |client, report, out| {
        is_gateways_user(client)?;
        let service = Served::find(client, service.as_deref())?;
        let lock = service.releases.lock().map_err(|held| service.failed(&held))?;
        let incoming = service.releases.begin(&lock).map_err(|error| service.failed(&error))?;
        source.unpack(incoming.path(), service.releases.folder())?;
        let name = service.releases.place(incoming, &label).map_err(|error| service.failed(&error))?;
        let tried = service.switch(client, &name);
        let removed = match &tried {
            Ok(_) | Err(Failure::Refused { .. }) => service.prune(client, &lock),
            Err(_) => Vec::new(), // it is not known what the gateway does
        };
        let mut answer = tried?;
        answer["removed"] = removed.iter().map(Name::as_str).collect();
        report_change(client.gateway(), answer, report, deployed, out)?;
        Ok(Outcome::Done)
    })
}

/// `pilotlight rollback`.
///
/// # Errors
/// Only if the output cannot be written.
pub fn rollback(arguments: RollbackArguments) -> io::Result<Outcome> {
    let RollbackArguments { release, place } = arguments;
    if let Some(remote) = place.remote() {
        let words: Vec<String> = ["rollback".to_owned()].into_iter().chain(release).chain(place.words()).collect();
        return remote.and_then(|remote| remote.run(&words)).or_else(|failure| told(&failure));
    }
    let service = place.service;
    place.gateway.run(Effect::Changes, |client, report, out| {
        is_gateways_user(client)?;
        let service = Served::find(client, service.as_deref())?;
        let _lock = service.releases.lock().map_err(|held| service.failed(&held))?;
        let name = service.to_go_back_to(release.as_deref())?;
        let answer = service.switch(client, &name)?;
        report_change(client.gateway(), answer, report, rolled_back, out)?;
        Ok(Outcome::Done)
    })
}

/// `pilotlight releases`.
///
/// # Errors
/// Only if the output cannot be written.
pub fn releases(arguments: ReleasesArguments) -> io::Result<Outcome> {
    let place = arguments.place;
    if let Some(remote) = place.remote() {
        let words: Vec<String> = ["releases".to_owned()].into_iter().chain(place.words()).collect();
        return remote.and_then(|remote| remote.run(&words)).or_else(|failure| told(&failure));
    }
    let service = place.service;
    place.gateway.run(Effect::Reads, |client, report, out| {
        let service = Served::find(client, service.as_deref())?;
        let all = service.releases.list().map_err(|error| service.failed(&error))?;
        match report {
            Report::Json => writeln!(out, "{}", json_text(&service.listed(&all)))?,
            Report::Text => write!(out, "{}", service.table(&all, Style::of_stdout()))?,
        }
        Ok(Outcome::Done)
    })
}

fn told(failure: &Failure) -> io::Result<Outcome> {
    writeln!(io::stderr(), "error: {}", printable_lines(&failure.to_string()))?;
    Ok(failure.outcome())
}

/// What root unpacks is root's, and the gateway, which makes a release the current one, could not change it. To give it
/// to the gateway's user is no way out: root would work in a folder in which another user can put links.
fn is_gateways_user(client: &Client) -> Result<(), Failure> {
    let status = client.get("/status")?;
    let folder = status["gateway"]["runtime_dir"].as_str().unwrap_or_default();
    let (ours, theirs) = (rustix::process::geteuid().as_raw(), std::fs::metadata(folder).map(|folder| folder.uid()));
    match theirs {
        Ok(theirs) if theirs != ours => {
            let detail = format!(
                "the gateway runs as user {theirs} and this command as user {ours}: releases have to be the gateway's own. \
                 Run it as that user: sudo -u '#{theirs}' pilotlight …; over ssh by --remote-command \"sudo -u '#{theirs}' \
                 pilotlight\""
            );
            Err(Failure::Refused { status: 409, detail })
        }
        _ => Ok(()), // one that does not say where its folder is, says later what it cannot do
    }
}

/// A service of the gateway that has releases.
struct Served {
    name: String,
    releases: Releases,
    keep: usize,
    /// The release of each of its instances.
    running: Vec<Name>,
}

impl Served {
    /// The one of this name, or the only one that has releases.
    fn find(client: &Client, name: Option<&str>) -> Result<Self, Failure> {
        let refused = |status, detail| Failure::Refused { status, detail };
        if let Some(name) = name {
            let service = client.get(&format!("/services/{}", client::encoded(name)))?;
            return Self::read(&service).ok_or_else(|| {
                refused(
                    409,
                    format!(
                        "the service {} has no releases: give it the folder where they are kept, releases = \"FOLDER\" in \
                         [services.{}], and reload",
                        printable(name),
                        printable(name)
                    ),
                )
            });
        }
        let status = client.get("/status")?;
        let mut all: Vec<Self> = status["services"].as_array().into_iter().flatten().filter_map(Self::read).collect();
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                all.push(last);
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                Err(refused(400, format!("several services have releases; say which with --service: {}", names.join(", "))))
            }
            (None, _) => Err(refused(
                409,
                "no service of this gateway has releases: give one the folder where they are kept, releases = \"FOLDER\" \
                 in [services.NAME], and reload"
                    .to_owned(),
            )),
        }
    }

    fn read(service: &Value) -> Option<Self> {
        let releases = &service["releases"];
        let instances = service["instances"].as_array().into_iter().flatten();
        Some(Self {
            name: service["name"].as_str()?.to_owned(),
            releases: Releases::at(releases["folder"].as_str()?.as_ref()),
            keep: releases["keep"].as_u64().and_then(|keep| keep.try_into().ok())?,
            running: instances.filter_map(|one| Name::parse(one["release"].as_str()?)).collect(),
        })
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::Service(self.name.clone(), why.to_string())
    }

    /// Has the gateway try a release and make it the current one, and waits until no other one takes requests.
    fn switch(&self, client: &Client, name: &Name) -> Result<Value, Failure> {
        let path = format!("/services/{}/deploy", client::encoded(&self.name));
        let timeout = *ServiceSpec::START_TIMEOUT.end() + *HealthCheck::TIMEOUT.end() + MARGIN;
        let mut answer = client.order(&path, Some(&json!({ "release": name.as_str() })), timeout)?;
        let begun = Instant::now();
        let mut others = self.others(client, name)?;
        while others > 0 && begun.elapsed() < MAX_REPLACING {
            std::thread::sleep(REPLACING_PAUSE);
            others = self.others(client, name)?;
        }
        if others > 0 {
            let text = format!(
                "instances of the release before still take requests ({others}): their successors do not start; \
                 `pilotlight status {}` says why",
                self.name
            );
            writeln!(io::stderr(), "warning: {}", printable(&text))?;
        }
        answer["instances_of_others"] = others.into();
        Ok(answer)
    }

    /// Instances of other releases that may be given requests.
    fn others(&self, client: &Client, name: &Name) -> Result<usize, Failure> {
        let service = client.get(&format!("/services/{}", client::encoded(&self.name)))?;
        let instances = service["instances"].as_array().into_iter().flatten();
        let serves = |one: &&Value| matches!(one["state"].as_str(), Some("starting" | "ready" | "frozen"));
        Ok(instances.filter(serves).filter(|one| one["release"].as_str() != Some(name.as_str())).count())
    }

    /// Removes what is too old; that it does not go is no failure of the deploy.
    fn prune(&self, client: &Client, lock: &pilotlight_releases::Lock) -> Vec<Name> {
        let now = Self::find(client, Some(&self.name));
        let in_use = now.as_ref().map_or(&self.running, |now| &now.running);
        self.releases.prune(self.keep, in_use, lock).unwrap_or_else(|error| {
            let text = format!("older releases cannot be removed: {error}");
            let _ = writeln!(io::stderr(), "warning: {}", printable(&text)); // nobody may be left to be told
            Vec::new()
        })
    }

    fn to_go_back_to(&self, release: Option<&str>) -> Result<Name, Failure> {
        let refused = |detail| Failure::Refused { status: 400, detail };
        let current = self.releases.current();
        let Some(text) = release else {
            let previous = self.releases.previous().map_err(|error| self.failed(&error))?;
            return previous.ok_or_else(|| match current {
                Some(current) => self.failed(&format!("no release before {current} has been the current one")),
                None => self.failed(&"no release is the current one: there is nothing to go back from"),
            });
        };
        let name = Name::parse(text).filter(|name| self.releases.dir(name).is_dir()).ok_or_else(|| {
            refused(format!(
                "there is no release {}; `pilotlight releases` lists those of {}",
                printable(text),
                self.name
            ))
        })?;
        if current.as_ref() == Some(&name) {
            return Err(refused(format!("{name} is the current release of {} already", self.name)));
        }
        Ok(name)
    }

    fn instances_of(&self, name: &Name) -> usize {
        self.running.iter().filter(|running| *running == name).count()
    }

    fn listed(&self, all: &[Release]) -> Value {
        let one = |release: &Release| {
            json!({
                "release": release.name.as_str(),
                "made": release.name.made().map(httpdate::fmt_http_date),
                "state": release.state.name(),
                "reason": match &release.state { State::Failed(reason) => Some(reason), _ => None },
                "instances": self.instances_of(&release.name),
            })
        };
        json!({
            "service": self.name,
            "folder": self.releases.folder().to_string_lossy(),
            "current": self.releases.current().map(|name| name.to_string()),
            "keep": self.keep,
            "releases": all.iter().map(one).collect::<Vec<_>>(),
        })
    }

    fn table(&self, all: &[Release], style: Style) -> String {
        if all.is_empty() {
            return format!(
                "no release of {} in {} yet; `pilotlight deploy FOLDER --service {}` makes one\n",
                self.name,
                printable(&self.releases.folder().to_string_lossy()),
                self.name
            );
        }
        let row = |release: &Release| -> Vec<Cell> {
            let state = match &release.state {
                State::Failed(reason) => format!("{}: {}", release.state.name(), shortened(reason)),
                state => state.name().to_owned(),
            };
            let instances = self.instances_of(&release.name);
            let instances = if instances == 0 { "-".to_owned() } else { instances.to_string() };
            vec![left(release.name.as_str()), right(instances), left(state)]
        };
        rows(&["RELEASE", "INSTANCES", "STATE"], &all.iter().map(row).collect::<Vec<_>>(), style)
    }
}

/// The beginning of its first line.
fn shortened(reason: &str) -> String {
    let line = printable(reason.lines().next().unwrap_or_default());
    let mut short: String = line.chars().take(MAX_REASON).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

fn deployed(answer: &Value) -> String {
    let mut text = switched(answer);
    if let Some(previous) = answer["previous"].as_str() {
        let service = answer["service"].as_str().unwrap_or_default();
        text.push_str(&format!("\nbefore    {previous}; `pilotlight rollback --service {service}` goes back to it"));
    }
    let removed: Vec<&str> = answer["removed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !removed.is_empty() {
        text.push_str(&format!("\nremoved   {}", removed.join(", ")));
    }
    text
}

fn rolled_back(answer: &Value) -> String {
    let before = answer["previous"].as_str().map_or(String::new(), |previous| format!("\nbefore    {previous}"));
    switched(answer) + &before
}

fn switched(answer: &Value) -> String {
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    format!(
        "{} runs release {}: it answered its health request with status {}, {:.0} ms after its start",
        text("service"),
        text("release"),
        answer["health_status"],
        answer["took_ms"].as_f64().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_deploy() {
        let answer = json!({ "service": "app", "release": "2-b", "previous": "1-a", "health_status": 200, "took_ms": 12.3,
            "removed": ["0-z"] });
        assert_eq!(
            deployed(&answer),
            "app runs release 2-b: it answered its health request with status 200, 12 ms after its start\n\
             before    1-a; `pilotlight rollback --service app` goes back to it\nremoved   0-z"
        );
        let first = json!({ "service": "app", "release": "1-a", "previous": null, "health_status": 404, "took_ms": 1.0,
            "removed": [] });
        assert_eq!(deployed(&first).lines().count(), 1);
    }

    #[test]
    fn why_a_release_was_not_used_is_one_short_line() {
        assert_eq!(shortened("it\u{1b}[31m ended\nmore"), "it\\x1b[31m ended");
        assert_eq!(shortened(&"x".repeat(61)).chars().count(), 61);
        assert!(shortened(&"x".repeat(61)).ends_with("x…"));
    }
}
