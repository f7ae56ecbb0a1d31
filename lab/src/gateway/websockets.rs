//! WebSocket: what an echoed message costs gateway and service over the pipe and over HTTP, and a relay without HTTP in
//! the gateway's place: the floor.

use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::Context as _;

use super::running::{Running, head, new_folder, own_service, route, wait};
use super::{Lab, SECOND, group, variant};
use crate::cores;
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Group, Question, Sample};
use crate::processes::{Held, Program, usage};
use crate::service::SERVICE;
use crate::service::websocket::Clients;
use crate::transport::target::LISTEN_LIMIT;

const CLIENTS: Clients = Clients { count: 64, bytes: 32 };
pub(super) const PIPE: &str = "pipe";
pub(super) const TCP: &str = "tcp";
const UNIX: &str = "unix";
const RELAY_TCP: &str = "relay-tcp";
const RELAY_UNIX: &str = "relay-unix";
/// What is compared: one, and the other.
const ASKED: [(&str, &str); 5] =
    [(PIPE, TCP), (PIPE, UNIX), (RELAY_UNIX, RELAY_TCP), (PIPE, RELAY_UNIX), (TCP, RELAY_TCP)];

pub(super) fn group_of(lab: &Rc<Lab>) -> Group {
    let of = |id: &'static str, title| variant(lab, id, title, SECOND / 2, move |lab, amount| echoed(lab, id, amount));
    let variants = vec![
        of(PIPE, "the pipe"),
        of(TCP, "HTTP over TCP"),
        of(UNIX, "HTTP over a Unix socket"),
        of(RELAY_TCP, "a relay without HTTP, over TCP"),
        of(RELAY_UNIX, "a relay without HTTP, over a Unix socket"),
    ];
    let ask = |(one, other): (&str, &str)| {
        Question::ratio(format!("CPU of a message, {one} / {other}"), Metric::CpuUs, one, other)
    };
    Group {
        variants,
        control: PIPE.into(),
        questions: ASKED.map(ask).into(),
        amount: lab.amount,
        ..group(
            "websocket",
            "Messages of WebSocket that a service echoes",
            format!(
                "{} clients, {} bytes; gateway or relay and the service on one core, clients on another; CPU of both for a message",
                CLIENTS.count, CLIENTS.bytes
            ),
            &[Metric::CpuUs, Metric::GatewayCpuUs, Metric::PerSecond],
        )
    }
}

fn echoed(lab: &Lab, id: &str, amount: Amount) -> anyhow::Result<Sample> {
    if id == PIPE {
        let gateway = lab.start(&own_service(&lab.service, &["pipe-websocket"], "idle_timeout = \"none\""))?;
        return measured(lab, gateway.address, amount, || (gateway.own_pids(), gateway.service_pids()));
    }
    let dir = new_folder(&lab.scratch)?;
    let start = |name: &str, word: Option<&str>| {
        let mut command = vec![lab.service.as_str().into(), SERVICE.into(), name.into()];
        command.extend(word.map(Into::into));
        let output = dir.path().join(format!("{name}.output"));
        cores::on(lab.server_core(), || {
            Program { name: name.into(), command, dir: dir.path().to_owned(), output }.start()
        })?
    };
    let socket = dir.path().join("echo");
    let path = socket.to_str().context("the path of a socket is not UTF-8")?;
    let is_unix = id == UNIX || id == RELAY_UNIX;
    let mut service: Held = start("http-websocket", is_unix.then_some(path))?;
    let to = if is_unix {
        wait("the service listens", || socket.exists())?;
        path.to_owned()
    } else {
        service.listening(LISTEN_LIMIT)?.to_string()
    };
    let services = || usage::tree(service.pid()).into_iter().map(|process| process.pid).collect();
    if id == RELAY_TCP || id == RELAY_UNIX {
        let mut relay: Held = start("websocket-relay", Some(&to))?;
        let address = relay.listening(LISTEN_LIMIT)?;
        return measured(lab, address, amount, || (vec![relay.pid()], services()));
    }
    let url = if is_unix { format!("unix:{to}") } else { format!("http://{to}") };
    let text = format!("{}[services.echo]\nurl = \"{url}\"\n\n{}", head("64MiB"), route("/", "echo", "false"));
    let gateway = Running::start(&lab.scratch, lab.server_core(), &text)?;
    measured(lab, gateway.address, amount, || (gateway.own_pids(), services()))
}

/// `pids`: of what passes messages on, and of the service, once it has been asked.
fn measured(
    lab: &Lab,
    address: SocketAddr,
    amount: Amount,
    pids: impl FnOnce() -> (Vec<u32>, Vec<u32>),
) -> anyhow::Result<Sample> {
    let send = |duration| cores::on(lab.load_core(), || CLIENTS.run(address, "/", duration))?;
    send(amount.warm_up)?;
    let (between, service) = pids();
    let (count, used) = usage::during(&[("gateway", between), ("service", service)], || send(amount.duration))?;
    let each: Vec<f64> = used.iter().map(|used| used.as_secs_f64() * 1e6 / count as f64).collect();
    let values = vec![
        (Metric::CpuUs, each.iter().sum()),
        (Metric::GatewayCpuUs, each[0]),
        (Metric::PerSecond, count as f64 / amount.duration.as_secs_f64()),
    ];
    let cpu_us = ["gateway", "service"].map(str::to_owned).into_iter().zip(each).collect();
    Ok(Sample { values, cpu_us, requests: count, ..Sample::default() })
}
