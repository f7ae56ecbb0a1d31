//! The items: what key and value each number has, and by which commands it is written and looked at.

use pilotlight_redis::commands::spec;
use pilotlight_redis::{Command, Pipeline, Value};

use super::arguments::FillArgs;
use super::kind::Kind;
use crate::connection::UsageError;
use crate::load::name::{self, Names};
use crate::load::noise::Noise;

/// All items of a run.
#[derive(Debug)]
pub(crate) struct Items {
    names: Names,
    noise: Noise,
    kind: Kind,
    value_size: usize,
    elements: u64,
    ttl: Option<u64>,
}

/// How an item is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The key is taken not to exist.
    Fresh,
    /// Whatever it has is deleted first.
    Over,
}

impl Items {
    /// # Errors
    /// There are not so many keys of that size, or not so many different members.
    pub(crate) fn new(args: &FillArgs, count: u64, elements: u64) -> Result<Self, UsageError> {
        let value_size = args.value_size as usize;
        let is_member = matches!(args.kind, Kind::Set | Kind::SortedSet);
        if is_member && name::capacity(value_size) < u128::from(elements) {
            let why = format!("--value-size {value_size}: there are not {elements} different members of that size");
            return Err(UsageError(why));
        }
        Ok(Self {
            names: Names::new(&args.key_prefix, args.key_size as usize, count, args.seed)?,
            noise: Noise::new(args.seed, value_size),
            kind: args.kind,
            value_size,
            elements,
            ttl: args.ttl,
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Appends what the commands of an item borrow: its key, the names of its elements.
    pub(crate) fn spell(&self, index: u64, words: &mut Words) {
        words.push(|out| self.names.append(index, out));
        if !self.kind.has_members() {
            return;
        }
        for element in 0..self.elements {
            words.push(|out| match self.kind {
                Kind::Hash => out.extend_from_slice(format!("f{element}").as_bytes()),
                _ => {
                    let width = name::append_number(element, self.value_size, out);
                    out.extend_from_slice(self.noise.value(index, element, self.value_size - width));
                }
            });
        }
    }

    /// Appends the key alone.
    pub(crate) fn spell_key(&self, index: u64, words: &mut Words) {
        words.push(|out| self.names.append(index, out));
    }

    /// Words that [`spell`](Self::spell) appends.
    pub(crate) fn word_count(&self) -> usize {
        if self.kind.has_members() { 1 + self.elements as usize } else { 1 }
    }

    /// Queues the commands that write an item, and says how many they are. `first` is its key among the words.
    pub(crate) fn queue<'a>(
        &'a self,
        pipeline: &mut Pipeline<'a>,
        index: u64,
        words: &'a Words,
        first: usize,
        start: Start,
    ) -> usize {
        let before = pipeline.len();
        let key = words.at(first);
        if start == Start::Over {
            pipeline.queue::<Value>(Command::new(&spec::UNLINK).arg(key));
        }
        let value = |element: u64| self.noise.value(index, element, self.value_size);
        let members = (0..self.elements).map(|element| (element, words.at(first + 1 + element as usize)));
        match self.kind {
            Kind::String => {
                let mut command = Command::new(&spec::SET).arg(key).arg(value(0));
                if let Some(ttl) = self.ttl {
                    command = command.arg("EX").arg(ttl);
                }
                pipeline.queue::<Value>(command);
            }
            Kind::Hash => {
                let command = Command::new(&spec::HSET).arg(key);
                pipeline.queue::<Value>(members.fold(command, |command, (at, name)| command.arg(name).arg(value(at))));
            }
            Kind::List => {
                let command = Command::new(&spec::RPUSH).arg(key);
                pipeline.queue::<Value>((0..self.elements).fold(command, |command, at| command.arg(value(at))));
            }
            Kind::Set => {
                let command = Command::new(&spec::SADD).arg(key);
                pipeline.queue::<Value>(members.fold(command, |command, (_, member)| command.arg(member)));
            }
            Kind::SortedSet => {
                let command = Command::new(&spec::ZADD).arg(key);
                pipeline.queue::<Value>(members.fold(command, |command, (at, member)| command.arg(at).arg(member)));
            }
            Kind::Stream => (0..self.elements).for_each(|at| {
                let id = format!("1-{}", at + 1);
                pipeline.queue::<Value>(Command::new(&spec::XADD).arg(key).arg(id).arg("value").arg(value(at)));
            }),
        }
        if let (Some(ttl), true) = (self.ttl, self.kind != Kind::String) {
            pipeline.queue::<Value>(Command::new(&spec::EXPIRE).arg(key).arg(ttl));
        }
        pipeline.len() - before
    }

    /// Queues the command that tells the length of an item.
    pub(crate) fn queue_length<'a>(&'a self, pipeline: &mut Pipeline<'a>, words: &'a Words, first: usize) {
        pipeline.queue::<Value>(Command::new(self.kind.length()).arg(words.at(first)));
    }

    /// Whether that is its length.
    pub(crate) fn is_length(&self, reply: &Value) -> bool {
        let wanted = if self.kind == Kind::String { self.value_size as u64 } else { self.elements };
        matches!(reply, Value::Integer(length) if u64::try_from(*length) == Ok(wanted))
    }

    /// Queues a command that reads an item back: the whole string, the last element of anything else.
    pub(crate) fn queue_read<'a>(&'a self, pipeline: &mut Pipeline<'a>, words: &'a Words, first: usize) {
        let key = words.at(first);
        let last = if self.kind.has_members() { words.at(first + self.elements as usize) } else { b"" };
        pipeline.queue::<Value>(match self.kind {
            Kind::String => Command::new(&spec::GET).arg(key),
            Kind::Hash => Command::new(&spec::HGET).arg(key).arg(last),
            Kind::List => Command::new(&spec::LINDEX).arg(key).arg(-1_i64),
            Kind::Set => Command::new(&spec::SISMEMBER).arg(key).arg(last),
            Kind::SortedSet => Command::new(&spec::ZSCORE).arg(key).arg(last),
            Kind::Stream => Command::new(&spec::XREVRANGE).arg(key).arg("+").arg("-").arg("COUNT").arg(1_u64),
        });
    }

    /// Whether that is what the item was written with.
    pub(crate) fn is_content(&self, index: u64, reply: &Value) -> bool {
        let last = self.elements - 1;
        let is_value = |bytes: &[u8]| bytes == self.noise.value(index, last, self.value_size);
        match (self.kind, reply) {
            (Kind::String | Kind::Hash | Kind::List, Value::Bulk(bytes)) => is_value(bytes),
            (Kind::Set, Value::Integer(is_there)) => *is_there == 1,
            (Kind::SortedSet, Value::Double(score)) => *score == last as f64,
            (Kind::SortedSet, Value::Bulk(score)) => score.as_ref() == last.to_string().as_bytes(),
            (Kind::Stream, Value::Array(entries)) => match entries.as_slice() {
                [Value::Array(entry)] => match entry.as_slice() {
                    [_, Value::Array(fields)] => {
                        matches!(fields.as_slice(), [_, Value::Bulk(bytes)] if is_value(bytes))
                    }
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        }
    }
}

/// Words that commands borrow, in one piece of memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn at(&self, number: usize) -> &[u8] {
        let end = self.ends.get(number).copied().unwrap_or_default();
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        self.bytes.get(begin..end).unwrap_or_default()
    }
}
