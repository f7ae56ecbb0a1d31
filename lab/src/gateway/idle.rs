//! Memory of a gateway that has nothing to do, its helper process included.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::running::{Running, head, new_folder, own_service, route, service};
use super::{Lab, SECOND, group, loads, variant};
use crate::experiment::model::Metric;
use crate::experiment::{Group, Sample};
use crate::front::server::write_certificate;
use crate::load::{Requests, get};
use crate::processes::usage;
use crate::transport::target::free_address;

pub(super) const PLAIN: &str = "pilotlight";
pub(super) const TLS: &str = "tls";
pub(super) const SERVICES: &str = "services";
pub(super) const CLIENTS: &str = "clients";
const STOPPED_SERVICES: u32 = 1000;
const IDLE_CLIENTS: usize = 10_000;
pub(crate) const MORE_CLIENTS: &str = "[limits]\nconnections = 20000\nkeepalive_timeout = \"10m\"\n\n";
/// No route leads there.
const NOT_FOUND: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SETTLE: Duration = Duration::from_secs(2);
/// A gateway looks every 5 s whether clients have become quiet, and gives their memory back 1 s later.
pub(crate) const GIVEN_BACK: Duration = Duration::from_secs(8);
const CURL: [&str; 5] = ["--silent", "--show-error", "--fail", "--output", "/dev/null"];

pub(super) fn group_of(lab: &Rc<Lab>) -> Group {
    let metrics = [Metric::RssBytes, Metric::PssBytes, Metric::RssAfterBytes, Metric::Processes];
    let workload = "gateway and helper, some seconds after they began or were last asked; memory counts the pages that they share twice";
    Group {
        variants: vec![
            variant(lab, PLAIN, "Pilotlight", SECOND * 6, |lab, _| plain(lab)),
            variant(lab, TLS, "with TLS", SECOND * 5, |lab, _| with_tls(lab)),
            variant(lab, SERVICES, "1,000 configured, stopped services", SECOND * 3, |lab, _| with_services(lab)),
            variant(lab, CLIENTS, "10,000 idle keep-alive clients", SECOND * 10, |lab, _| with_clients(lab)),
        ],
        amount: lab.counted(super::FEW_ROUNDS),
        ..group("idle", "Memory of a gateway that has nothing to do", workload.into(), &metrics)
    }
}

/// The service is not started before the load: what is idle first is the gateway alone.
fn plain(lab: &Lab) -> anyhow::Result<Sample> {
    let gateway = lab.start(&own_service(&lab.service, &["http"], ""))?;
    std::thread::sleep(SETTLE);
    let first = memory(&gateway);
    let requests = Requests::Same { request: get("/"), body: None };
    loads::ask(lab.load_core(), gateway.address, 64, SECOND, requests)?;
    Ok(and_after(&gateway, first))
}

/// A second listener with a certificate. After load: when curl has been answered there.
fn with_tls(lab: &Lab) -> anyhow::Result<Sample> {
    let (gateway, secure) = start_with_tls(lab, "64MiB", &own_service(&lab.service, &["http"], ""))?;
    std::thread::sleep(SETTLE);
    let first = memory(&gateway);
    let mut curl = Command::new("curl");
    curl.args(CURL).arg("--cacert").arg(gateway.dir().join("certificate.pem"));
    let asked =
        curl.arg(format!("https://localhost:{}/", secure.port())).stdin(Stdio::null()).status().context("curl")?;
    ensure!(asked.success(), "curl was not answered over TLS: {asked}");
    Ok(and_after(&gateway, first))
}

fn with_services(lab: &Lab) -> anyhow::Result<Sample> {
    let tables = own_service(&lab.service, &["http"], "") + &stopped_services(STOPPED_SERVICES - 1);
    let gateway = lab.start(&tables)?;
    std::thread::sleep(SETTLE);
    Ok(sample(memory(&gateway)))
}

/// Each has had an answer, and stays.
fn with_clients(lab: &Lab) -> anyhow::Result<Sample> {
    let gateway = lab.start(&format!("{MORE_CLIENTS}{}", stopped_services(1)))?;
    let _clients = silent_clients(&gateway, IDLE_CLIENTS)?;
    std::thread::sleep(GIVEN_BACK);
    Ok(sample(memory(&gateway)))
}

/// So many, each of which has had an answer.
pub(crate) fn silent_clients(gateway: &Running, count: usize) -> anyhow::Result<Vec<TcpStream>> {
    let mut room = [0; 4096];
    let mut client = || {
        let mut client = gateway.dial()?;
        client.write_all(NOT_FOUND)?;
        let read = client.read(&mut room).context("a client was not answered")?;
        ensure!(room[..read].starts_with(b"HTTP/1.1 404"), "a client was not answered with 404");
        Ok(client)
    };
    (0..count).map(|_| client()).collect()
}

/// With a second listener, over TLS for localhost, and so much memory for answers.
pub(crate) fn start_with_tls(lab: &Lab, memory: &str, tables: &str) -> anyhow::Result<(Running, SocketAddr)> {
    let dir = new_folder(&lab.scratch)?;
    write_certificate(dir.path())?;
    let tls = "[tls]\ncertificates = { certificate = \"certificate.pem\", key = \"key.pem\" }\n\n";
    let secure = free_address()?;
    let head = head(memory).replacen("\"]", &format!("\", \"https://{secure}\"]"), 1);
    Ok((Running::start_in(dir, lab.server_core(), &format!("{head}{tls}{tables}"))?, secure))
}

/// So many services that nobody asks for, each with a route.
pub(crate) fn stopped_services(count: u32) -> String {
    let names = (0..count).map(|number| format!("other-{number}"));
    names.map(|name| service(&name, &["/bin/false"], "") + &route(&format!("/{name}"), &name, "false")).collect()
}

fn memory(gateway: &Running) -> usage::Memory {
    usage::memory(&gateway.own_pids())
}

fn sample(memory: usage::Memory) -> Sample {
    let values = vec![
        (Metric::RssBytes, memory.rss_bytes as f64),
        (Metric::PssBytes, memory.pss_bytes as f64),
        (Metric::Processes, memory.processes as f64),
    ];
    Sample { values, ..Sample::default() }
}

fn and_after(gateway: &Running, first: usage::Memory) -> Sample {
    std::thread::sleep(SETTLE);
    let mut sample = sample(first);
    sample.values.push((Metric::RssAfterBytes, memory(gateway).rss_bytes as f64));
    sample
}
