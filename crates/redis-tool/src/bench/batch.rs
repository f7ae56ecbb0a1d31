//! One batch: its commands drawn, sent, and their replies judged.

use std::sync::Arc;

use pilotlight_redis::command::CommandSpec;
use pilotlight_redis::commands::{Commands, spec};
use pilotlight_redis::{Client, Command, Error, Value};

use super::operation::Operation;
use super::plan::{Plan, append_digits};
use super::template::Piece;
use crate::load::distribution::Draw;
use crate::load::fault::Faults;
use crate::load::random::Random;

/// Draws and sends batches of one worker. Keys lie in one piece of memory that is used again.
pub(crate) struct Batch {
    plan: Arc<Plan>,
    random: Random,
    draw: Draw,
    words: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<Kind>,
}

/// A command that was drawn.
#[derive(Clone, Copy)]
enum Kind {
    Get,
    /// With the value of this number.
    Set(u64),
    Template,
}

impl Batch {
    pub(crate) fn new(plan: &Arc<Plan>, worker: u64) -> Self {
        Self {
            plan: Arc::clone(plan),
            random: Random::seeded(plan.seed ^ (worker + 1).wrapping_mul(0xD134_2543_DE82_EF95)),
            draw: Draw::new(plan.distribution, plan.keys, worker, plan.workers),
            words: Vec::new(),
            ends: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// Draws commands.
    pub(crate) fn draw(&mut self, count: u64) {
        self.words.clear();
        self.ends.clear();
        self.kinds.clear();
        (0..count).for_each(|_| self.draw_one());
    }

    #[inline]
    fn draw_one(&mut self) {
        let Self { plan, random, draw, words, ends, kinds } = self;
        let is_set = match &plan.operation {
            Operation::Get => false,
            Operation::Set => true,
            Operation::Mixed => random.below(100) < plan.write_percent,
            Operation::Command(template) => {
                for word in template.words() {
                    for piece in word {
                        match piece {
                            Piece::Text(text) => words.extend_from_slice(text),
                            Piece::Key => plan.append_key(draw.next(random), words),
                            Piece::Number => append_digits(draw.next(random), words),
                            Piece::Data => {
                                words.extend_from_slice(plan.noise.value(random.next(), 0, plan.value_size));
                            }
                        }
                    }
                    ends.push(words.len());
                }
                kinds.push(Kind::Template);
                return;
            }
        };
        kinds.push(if is_set { Kind::Set(random.next()) } else { Kind::Get });
        plan.append_key(draw.next(random), words);
        ends.push(words.len());
    }

    /// Sends what was drawn and awaits it: how many were answered as they should be.
    pub(crate) async fn send(&self, client: &Client, faults: &mut Faults) -> u64 {
        let mut drawn = Drawn { batch: self, next: 0, begin: 0 };
        if let [kind] = self.kinds.as_slice() {
            let Some(command) = drawn.next() else { return 0 };
            return u64::from(self.is_right(*kind, client.run(command).await, faults));
        }
        let mut pipeline = client.pipeline();
        for command in drawn {
            pipeline.queue::<Value>(command);
        }
        match pipeline.run().await {
            Ok(replies) => {
                let judged = self.kinds.iter().zip(replies.into_values());
                judged.map(|(kind, reply)| u64::from(self.is_right(*kind, reply, faults))).sum()
            }
            Err(error) => {
                faults.add_error(&error, self.kinds.len() as u64);
                0
            }
        }
    }

    #[inline]
    fn is_right(&self, kind: Kind, reply: Result<Value, Error>, faults: &mut Faults) -> bool {
        match (kind, reply) {
            (Kind::Get, Ok(Value::Bulk(value))) if value.len() == self.plan.value_size => true,
            (Kind::Set(_), Ok(Value::Simple(text))) if text.as_ref() == b"OK" => true,
            (Kind::Template, Ok(value)) if !matches!(value, Value::Error(_)) => true,
            (kind, reply) => self.count(kind, reply, faults),
        }
    }

    #[cold]
    fn count(&self, kind: Kind, reply: Result<Value, Error>, faults: &mut Faults) -> bool {
        let wanted = self.plan.value_size;
        match (kind, reply) {
            (_, Err(error)) => faults.add_error(&error, 1),
            (Kind::Get, Ok(Value::Null)) => faults.add("missing key", 1, || "GET: the key does not exist".to_owned()),
            (Kind::Get, Ok(Value::Bulk(value))) => {
                faults.add("wrong size", 1, || format!("GET: {} bytes instead of {wanted}", value.len()));
            }
            (_, Ok(value)) => faults.add("wrong reply", 1, || format!("an unexpected {}", value.type_name())),
        }
        false
    }
}

/// The commands of a batch in turn.
struct Drawn<'b> {
    batch: &'b Batch,
    next: usize,
    /// Of its first argument, among the ends.
    begin: usize,
}

impl<'b> Iterator for Drawn<'b> {
    type Item = Command<'b>;

    #[inline]
    fn next(&mut self) -> Option<Command<'b>> {
        let batch = self.batch;
        let kind = *batch.kinds.get(self.next)?;
        self.next += 1;
        Some(match kind {
            Kind::Get => Command::new(&spec::GET).arg(self.word()),
            Kind::Set(value) => {
                let value = batch.plan.noise.value(value, 0, batch.plan.value_size);
                Command::new(&spec::SET).arg(self.word()).arg(value)
            }
            Kind::Template => self.template()?,
        })
    }
}

impl<'b> Drawn<'b> {
    fn word(&mut self) -> &'b [u8] {
        let ends = &self.batch.ends;
        let begin = if self.begin == 0 { 0 } else { ends.get(self.begin - 1).copied().unwrap_or_default() };
        let end = ends.get(self.begin).copied().unwrap_or_default();
        self.begin += 1;
        self.batch.words.get(begin..end).unwrap_or_default()
    }

    fn template(&mut self) -> Option<Command<'b>> {
        let Operation::Command(template) = &self.batch.plan.operation else { return None };
        let spec: &'static CommandSpec = template.spec;
        // A command that is not known is an argument of its own.
        let mut command = if spec.words == 0 { Command::raw(template.name()) } else { Command::new(spec) };
        for _ in 0..template.len() {
            command = command.arg(self.word());
        }
        Some(command)
    }
}
