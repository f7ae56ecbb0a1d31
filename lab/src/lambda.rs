//! `pilotlight lab lambda`: what the gateway adds to an invocation of a warm function of AWS Lambda, beside the same
//! function at the barest Runtime API, and a hundred invocations at once. `docs/lab/lambda.md`.

mod bare;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::cores;
use crate::experiment::model::{Figure, GroupResults, Metric, Report, Results, Role, Skipped};
use crate::experiment::{Amount, Experiment, Extent, Group, Participant, Plan, Question, Sample, Setting};
use crate::gateway::caller;
use crate::gateway::running::{Running, body, new_folder, route, service};
use crate::gateway::{Gateway, Lab, PYTHON, group, software, variant};
use crate::load::get;
use crate::processes::{Program, find_program};
use bare::RuntimeApi;

const INSTALL: &str = "scripts/lambda-clients.sh target/lambda";
const GATEWAY: &str = "gateway";
const BARE: &str = "bare";
const AT_ONCE: &str = "at-once";
const INVOCATIONS: u32 = 100;
const FEW_ROUNDS: u32 = 2;
/// What the gateway may add to an invocation.
const MOST_ADDED_MS: f64 = 1.0;
/// What a start and an end usually take, of one and of a hundred.
const USUAL: Duration = Duration::from_millis(300);
const USUAL_AT_ONCE: Duration = Duration::from_secs(6);
/// Until an instance has started, or all of them have answered.
const LIMIT: Duration = Duration::from_secs(120);
/// The environment that a runtime client expects; a gateway sets it for its functions.
const VARIABLES: &str = "AWS_LAMBDA_FUNCTION_NAME=lab AWS_LAMBDA_FUNCTION_VERSION=1 \
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128 AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/lab AWS_LAMBDA_LOG_STREAM_NAME=1 \
    AWS_REGION=us-east-1 _HANDLER=app.handler LAMBDA_TASK_ROOT=\"$PWD\"";

/// Of functions.
#[derive(Clone, Copy)]
struct Language {
    id: &'static str,
    title: &'static str,
    program: &'static str,
    /// The vendor's runtime client, where `scripts/lambda-clients.sh` installs it.
    client: &'static str,
    /// The client as a module of Python; else the program gets its path.
    module: Option<&'static str>,
}

const IN_PYTHON: Language = Language {
    id: "python",
    title: "Python",
    program: PYTHON,
    client: "python/awslambdaric",
    module: Some("-m awslambdaric"),
};
const IN_NODE: Language = Language {
    id: "node",
    title: "Node",
    program: "node",
    client: "node/node_modules/aws-lambda-ric/index.mjs",
    module: None,
};

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Lambda;

impl Experiment for Lambda {
    fn name(&self) -> &'static str {
        "lambda"
    }

    fn title(&self) -> &'static str {
        "Functions of AWS Lambda"
    }

    fn hypothesis(&self) -> &'static str {
        "The gateway adds less than 1 ms to an invocation of a warm function, and a hundred invocations run at once"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let of = |language: Language| Participant {
            name: language.title.into(),
            what: "a function, with its vendor's runtime client".into(),
            missing: language.command(setting).err(),
        };
        [IN_PYTHON, IN_NODE].map(of).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let mut plan = Plan::default();
        let languages: &[Language] = if setting.quick { &[IN_PYTHON] } else { &[IN_PYTHON, IN_NODE] };
        for language in languages {
            let of = |command| Function { command, dir: lab.file(&format!("lab/lambda/{}", language.id)) };
            match language.command(setting).map(of) {
                Ok(function) => {
                    plan.groups.push(warm(&lab, *language, &function));
                    if language.module.is_some() && !setting.quick {
                        plan.groups.push(at_once(&lab, function));
                    }
                }
                Err(missing) => plan.skipped.push(missing),
            }
        }
        if setting.quick {
            plan.skipped.push(Skipped::new(
                "functions in Node, a hundred invocations at once",
                "they take twelve seconds",
                "leave out --quick",
            ));
        }
        Ok(plan)
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.figures = results.groups.iter().map(figure).collect();
    }
}

fn figure(group: &GroupResults) -> Figure {
    if let [only] = &group.variants[..] {
        let measured = only.summary.get(&Metric::Instances).copied();
        let name = format!("{}: instances that have answered", only.title);
        let met = measured.map(|found| found.median >= f64::from(INVOCATIONS));
        return Figure { name, wanted: format!("≥ {INVOCATIONS}"), measured, rounds: Vec::new(), met };
    }
    let added = group.comparisons.iter().find(|asked| asked.metric == Metric::P50Ms).and_then(|asked| asked.value);
    let name = format!("{}: what the gateway adds to an invocation, p50", group.id);
    Figure::at_most(group, Metric::P50Ms, name, (MOST_ADDED_MS, " ms"), added)
}

impl Language {
    /// What a shell starts a function with; or what is missing for it.
    fn command(self, setting: &Setting) -> Result<String, Skipped> {
        let missing = |what: &str, install| {
            Skipped::new(&format!("functions in {}", self.title), &format!("there is no {what}"), install)
        };
        let program = find_program(self.program).ok_or_else(|| missing(self.program, "apt install python3 nodejs"))?;
        let root = setting.peers.as_ref().and_then(|peers| peers.ancestors().nth(2)).unwrap_or(Path::new("."));
        let clients = std::path::absolute(root.join("target/lambda")).unwrap_or_default();
        let client = clients.join(self.client).display().to_string();
        if !Path::new(&client).exists() {
            return Err(missing(&client, INSTALL));
        }
        let (path, program) = (clients.join("python"), program.display());
        let start = self.module.map_or_else(|| format!("'{client}'"), str::to_owned);
        Ok(format!("export PYTHONPATH='{}'; exec {program} {start} app.handler", path.display()))
    }
}

/// What starts it, and where.
#[derive(Clone)]
struct Function {
    command: String,
    dir: String,
}

impl Function {
    /// For a gateway, with these lines.
    fn service(&self, more: &str) -> String {
        let (limit, dir) = (LIMIT.as_secs(), &self.dir);
        let more = format!(
            "transport = \"lambda\"\nlambda.handler = \"app.handler\"\nstart_timeout = \"{limit}s\"\ndir = {dir:?}\n{more}"
        );
        service("function", &["/bin/sh", "-c", &self.command], &more) + &route("/", "function", "false")
    }
}

fn warm(lab: &Rc<Lab>, language: Language, function: &Function) -> Group {
    let of = |id: &str, title: &str, work: fn(&Lab, &Function, Amount) -> anyhow::Result<Sample>| {
        let function = function.clone();
        let mut variant = variant(lab, id, title, USUAL, move |lab, amount| work(lab, &function, amount));
        variant.software.extend(software(language.program));
        variant
    };
    let mut bare = of(BARE, "the barest Runtime API", at_bare_api);
    (bare.role, bare.software) = (Role::Floor, software(language.program));
    let added = |metric: Metric| Question {
        difference: true,
        ..Question::ratio(format!("{}: what the gateway adds", metric.title()), metric, GATEWAY, BARE)
    };
    Group {
        variants: vec![of(GATEWAY, "through the gateway", through_gateway), bare],
        control: GATEWAY.into(),
        questions: [Metric::P50Ms, Metric::CpuUs].map(added).into(),
        amount: lab.amount,
        ..group(
            language.id,
            &format!("{}: an invocation of a warm function", language.title),
            "one caller, one connection; gateway and function on one core, the caller on another; CPU of both".into(),
            &[Metric::P50Ms, Metric::CpuUs],
        )
    }
}

fn through_gateway(lab: &Lab, function: &Function, amount: Amount) -> anyhow::Result<Sample> {
    let gateway = lab.start(&function.service(""))?;
    caller::over_http(lab, amount, &gateway, &get("/"), "\"pid\"", || {
        vec![("gateway", gateway.own_pids()), ("function", gateway.service_pids())]
    })
}

fn at_bare_api(lab: &Lab, function: &Function, amount: Amount) -> anyhow::Result<Sample> {
    let (folder, mut api) = (new_folder(&lab.scratch)?, RuntimeApi::open()?);
    let address = api.listener.local_addr()?;
    let command = format!("export {VARIABLES} AWS_LAMBDA_RUNTIME_API={address}; {}", function.command);
    let program = Program {
        name: "function".into(),
        command: ["/bin/sh", "-c", &command].map(Into::into).into(),
        dir: function.dir.clone().into(),
        output: folder.path().join("output"),
    };
    let held = cores::on(lab.server_core(), || program.start())??;
    let measured = caller::without_gateway(lab, amount, "function", held.pid(), || api.invoke());
    measured.with_context(|| format!("the function printed: {}", held.output()))
}

fn at_once(lab: &Rc<Lab>, function: Function) -> Group {
    let title = format!("{INVOCATIONS} invocations at once");
    let mut variant = variant(lab, AT_ONCE, &title, USUAL_AT_ONCE, move |lab, _| all_run(lab, &function));
    variant.software.extend(software(PYTHON));
    Group {
        variants: vec![variant],
        amount: lab.counted(FEW_ROUNDS),
        ..group(
            AT_ONCE,
            &format!("Python: {title}"),
            "each waits until all run; until the last is answered: with the starts of all, and (slowest) when they run"
                .into(),
            &[Metric::Instances, Metric::ColdMs, Metric::MaxMs],
        )
    }
}

fn all_run(lab: &Lab, function: &Function) -> anyhow::Result<Sample> {
    let limit = format!("\"{}s\"", LIMIT.as_secs());
    let scale = format!("max_instances = {INVOCATIONS}\nscale_up_after = \"1ms\"\nmax_request_time = {limit}");
    let gateway = lab.start_anywhere(&format!("{}response_timeout = {limit}\n", function.service(&scale)))?;
    let (_, cold_ms) = together(&gateway, "cold")?;
    let (instances, warm_ms) = together(&gateway, "warm")?;
    let values = vec![(Metric::Instances, instances as f64), (Metric::ColdMs, cold_ms), (Metric::MaxMs, warm_ms)];
    Ok(Sample { values, requests: u64::from(2 * INVOCATIONS), ..Sample::default() })
}

/// How many instances have answered, and after how many milliseconds the last.
fn together(gateway: &Running, name: &str) -> anyhow::Result<(usize, f64)> {
    let path = format!("/?meet={}&count={INVOCATIONS}", gateway.dir().join(name).display());
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (mut sockets, begin) = (Vec::new(), Instant::now());
    for _ in 0..INVOCATIONS {
        let mut socket = gateway.dial()?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.write_all(request.as_bytes())?;
        sockets.push(socket);
    }
    // Each instance answers with its process id.
    let answers =
        sockets.into_iter().map(|socket| body(Vec::new(), socket)).collect::<anyhow::Result<BTreeSet<_>>>()?;
    ensure!(answers.iter().all(|answer| answer.contains("\"pid\"")), "not the function's: {answers:?}");
    Ok((answers.len(), begin.elapsed().as_secs_f64() * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_skipped_until_its_runtime_client_is_there() {
        let root = tempfile::tempdir().expect("a folder");
        let peers = Some(root.path().join("lab/peers"));
        let setting = Setting { quick: true, scratch: root.path().into(), peers, seed: 1 };
        let skipped = IN_PYTHON.command(&setting).expect_err("nothing is installed");
        assert!(skipped.why.ends_with("target/lambda/python/awslambdaric"), "{}", skipped.why);
        let clients = root.path().join("target/lambda");
        std::fs::create_dir_all(clients.join("python/awslambdaric")).expect("a folder");
        let command = IN_PYTHON.command(&setting).expect("it is there");
        let path = clients.join("python");
        assert_eq!(
            command,
            format!("export PYTHONPATH='{}'; exec {PYTHON} -m awslambdaric app.handler", path.display())
        );
    }
}
