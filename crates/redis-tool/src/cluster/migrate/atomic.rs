//! `CLUSTER MIGRATESLOTS` (Valkey 9): the source sends the slots as it would send them to a replica, with all
//! databases, and hands them over at once. Until then nothing has changed, and a migration that fails leaves the slots
//! in place.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use pilotlight_redis::{Command, Slot, SlotSet, Value};

use crate::cluster::nodes::Node;

/// Time between two looks at a migration.
const EVERY: Duration = Duration::from_millis(20);

/// How the migration of some slots has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Moved,
    /// These servers cannot do it for these slots or this user. Nothing has changed.
    Impossible,
}

/// Whether the source may know `CLUSTER MIGRATESLOTS`, and the user may use it.
pub(super) async fn is_available(source: &Node) -> anyhow::Result<bool> {
    Ok(migrations(source).await?.is_some())
}

/// Moves slots, and returns when they have moved.
///
/// # Errors
/// The migration has failed, with the server's reason, or the source does not answer.
pub(super) async fn move_slots(source: &Node, target: &Node, slots: &SlotSet) -> anyhow::Result<Outcome> {
    let Some(before) = migrations(source).await? else { return Ok(Outcome::Impossible) };
    let mut command = Command::raw("CLUSTER MIGRATESLOTS").arg("SLOTSRANGE");
    for (first, last) in ranges(slots) {
        command = command.args([u32::from(first), u32::from(last)]);
    }
    if let Err(error) = source.run::<()>(command.arg("NODE").arg(target.member.id.clone())).await {
        // A target of an older version, a slot that is half moved by MIGRATE, a user without the right.
        let is_refused = error.downcast_ref::<pilotlight_redis::Error>().is_some_and(|error| error.server().is_some());
        return if is_refused { Ok(Outcome::Impossible) } else { Err(error) };
    }
    let known: Vec<&str> = before.iter().map(|one| one.name.as_str()).collect();
    loop {
        let all = migrations(source).await?.unwrap_or_default();
        let ours = all.into_iter().find(|one| one.is_to(target) && !known.contains(&one.name.as_str()));
        let Some(ours) = ours else { bail!("{} has forgotten the migration that it began", source.name()) };
        match ours.state.as_str() {
            "success" => return Ok(Outcome::Moved),
            // The source logs in as a replica would; MIGRATE logs in with the user's own password.
            "failed" if ours.message.contains("handshake") => return Ok(Outcome::Impossible),
            "failed" | "cancelled" => bail!("{}: the migration was {}: {}", source.name(), ours.state, ours.message),
            _ => tokio::time::sleep(EVERY).await,
        }
    }
}

/// One line of `CLUSTER GETSLOTMIGRATIONS`.
struct Migration {
    name: String,
    is_export: bool,
    target: String,
    state: String,
    message: String,
}

impl Migration {
    fn is_to(&self, target: &Node) -> bool {
        self.is_export && self.target == target.member.id
    }
}

/// `None` where the server does not know such migrations, or the user may not look at them.
async fn migrations(node: &Node) -> anyhow::Result<Option<Vec<Migration>>> {
    let all = match node.run::<Vec<BTreeMap<String, Value>>>(Command::raw("CLUSTER GETSLOTMIGRATIONS")).await {
        Ok(all) => all,
        Err(error) => {
            let is_refused =
                error.downcast_ref::<pilotlight_redis::Error>().is_some_and(|error| error.server().is_some());
            return if is_refused { Ok(None) } else { Err(error) };
        }
    };
    let migration = |facts: &BTreeMap<String, Value>| {
        let text = |name: &str| match facts.get(name) {
            Some(Value::Bulk(text) | Value::Simple(text) | Value::Verbatim { text, .. }) => {
                String::from_utf8_lossy(text).into_owned()
            }
            _ => String::new(),
        };
        Migration {
            name: text("name"),
            is_export: text("operation") == "EXPORT",
            target: text("target_node"),
            state: text("state"),
            message: text("message"),
        }
    };
    Ok(Some(all.iter().map(migration).collect()))
}

fn ranges(slots: &SlotSet) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for number in slots.iter().map(Slot::number) {
        match ranges.last_mut() {
            Some((_, last)) if number - *last == 1 => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        let slots: SlotSet = "0-2,7,9-10".parse().unwrap();
        assert_eq!(ranges(&slots), [(0, 2), (7, 7), (9, 10)]);
    }
}
