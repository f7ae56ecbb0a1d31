//! `pilotlight redis cli`: a prompt, one command, commands from the standard input, and looks at whole servers.

mod arguments;
mod command_rules;
mod commands;
mod confirm;
mod everywhere;
mod format;
mod hints;
mod instead;
mod keys;
mod latency;
mod oneshot;
mod output;
mod pipe;
mod profile;
mod prompt;
mod rdb;
mod scan;
mod secrets;
mod session;
mod stat;
mod task;
mod verbose;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use pilotlight_redis::Config;
use pilotlight_redis::config::{ProtocolChoice, WhenDown};

pub use arguments::CliArgs;

use crate::connection::UsageError;
use format::{Format, Style};
use output::Output;
use session::Session;
use task::{Question, Task};

/// Does it.
///
/// # Errors
/// The server cannot be reached, refuses, or the arguments make no sense ([`UsageError`]).
pub fn run(mut arguments: CliArgs) -> anyhow::Result<ExitCode> {
    arguments.check()?;
    if arguments.instead.socket_path.is_some() {
        arguments.connection.socket = arguments.instead.socket_path.take();
    }
    let file = profile::File::load()?;
    let profile = file.apply(&mut arguments)?;
    if is_visible(&arguments) {
        eprintln!(
            "Warning: others may see the password of -a in the list of processes: REDISCLI_AUTH and --askpass hide it; --no-auth-warning silences this."
        );
    }
    let _verbose = arguments.output.verbose.then(verbose::start);
    let style = style(&arguments);
    let config = config(&arguments, style.format)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut output = Output::new(style, arguments.output.exit_on_error);
    if let Some(shows_pushes) = arguments.output.show_pushes {
        output.set_shows_pushes(shows_pushes);
    }
    let done = runtime.block_on(work(&arguments, config, output, &profile));
    // The editor's thread may still wait for the terminal.
    runtime.shutdown_background();
    match done {
        // Nobody reads any more: `… | head`.
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done,
    }
}

async fn work(
    arguments: &CliArgs,
    config: Config,
    mut output: Output,
    profile: &profile::Profile,
) -> anyhow::Result<ExitCode> {
    let timeout = config.connect_timeout;
    let mut session = Session::new(config).map_err(|error| UsageError(error.to_string()))?;
    let task = arguments.task();
    if matches!(task, Task::Pipe | Task::Scan | Task::Keys(_) | Task::KeyStats | Task::Stat | Task::Latency(_)) {
        oneshot::connect(&mut session).await?;
    }
    match task {
        Task::Pipe => pipe::run(&mut session, Duration::from_secs(arguments.input.pipe_timeout)).await,
        Task::Scan => scan::run(&session, arguments, &mut output).await,
        Task::Keys(question) => keys::run(&session, question, arguments, &mut output).await.map(ExitCode::from),
        Task::KeyStats => {
            let sizes = keys::run(&session, Question::Big, arguments, &mut output).await?;
            if sizes == keys::Ended::Interrupted {
                return Ok(sizes.into());
            }
            let memory = keys::run(&session, Question::Memory, arguments, &mut output).await?;
            Ok(if sizes == keys::Ended::Whole { memory } else { sizes }.into())
        }
        Task::Stat => stat::run(&session, arguments, &mut output).await,
        Task::Latency(kind) => latency::run(&mut session, kind, arguments, &mut output).await,
        Task::Snapshot(content, path) => rdb::run(&mut session, content, path).await,
        Task::IntrinsicLatency(seconds) => latency::intrinsic(seconds, &mut output),
        Task::Eval(file) => oneshot::eval(&mut session, file, arguments, &mut output).await,
        Task::Command => oneshot::command(&mut session, arguments, &mut output).await,
        Task::Lines if !io::stdin().is_terminal() => oneshot::lines(&mut session, &mut output).await,
        Task::Lines => {
            let is_chosen = arguments.output.resp2 || arguments.output.resp3 || arguments.connection.protocol.is_some();
            prompt::run(session, output, profile, timeout, is_chosen).await
        }
    }
}

/// Whether the command line shows a password that the environment does not give.
fn is_visible(arguments: &CliArgs) -> bool {
    let password = arguments.connection.password.as_ref().filter(|_| !arguments.output.no_auth_warning);
    password.is_some_and(|password| std::env::var_os("REDISCLI_AUTH").is_none_or(|it| it != password.as_str()))
}

fn style(arguments: &CliArgs) -> Style {
    let chosen = &arguments.output;
    let format = match () {
        () if chosen.json => Format::Json,
        () if chosen.quoted_json => Format::QuotedJson,
        () if chosen.csv => Format::Csv,
        () if chosen.table => Format::Table,
        () if chosen.raw => Format::Raw,
        () if chosen.no_raw || io::stdout().is_terminal() => Format::Human,
        () => Format::Raw,
    };
    let mut style = Style::new(format);
    if let Some(delimiter) = &chosen.element_delimiter {
        style.element_delimiter = delimiter.clone().into_bytes();
    }
    if let Some(delimiter) = &chosen.reply_delimiter {
        style.reply_delimiter = delimiter.clone().into_bytes();
    }
    style
}

fn config(arguments: &CliArgs, format: Format) -> anyhow::Result<Config> {
    let mut config = arguments.connection.config()?;
    if let Some(database) = arguments.input.database {
        config.database = database;
    }
    // As `redis-cli` does: the older protocol, whose replies people know, unless maps and types are needed.
    let needs_types = matches!(format, Format::Json | Format::QuotedJson | Format::Table);
    let usual = if needs_types { ProtocolChoice::Auto } else { ProtocolChoice::Resp2 };
    let output = &arguments.output;
    config.protocol = match (output.resp2, output.resp3, config.protocol) {
        (true, ..) => ProtocolChoice::Resp2,
        (_, true, _) => ProtocolChoice::Resp3,
        (_, _, ProtocolChoice::Auto) => usual,
        (.., chosen) => chosen,
    };
    config.when_down = WhenDown::FailFast;
    config.command_timeout = Some(arguments.input.timeout);
    Ok(config)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
