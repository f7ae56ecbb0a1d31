//! Redirects: `MOVED`, `ASK` (Redis Cluster specification, "Redirection and resharding") and Valkey's `REDIRECT`.

use super::asked::Asked;
use super::slot::Slot;
use crate::config::NodeAddress;
use crate::error::ServerError;

/// Where a server says a command belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// For how long, and for what.
    pub kind: RedirectKind,
    /// The node as it is announced: its identity.
    pub announced: NodeAddress,
    /// Where to dial it.
    pub address: NodeAddress,
}

/// What a redirect is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    /// From now on, the slot is there.
    Moved(Slot),
    /// This once, after `ASKING`: the slot is on its way there.
    Ask(Slot),
    /// The whole server has a new primary (Valkey 8, after `CLIENT CAPA redirect`).
    Primary,
}

/// A redirect that cannot be followed as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redirect {text:?}: {problem}")]
pub(crate) struct RedirectError {
    /// The whole error text.
    pub text: Box<str>,
    /// What is wrong with it.
    pub problem: RedirectProblem,
}

/// What is wrong with a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RedirectProblem {
    /// Words are missing.
    #[error("words are missing")]
    Incomplete,
    /// The slot is not a number below 16384.
    #[error("the slot is not a number below 16384")]
    Slot,
    /// There is no colon before the port, or the port is no number.
    #[error("the address is not host:port")]
    Address,
    /// `?`: a node without the host name that it should announce.
    #[error("the node does not announce its host name")]
    UnknownHost,
    /// More text than a redirect has.
    #[error("there is text after the address")]
    Trailing,
}

impl Redirect {
    /// Reads an error of `asked` as a redirect; `None` if it is another error.
    ///
    /// # Errors
    /// It is a redirect but cannot be read.
    pub(crate) fn detect(error: &ServerError, asked: &Asked<'_>) -> Result<Option<Self>, RedirectError> {
        let words = error.text().get(error.code().len() + 1..).unwrap_or_default();
        let parsed = match error.code() {
            "MOVED" => slot_and_address(words).map(|(slot, at)| (RedirectKind::Moved(slot), at)),
            "ASK" => slot_and_address(words).map(|(slot, at)| (RedirectKind::Ask(slot), at)),
            "REDIRECT" => only_address(words).map(|at| (RedirectKind::Primary, at)),
            _ => return Ok(None),
        };
        match parsed {
            Ok((kind, (host, port))) => {
                let announced = asked.announced(host, port);
                let address = asked.dialled(&announced);
                Ok(Some(Self { kind, announced, address }))
            }
            Err(problem) => Err(RedirectError { text: error.text().into(), problem }),
        }
    }

    /// Whether `ASKING` has to go before the command.
    #[must_use]
    pub(crate) fn asking(&self) -> bool {
        matches!(self.kind, RedirectKind::Ask(_))
    }

    /// The slot whose owner it states, to be patched in the topology.
    #[must_use]
    pub(crate) fn moved(&self) -> Option<Slot> {
        match self.kind {
            RedirectKind::Moved(slot) => Some(slot),
            RedirectKind::Ask(_) | RedirectKind::Primary => None,
        }
    }
}

type HostAndPort<'t> = (Option<&'t str>, u16);

fn slot_and_address(words: &str) -> Result<(Slot, HostAndPort<'_>), RedirectProblem> {
    let (slot, address) = words.split_once(' ').ok_or(RedirectProblem::Incomplete)?;
    let slot = decimal(slot).and_then(Slot::new).ok_or(RedirectProblem::Slot)?;
    Ok((slot, only_address(address)?))
}

fn only_address(text: &str) -> Result<HostAndPort<'_>, RedirectProblem> {
    if text.is_empty() {
        return Err(RedirectProblem::Incomplete);
    }
    if text.contains(' ') {
        return Err(RedirectProblem::Trailing);
    }
    // The last colon: IPv6 addresses come without brackets (`::1:6381`).
    let (host, port) = text.rsplit_once(':').ok_or(RedirectProblem::Address)?;
    let port = decimal(port).ok_or(RedirectProblem::Address)?;
    match host {
        "?" => Err(RedirectProblem::UnknownHost),
        "" => Ok((None, port)),
        host => Ok((Some(host), port)),
    }
}

/// Digits only: `u16::from_str` takes a sign, too.
fn decimal(text: &str) -> Option<u16> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
