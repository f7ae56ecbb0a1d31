//! One gateway with all that is measured: a listener with TLS, a service over HTTP and one over the pipe, and what it
//! holds.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fastrand::Rng;

use super::Scale;
use super::model::{Content, Mix};
use crate::cores;
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Sample};
use crate::front::h2load::H2load;
use crate::gateway::running::{Running, route, service};
use crate::gateway::{Lab, idle, loads};
use crate::load::{Outcome, Requests, get, in_turn};
use crate::processes::usage;
use crate::service::SERVICE;

pub(super) const STORED: &str = "/stored";
pub(super) const HTTP: &str = "/http";
pub(super) const PIPE: &str = "/pipe";
const MEMORY: &str = "256MiB";
const CONNECTIONS: usize = 64;
/// New connections of a measurement, all begun at once.
const HANDSHAKES: u32 = 500;
/// So that both services run and buffers are there.
const WARM_REQUESTS: u32 = 2000;
const LOAD_LIMIT: Duration = Duration::from_secs(120);

/// What a gateway of some size holds, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) content: Content,
    pub(super) mix: Mix,
    /// Connections with plain requests.
    pub(super) clients: usize,
}

/// A running gateway.
struct Gateway<'a> {
    lab: &'a Lab,
    running: Running,
    secure: SocketAddr,
}

impl<'a> Gateway<'a> {
    /// With so many stopped services beside the two.
    fn start(lab: &'a Lab, services: u32) -> anyhow::Result<Self> {
        let own = |kind: &str| {
            let more = format!("transport = \"{kind}\"\nidle_timeout = \"none\"");
            service(kind, &[&lab.service, SERVICE, kind], &more)
        };
        // The certificate names the host that is asked for: plain HTTP would be redirected.
        let route = |path, service, cache| route(path, service, &format!("{cache}\nhttps = \"allow\""));
        let tables = [
            idle::MORE_CLIENTS.to_owned(),
            own("http"),
            own("pipe"),
            route(STORED, "http", "\"10h\""),
            route(HTTP, "http", "false"),
            route(PIPE, "pipe", "false"),
            idle::stopped_services(services),
        ];
        let (running, secure) = idle::start_with_tls(lab, MEMORY, &tables.concat())?;
        Ok(Self { lab, running, secure })
    }

    fn load(&self, connections: usize, duration: Duration, requests: Requests) -> anyhow::Result<Outcome> {
        loads::ask(self.lab.load_core(), self.running.address, connections, duration, requests)
    }

    /// All of them, once.
    fn all(&self, connections: usize, requests: Vec<Vec<u8>>) -> anyhow::Result<()> {
        let count = u32::try_from(requests.len())?;
        let outcome = self.load(connections, LOAD_LIMIT, in_turn(requests, Arc::default(), Some(count)))?;
        ensure!(outcome.answers == u64::from(count), "{} of {count} answers", outcome.answers);
        Ok(())
    }

    fn shake_hands(&self, count: u32) -> anyhow::Result<()> {
        let load = H2load::counted(u64::from(count)).http1().connections(u64::from(count));
        let load = load.of(format!("https://{}{STORED}/0", self.secure));
        let answers = cores::on(self.lab.load_core(), || load.run())??.answers;
        ensure!(answers == u64::from(count), "{answers} of {count} answers over TLS");
        Ok(())
    }

    /// Holds what it is to hold; the connections last as long as what is returned.
    fn fill(&self, content: Content) -> anyhow::Result<Vec<TcpStream>> {
        let kinds = [STORED, HTTP, PIPE].map(|path| get(&format!("{path}/0")));
        self.all(CONNECTIONS, kinds.iter().cycle().take(WARM_REQUESTS as usize).cloned().collect())?;
        if content.answers > 0 {
            self.all(CONNECTIONS, (0..content.answers).map(|number| get(&format!("{STORED}/{number}"))).collect())?;
        }
        idle::silent_clients(&self.running, content.connections as usize)
    }

    /// Once it has given back what it needs no more.
    fn memory(&self, scale: Scale) -> (Metric, f64) {
        thread::sleep(scale.settle);
        (Metric::PssBytes, usage::memory(&self.running.own_pids()).pss_bytes as f64)
    }
}

/// CPU time of one kind of request.
pub(super) fn requests(lab: &Lab, amount: Amount, path: &str) -> anyhow::Result<Sample> {
    let gateway = Gateway::start(lab, 0)?;
    let load = |duration| {
        gateway.load(CONNECTIONS, duration, Requests::Same { request: get(&format!("{path}/0")), body: None })
    };
    load(amount.warm_up)?;
    loads::measured(&[("gateway", gateway.running.own_pids())], || Ok(vec![load(amount.duration)?]))
}

/// CPU time of new connections over TLS, each with one answer from memory.
pub(super) fn handshakes(lab: &Lab, scale: Scale) -> anyhow::Result<Sample> {
    let gateway = Gateway::start(lab, 0)?;
    let count = scale.of(HANDSHAKES);
    gateway.shake_hands(count)?;
    used(&gateway, count, || gateway.shake_hands(count))
}

/// Memory with this in it.
pub(super) fn memory(lab: &Lab, content: Content, scale: Scale) -> anyhow::Result<Sample> {
    let gateway = Gateway::start(lab, content.services)?;
    let _clients = gateway.fill(content)?;
    Ok(Sample { values: vec![gateway.memory(scale)], ..Sample::default() })
}

/// CPU time of requests of all kinds, and memory afterwards.
pub(super) fn together(lab: &Lab, amount: Amount, asked: Asked, scale: Scale) -> anyhow::Result<Sample> {
    let Asked { content, mix, clients } = asked;
    let gateway = Gateway::start(lab, content.services)?;
    let _clients = gateway.fill(content)?;
    let plain = mixed(mix, content.answers, amount.seed);
    let mut sample = used(&gateway, mix.requests(), || {
        thread::scope(|scope| {
            let shaking = scope.spawn(|| gateway.shake_hands(mix.handshakes));
            let asked = gateway.all(clients, plain);
            shaking.join().unwrap_or_else(|_| bail!("the load with TLS panicked")).and(asked)
        })
    })?;
    sample.values.push(gateway.memory(scale));
    Ok(sample)
}

/// Plain requests in a random order, the same in every run.
fn mixed(mix: Mix, answers: u32, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed(seed);
    let kinds = [(STORED, mix.hits), (HTTP, mix.http), (PIPE, mix.pipe)];
    let all = kinds.into_iter().flat_map(|(path, count)| std::iter::repeat_n(path, count as usize));
    let mut all: Vec<_> = all.map(|path| get(&format!("{path}/{}", random.u32(..answers.max(1))))).collect();
    random.shuffle(&mut all);
    all
}

/// CPU time of the gateway for each of so many.
fn used(gateway: &Gateway<'_>, count: u32, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Sample> {
    let ((), used) = usage::during(&[("gateway", gateway.running.own_pids())], work)?;
    let used = used.first().context("CPU time of the gateway")?;
    let cpu_us = used.as_secs_f64() * 1e6 / f64::from(count);
    let values = vec![(Metric::GatewayCpuUs, cpu_us)];
    Ok(Sample { values, cpu_us: vec![("gateway".into(), cpu_us)], requests: u64::from(count), ..Sample::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_as_many_of_each_kind_as_it_says_in_no_order() {
        let mix = Mix { hits: 50, http: 20, pipe: 10, handshakes: 7 };
        let all = mixed(mix, 5, 1);
        let of = |path: &str| all.iter().filter(|one| one.starts_with(format!("GET {path}").as_bytes())).count();
        assert_eq!([of(STORED), of(HTTP), of(PIPE)], [50, 20, 10]);
        assert!(all[..50].iter().any(|one| one.starts_with(b"GET /pipe/")));
        assert_eq!(all, mixed(mix, 5, 1));
    }
}
