//! `pilotlight lab mcp`: a tool call of an MCP server over HTTP, in a session and without one, beside the same exchange
//! on the program's own streams. `docs/lab/mcp.md`.

use std::io::{Read as _, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::cores;
use crate::experiment::model::{Metric, Role, Skipped};
use crate::experiment::{Amount, Experiment, Extent, Group, Participant, Plan, Question, Sample, Setting};
use crate::gateway::caller;
use crate::gateway::running::{Running, new_folder, route, service};
use crate::gateway::{Gateway, Lab, PYTHON, group, software, variant};
use crate::processes::{Program, find_program};

/// The program of the tests: what speaks MCP is written by hand, so there is no SDK on either side.
const PROGRAM: &str = "tests/e2e/stdio_program.py";
const SESSION: &str = "session";
const STATELESS: &str = "stateless";
const BARE: &str = "bare";
/// The first version of MCP without sessions.
const VERSION: &str = "2026-07-28";
const HELLO: &str = "\"hello\"";
/// What a start and an end usually take.
const USUAL: Duration = Duration::from_millis(300);
/// A program that does not answer for so long has failed.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Mcp;

impl Experiment for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn title(&self) -> &'static str {
        "A tool call of an MCP server: over HTTP, and on the program's own streams"
    }

    fn hypothesis(&self) -> &'static str {
        "Over HTTP a call takes 0.3 ms of CPU more than on the program's own streams, in a session and without one"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        vec![Participant { name: "Python".into(), what: "the MCP server".into(), missing: missing() }]
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        if let Some(missing) = missing() {
            return Ok(Plan { skipped: vec![missing], ..Plan::default() });
        }
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let mut variants = vec![
            variant(&lab, SESSION, "over HTTP, in a session", USUAL, |lab, amount| over_http(lab, SESSION, amount)),
            variant(&lab, STATELESS, "over HTTP, without one", USUAL, |lab, amount| over_http(lab, STATELESS, amount)),
            variant(&lab, BARE, "a line written, a line read", USUAL, bare),
        ];
        variants.iter_mut().for_each(|variant| variant.software.extend(software(PYTHON)));
        (variants[2].role, variants[2].software) = (Role::Floor, software(PYTHON));
        let beyond = |(id, metric): (&str, Metric)| Question {
            difference: true,
            ..Question::ratio(format!("{}, {id}: beyond its own streams", metric.title()), metric, id, BARE)
        };
        let asked =
            [Metric::CpuUs, Metric::P50Ms].into_iter().flat_map(|metric| [(SESSION, metric), (STATELESS, metric)]);
        let call = Group {
            variants,
            control: SESSION.into(),
            questions: asked.map(beyond).collect(),
            amount: lab.amount,
            ..group(
                "call",
                "A tool call",
                "one caller, one call after another; all processes on one core, the caller on another; CPU of all but it"
                    .into(),
                &[Metric::CpuUs, Metric::P50Ms],
            )
        };
        Ok(Plan { groups: vec![call], ..Plan::default() })
    }
}

fn missing() -> Option<Skipped> {
    let why = format!("there is no {PYTHON}");
    find_program(PYTHON).is_none().then(|| Skipped::new("MCP servers", &why, "apt install python3"))
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
}

fn echo() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"text": "hello"}})
}

fn over_http(lab: &Lab, mode: &str, amount: Amount) -> anyhow::Result<Sample> {
    let command = [PYTHON, &lab.file(PROGRAM), mode];
    let gateway = lab.start(&(service("mcp", &command, "transport = \"stdio\"") + &route("/", "mcp", "false")))?;
    let mut call = echo();
    let fields = if mode == SESSION {
        format!("Mcp-Session-Id: {}\r\n", session(&gateway)?)
    } else {
        call["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": VERSION});
        format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: echo\r\n")
    };
    caller::over_http(lab, amount, &gateway, &post(&fields, &call), HELLO, || {
        // Its helper process, which does nothing meanwhile, counts with the adapter.
        let mut own = gateway.own_pids();
        let adapter = own.split_off(own.len().min(1));
        vec![("gateway", own), ("adapter", adapter), ("program", gateway.service_pids())]
    })
}

/// Its name, as the gateway says it.
fn session(gateway: &Running) -> anyhow::Result<String> {
    let (mut socket, mut answer) = (gateway.dial()?, String::new());
    socket.write_all(&post("Connection: close\r\n", &initialize()))?;
    socket.read_to_string(&mut answer).context("no whole answer")?;
    let fields = answer.lines().filter_map(|line| line.split_once(": "));
    let mut names = fields.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
    names.next().map(|(_, id)| id.to_owned()).with_context(|| format!("no session: {answer}"))
}

fn post(fields: &str, message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn bare(lab: &Lab, amount: Amount) -> anyhow::Result<Sample> {
    let dir = new_folder(&lab.scratch)?;
    let program = Program {
        name: "program".into(),
        command: [PYTHON, &lab.file(PROGRAM), SESSION].map(Into::into).into(),
        dir: dir.path().to_owned(),
        output: dir.path().join("output"),
    };
    let (held, input, output) = cores::on(lab.server_core(), || program.start_piped())??;
    let mut streams = Streams { input, output };
    streams.exchange(&initialize())?;
    caller::without_gateway(lab, amount, "program", held.pid(), || streams.exchange(&echo()))
}

/// Of a program that answers a line with a line.
struct Streams {
    input: ChildStdin,
    output: ChildStdout,
}

impl Streams {
    /// How long the answer takes.
    fn exchange(&mut self, message: &Value) -> anyhow::Result<Duration> {
        let (line, limit) = (format!("{message}\n"), Timespec::try_from(ANSWER_LIMIT)?);
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        let begin = Instant::now();
        self.input.write_all(line.as_bytes())?;
        while !answer.ends_with(b"\n") {
            let ready = poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&limit))?;
            ensure!(ready > 0, "no answer within {} s", ANSWER_LIMIT.as_secs());
            let read = self.output.read(&mut piece)?;
            ensure!(read > 0, "the program has ended before it answered");
            answer.extend_from_slice(&piece[..read]);
        }
        let took = begin.elapsed();
        let answer: Value = serde_json::from_slice(&answer).context("an answer that is no JSON")?;
        ensure!(answer["id"] == message["id"] && answer["error"].is_null(), "another answer: {answer}");
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_posted_with_its_length_and_fields() {
        let text = String::from_utf8(post("A: b\r\n", &json!({"id": 1}))).expect("UTF-8");
        assert!(text.starts_with("POST / HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with("\r\nContent-Length: 8\r\nA: b\r\n\r\n{\"id\":1}"), "{text}");
    }
}
