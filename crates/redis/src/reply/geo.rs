//! Replies of geographical commands.

use bytes::Bytes;

use super::collections::elements;
use super::read::{FromReply, wrong_length};
use crate::error::ReplyError;
use pilotlight_resp::Value;

/// A position in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoPosition {
    /// East is positive.
    pub longitude: f64,
    /// North is positive.
    pub latitude: f64,
}

impl FromReply for GeoPosition {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let (longitude, latitude) = FromReply::from_reply(value)?;
        Ok(Self { longitude, latitude })
    }
}

/// A member that a search found, with what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct GeoFound {
    /// The member.
    pub member: Bytes,
    /// Its distance from the centre in the unit of the search (`WITHDIST`).
    pub distance: Option<f64>,
    /// Its geohash as an integer (`WITHHASH`).
    pub hash: Option<i64>,
    /// Its position (`WITHCOORD`).
    pub position: Option<GeoPosition>,
}

/// The parts are told apart by their types.
impl FromReply for GeoFound {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let mut parts = match value {
            Value::Array(_) => elements(value, "an array")?.into_iter(),
            member => vec![member].into_iter(),
        };
        let member = parts.next().ok_or_else(|| wrong_length("a member and what is known about it"))?;
        let mut found = Self { member: Bytes::from_reply(member)?, distance: None, hash: None, position: None };
        for part in parts {
            match part {
                Value::Array(_) => found.position = Some(GeoPosition::from_reply(part)?),
                Value::Integer(hash) => found.hash = Some(hash),
                distance => found.distance = Some(f64::from_reply(distance)?),
            }
        }
        Ok(found)
    }
}
