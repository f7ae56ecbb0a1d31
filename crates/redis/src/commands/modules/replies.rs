//! Replies of modules, in the forms of both protocols.

use bytes::Bytes;
use pilotlight_resp::Value;

use crate::error::ReplyError;
use crate::reply::{FromReply, mismatch};

/// A sample of a time series: Unix time in milliseconds, and the value.
pub type Sample = (i64, f64);

/// What `FT.SEARCH` found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// How many documents match, also of those that are not here.
    pub total: i64,
    /// The documents, in order.
    pub documents: Vec<Document>,
}

/// A document that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its key.
    pub id: Bytes,
    /// Its score, with `WITHSCORES`. With `NOCONTENT` RESP2 does not tell scores from documents: read such a reply as a
    /// [`Value`].
    pub score: Option<f64>,
    /// Its fields; of a JSON document `$` is the whole.
    pub fields: Vec<(Bytes, Value)>,
}

/// What `FT.AGGREGATE` and `FT.CURSOR READ` give.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregated {
    /// The rows, each by name.
    pub rows: Vec<Vec<(Bytes, Value)>>,
    /// Where to read on, with `WITHCURSOR`; 0: that was all.
    pub cursor: Option<u64>,
}

/// Samples of one of several time series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its key; with `GROUPBY` the group, `label=value`.
    pub key: Bytes,
    /// Its labels, if they were asked for.
    pub labels: Vec<(Bytes, Option<Bytes>)>,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// An element that is like what was searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Similar {
    /// The element.
    pub element: Bytes,
    /// How similar it is: 1 is the same direction, 0 the opposite.
    pub score: f64,
    /// Its attributes, as JSON.
    pub attributes: Option<Bytes>,
}

impl FromReply for Found {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Map(facts) => {
                let [total, results] = values(facts, ["total_results", "results"]);
                let documents =
                    Vec::<Value>::from_reply(results)?.into_iter().map(document).collect::<Result<_, _>>()?;
                Ok(Self { total: FromReply::from_reply(total)?, documents })
            }
            Value::Array(words) => {
                let mut words = words.into_iter();
                let total = i64::from_reply(words.next().unwrap_or(Value::Null))?;
                Ok(Self { total, documents: documents(words.collect())? })
            }
            other => Err(mismatch("what a search found", &other)),
        }
    }
}

/// A document of RESP3.
fn document(value: Value) -> Result<Document, ReplyError> {
    let Value::Map(facts) = value else { return Err(mismatch("a document", &value)) };
    let [id, score, fields] = values(facts, ["id", "score", "extra_attributes"]);
    Ok(Document {
        id: FromReply::from_reply(id)?,
        score: FromReply::from_reply(score)?,
        fields: Option::<Vec<_>>::from_reply(fields)?.unwrap_or_default(),
    })
}

/// Documents of RESP2: for each its id, what else was asked for, and its fields in an array; or nothing but ids.
fn documents(words: Vec<Value>) -> Result<Vec<Document>, ReplyError> {
    let has_content = words.iter().any(|word| matches!(word, Value::Array(_)));
    let mut found = Vec::new();
    let mut words = words.into_iter();
    while let Some(id) = words.next() {
        let mut document = Document { id: FromReply::from_reply(id)?, score: None, fields: Vec::new() };
        while has_content && let Some(word) = words.next() {
            if let Value::Array(_) = word {
                document.fields = FromReply::from_reply(word)?;
                break;
            }
            document.score = document.score.or_else(|| f64::from_reply(word).ok());
        }
        found.push(document);
    }
    Ok(found)
}

impl FromReply for Aggregated {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Map(facts) => {
                let [results] = values(facts, ["results"]);
                let rows = Vec::<Value>::from_reply(results)?.into_iter().map(row).collect::<Result<_, _>>()?;
                Ok(Self { rows, cursor: None })
            }
            Value::Array(mut parts) => {
                // With a cursor: the reply without one, and the cursor.
                if let [Value::Array(_) | Value::Map(_), Value::Integer(cursor)] = parts[..] {
                    let inner = Self::from_reply(parts.swap_remove(0))?;
                    return Ok(Self { cursor: Some(cursor.unsigned_abs()), ..inner });
                }
                // The first is a number that says nothing.
                let rows = parts.into_iter().skip(1).map(FromReply::from_reply).collect::<Result<_, _>>()?;
                Ok(Self { rows, cursor: None })
            }
            other => Err(mismatch("rows", &other)),
        }
    }
}

/// A row of RESP3.
fn row(value: Value) -> Result<Vec<(Bytes, Value)>, ReplyError> {
    let Value::Map(facts) = value else { return Err(mismatch("a row", &value)) };
    let [fields] = values(facts, ["extra_attributes"]);
    FromReply::from_reply(fields)
}

impl FromReply for Series {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let mut parts = Vec::<Value>::from_reply(value)?;
        let key = if parts.is_empty() { Value::Null } else { parts.remove(0) };
        series(key, parts)
    }

    // With RESP3, all series are one map.
    fn from_elements(elements: Vec<Value>) -> Result<Vec<Self>, ReplyError> {
        if matches!(elements.first(), None | Some(Value::Array(_))) {
            return elements.into_iter().map(Self::from_reply).collect();
        }
        let pairs: Vec<(Value, Vec<Value>)> = FromReply::from_elements(elements)?;
        pairs.into_iter().map(|(key, parts)| series(key, parts)).collect()
    }
}

/// Labels come first and samples last; what RESP3 has between them are names of aggregations.
fn series(key: Value, mut parts: Vec<Value>) -> Result<Series, ReplyError> {
    let samples = parts.pop().unwrap_or(Value::Null);
    let labels = parts.into_iter().next().unwrap_or(Value::Null);
    Ok(Series {
        key: FromReply::from_reply(key)?,
        labels: FromReply::from_reply(labels)?,
        samples: FromReply::from_reply(samples)?,
    })
}

impl FromReply for Similar {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let (element, score, attributes) = FromReply::from_reply(value)?;
        Ok(Self { element, score, attributes })
    }

    // RESP2: a flat array of threes; RESP3: a map from the element to the other two.
    fn from_elements(elements: Vec<Value>) -> Result<Vec<Self>, ReplyError> {
        let rows: Vec<(Bytes, f64, Option<Bytes>)> = match elements.get(1) {
            Some(Value::Array(_)) => {
                let pairs: Vec<(Bytes, (f64, Option<Bytes>))> = FromReply::from_elements(elements)?;
                pairs.into_iter().map(|(element, (score, attributes))| (element, score, attributes)).collect()
            }
            _ => FromReply::from_elements(elements)?,
        };
        Ok(rows.into_iter().map(|(element, score, attributes)| Self { element, score, attributes }).collect())
    }
}

/// The values of a map by their names; what is not there is null.
fn values<const N: usize>(facts: Vec<(Value, Value)>, names: [&str; N]) -> [Value; N] {
    let mut found = [const { Value::Null }; N];
    for (name, value) in facts {
        if let Value::Simple(name) | Value::Bulk(name) = &name
            && let Some(at) = names.iter().position(|wanted| name == wanted)
        {
            found[at] = value;
        }
    }
    found
}
