//! A scan as text: `1|visited|id|host:port|run id|cursor|claim`, where the last five are empty between two nodes.

use std::fmt;
use std::str::FromStr;

use super::error::TokenError;
use super::{ClusterScan, Current, Phase};
use crate::config::NodeAddress;
use crate::proto::slot_set::SlotSet;

const VERSION: &str = "1";

/// The node was scanned to its end.
const END: &str = "end";

impl fmt::Display for ClusterScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}|{}|", self.visited)?;
        let Some(current) = &self.current else { return f.write_str("||||") };
        write!(f, "{}|{}|{}|", current.id, current.announced, current.run_id)?;
        match current.cursor {
            Some(cursor) => write!(f, "{cursor}|{}", current.claim),
            None => write!(f, "{END}|{}", current.claim),
        }
    }
}

/// Goes on with a survey: the cluster may have changed meanwhile.
impl FromStr for ClusterScan {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let fields: Vec<&str> = text.split('|').collect();
        let [version, visited, id, announced, run_id, cursor, claim] = fields[..] else {
            return Err(TokenError("it does not have seven fields"));
        };
        if version != VERSION {
            return Err(TokenError("it is of another version"));
        }
        let slots = |text: &str| text.parse::<SlotSet>().map_err(|_| TokenError("a set of slots is malformed"));
        let current = if announced.is_empty() {
            None
        } else {
            Some(Current {
                id: id.into(),
                announced: announced.parse::<NodeAddress>().map_err(|_| TokenError("the address is malformed"))?,
                run_id: run_id.into(),
                cursor: match cursor {
                    END => None,
                    cursor => Some(cursor.parse().map_err(|_| TokenError::CURSOR)?),
                },
                claim: slots(claim)?,
            })
        };
        Ok(Self { visited: slots(visited)?, current, phase: Phase::Survey })
    }
}
