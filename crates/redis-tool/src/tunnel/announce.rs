//! Tells people, or a program, where the tunnel listens.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use serde::Serialize;

use super::arguments::TunnelArgs;

/// Where one port leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) node: String,
    pub(super) local: SocketAddr,
}

/// Tells where it listens.
pub(super) fn announce(args: &TunnelArgs, opened: &[Opened]) -> anyhow::Result<()> {
    if !args.bind.is_loopback() && args.require_password.is_none() {
        eprintln!("tunnel: warning: {} is open to other machines, without a password (--require-password)", args.bind);
    }
    let mut out = std::io::stdout().lock();
    let is_for_people = std::io::stdout().is_terminal() && !args.json;
    if args.json {
        writeln!(out, "{}", Listening::line(opened)?)?;
    } else {
        let width = opened.iter().map(|it| it.local.to_string().len()).max().unwrap_or(0);
        for Opened { node, local } in opened {
            writeln!(out, "{:width$}  {node}", local.to_string())?;
        }
    }
    out.flush()?;
    if is_for_people {
        eprintln!("tunnel: Ctrl-C ends it");
    }
    Ok(())
}

/// Where it listens, as a line of JSON.
#[derive(Serialize)]
struct Listening<'a> {
    listening: Vec<Port<'a>>,
}

#[derive(Serialize)]
struct Port<'a> {
    node: &'a str,
    local: SocketAddr,
}

impl<'a> Listening<'a> {
    fn line(opened: &'a [Opened]) -> serde_json::Result<String> {
        let listening = opened.iter().map(|it| Port { node: &it.node, local: it.local }).collect();
        serde_json::to_string(&Self { listening })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_json_is_json_whatever_a_node_is_called() {
        let node = "unix:///tmp/\"a\\b\u{1}\u{1b}[31m\n.sock".to_owned();
        let local = SocketAddr::from(([127, 0, 0, 1], 7));
        let opened = [Opened { node: node.clone(), local }];
        let line = Listening::line(&opened).unwrap();
        assert!(line.starts_with("{\"listening\":[{\"node\":"), "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["listening"][0]["node"], node.as_str());
        assert_eq!(parsed["listening"][0]["local"], "127.0.0.1:7");
    }
}
