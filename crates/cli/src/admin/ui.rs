//! `pilotlight ui`: the dashboard of a running gateway, served by this process on 127.0.0.1.

use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use pilotlight_dashboard::Dashboard;
use serde_json::json;

use super::arguments::Running;
use super::client::{Client, Failure};
use super::discover;
use super::options::{Effect, Which};
use super::report::Report;
use crate::config::commands::Outcome;

/// For the help of the command.
pub const UI_EXAMPLES: &str = "Examples:
  pilotlight ui                   prints a link that opens the dashboard, once
  pilotlight ui --open            opens it in the browser
  pilotlight ui --port 9180       on a port that is the same each time, for a tunnel: ssh -L 9180:127.0.0.1:9180 HOST";

/// How the dashboard is offered.
#[derive(Args, Debug)]
pub struct UiArguments {
    /// The port on 127.0.0.1 [default: a free one]
    #[arg(long, default_value = "0", hide_default_value = true)]
    port: u16,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    gateway: Running,
}

#[derive(Clone, Copy)]
struct Offer {
    /// The port on 127.0.0.1; 0: a free one.
    port: u16,
    link: Link,
}

/// What becomes of the link besides that it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Printed,
    Opened,
}

/// `pilotlight ui`. Returns only when it is interrupted, or cannot be served.
///
/// # Errors
/// Only if the output cannot be written.
pub fn ui(UiArguments { port, open, gateway }: UiArguments) -> io::Result<Outcome> {
    let offer = Offer { port, link: if open { Link::Opened } else { Link::Printed } };
    let which = gateway.clone().which();
    gateway.run(Effect::Reads, |client, report, out| serve(client, &which, offer, report, out))
}

fn serve(
    client: &Client,
    which: &Which,
    Offer { port, link }: Offer,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let refused = |cause: io::Error| Failure::Refused {
        status: 409,
        detail: format!("the dashboard cannot be served on 127.0.0.1:{port}: {cause}; choose another port with --port"),
    };
    let dashboard = Dashboard::bind(port, connect(client.clone(), which.clone())).map_err(refused)?;
    let links = dashboard.links();
    let url = links()?;
    match report {
        Report::Json => writeln!(out, "{}", json!({ "url": url, "gateway": client.gateway().to_json() }))?,
        Report::Text => writeln!(
            out,
            "The dashboard of {}, for as long as this command runs (end it with Ctrl-C):\n\n  {url}\n\n\
             The link opens once, within five minutes. The Enter key prints another one.",
            client.gateway()
        )?,
    }
    out.flush()?;
    if link == Link::Opened {
        open(&url)?;
    }
    if io::stdin().is_terminal() {
        std::thread::Builder::new().name("links".into()).spawn(move || more(links))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(dashboard.serve())? {}
}

/// Another link for each line that is typed.
fn more(links: impl Fn() -> io::Result<String>) {
    for _ in io::stdin().lock().lines().map_while(Result::ok) {
        // Nobody is left to be told if this fails.
        let _ = links().and_then(|url| writeln!(io::stdout(), "  {url}"));
    }
}

/// Where the gateway is; found again when it has been started anew.
fn connect(client: Client, which: Which) -> Arc<pilotlight_dashboard::Connect> {
    let known = Mutex::new(client);
    Arc::new(move || {
        let client = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.connect().or_else(|gone| again(&which, &known).unwrap_or(Err(gone)))
    })
}

fn again(which: &Which, known: &Mutex<Client>) -> Option<io::Result<UnixStream>> {
    if matches!(which, Which::Socket(_)) {
        return None; // it is there, or it is not
    }
    let found = discover::find(which, Effect::Reads).ok()?.client;
    let stream = found.connect();
    *known.lock().unwrap_or_else(PoisonError::into_inner) = found;
    Some(stream)
}

/// Has the user's browser open it.
fn open(url: &str) -> Result<(), Failure> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = Stdio::null;
    let done = Command::new(program).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    let why = match done {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(e) => e.to_string(),
    };
    writeln!(io::stderr(), "{program} could not open a browser ({why}): open the link by hand")?;
    Ok(())
}
