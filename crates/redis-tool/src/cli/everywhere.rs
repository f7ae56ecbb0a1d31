//! `ON ALL …`, `ON PRIMARIES …`, `ON NODE address …`: a command at certain nodes, each answer by itself.

use pilotlight_redis::Route;
use pilotlight_redis::config::NodeAddress;
use pilotlight_resp::Value;

use super::command_rules::is_endless;
use super::format::{Format, json, table};
use super::output::{Ended, Output, value_of};
use super::session::{Failure, Session};

/// Port of an address without one.
const DEFAULT_PORT: u16 = 6379;

/// A command, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Everywhere<'w> {
    route: Route,
    /// The command.
    pub(super) words: &'w [Vec<u8>],
}

/// Reads `ON …`; `None`: it is another command.
pub(super) fn parse(words: &[Vec<u8>]) -> Result<Option<Everywhere<'_>>, Failure> {
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    if !is(0, "ON") {
        return Ok(None);
    }
    let (route, command) = match words.get(1..).unwrap_or_default() {
        [_, rest @ ..] if is(1, "ALL") => (Route::AllNodes, rest),
        [_, rest @ ..] if is(1, "PRIMARIES") => (Route::AllPrimaries, rest),
        [_, address, rest @ ..] if is(1, "NODE") => {
            let text = String::from_utf8_lossy(address);
            let node = NodeAddress::parse(&text, DEFAULT_PORT);
            (Route::Node(node.map_err(|error| Failure::Client(format!("ON NODE {text}: {error}")))?), rest)
        }
        _ => (Route::Any, &[][..]),
    };
    if command.is_empty() {
        let usage = "ON ALL command…, ON PRIMARIES command… or ON NODE host:port command…";
        return Err(Failure::Client(format!("ON: {usage}")));
    }
    Ok(Some(Everywhere { route, words: command }))
}

/// Runs it and prints the answers.
pub(super) async fn run(
    session: &mut Session,
    everywhere: &Everywhere<'_>,
    output: &mut Output,
) -> anyhow::Result<Ended> {
    let words = everywhere.words;
    if is_endless(words) {
        let mut wire = session.listen(words, Some(everywhere.route.clone())).await?;
        loop {
            let frame = wire.frame().await.map_err(|error| Failure::Lost(error.to_string()))?;
            output.reply(&value_of(frame), &[])?;
        }
    }
    let mut answers = session.run_on(everywhere.route.clone(), words).await?;
    answers.sort_by(|(first, _), (second, _)| first.cmp(second));
    // What the client says is an answer, too: other nodes have answered.
    let as_value = |failure: Failure| Value::Error(failure.to_string().into());
    let answers: Vec<_> = answers.into_iter().map(|(node, reply)| (node, reply.unwrap_or_else(as_value))).collect();
    let has_failed = answers.iter().any(|(_, reply)| matches!(reply, Value::Error(_)));
    output.bytes(&text(&answers, words, output))?;
    Ok(if has_failed && output.exits_on_error() { Ended::ByError } else { Ended::No })
}

fn text(answers: &[(String, Value)], words: &[Vec<u8>], output: &Output) -> Vec<u8> {
    let strings = match output.format() {
        Format::Json => json::Strings::Utf8,
        Format::QuotedJson => json::Strings::Quoted,
        Format::Table => return table_text(answers).into_bytes(),
        Format::Human | Format::Raw | Format::Csv => {
            let mut out = Vec::new();
            for (node, reply) in answers {
                let end = if output.format() == Format::Csv { "," } else { ":\n" };
                out.extend_from_slice(node.as_bytes());
                out.extend_from_slice(end.as_bytes());
                out.extend_from_slice(&output.style().reply(reply, words));
            }
            return out;
        }
    };
    let mut out = String::from("[");
    for (index, (node, reply)) in answers.iter().enumerate() {
        out.push_str(if index > 0 { ",{\"node\":" } else { "{\"node\":" });
        json::string(&mut out, node.as_bytes(), strings);
        out.push_str(",\"reply\":");
        out.push_str(&json::text(reply, strings));
        out.push('}');
    }
    out.push_str("]\n");
    out.into_bytes()
}

fn table_text(answers: &[(String, Value)]) -> String {
    let cell = |reply: &Value| match reply {
        Value::Simple(text) | Value::Bulk(text) => String::from_utf8_lossy(text).trim_end().replace("\r\n", " "),
        other => json::text(other, json::Strings::Utf8),
    };
    let rows = answers.iter().map(|(node, reply)| vec![node.clone(), cell(reply)]).collect();
    table::aligned(&["node".to_owned(), "reply".to_owned()], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split_bytes;

    #[test]
    fn nodes_are_named_before_the_command() {
        let words = |line: &str| split_bytes(line.as_bytes()).unwrap();
        let route = |line: &str| parse(&words(line)).map(|found| found.map(|found| (found.route, found.words.len())));
        assert_eq!(route("get on").unwrap(), None);
        assert_eq!(route("on all ping").unwrap(), Some((Route::AllNodes, 1)));
        assert_eq!(route("ON Primaries config get save").unwrap(), Some((Route::AllPrimaries, 3)));
        let node = Route::Node(NodeAddress::tcp("h", 7000));
        assert_eq!(route("on node h:7000 ping").unwrap(), Some((node, 1)));
        for wrong in ["on", "on all", "on node h", "on somewhere ping", "on node h:99999 x"] {
            assert!(route(wrong).is_err(), "{wrong}");
        }
    }
}
