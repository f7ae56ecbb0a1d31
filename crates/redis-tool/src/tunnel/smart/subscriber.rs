//! The subscriptions of one client. They live in the worker's [`Client`], which keeps them through failovers and moving
//! slots.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use pilotlight_redis::{Client, Error, Event, Message, Subscription};
use pilotlight_resp::{Protocol, Value};

/// What is subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Channel,
    Pattern,
    Shard,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Subscriber {
    channels: Topics,
    patterns: Topics,
    shards: Topics,
}

#[derive(Debug, Default)]
struct Topics {
    names: BTreeSet<Bytes>,
    subscription: Option<Subscription>,
}

/// What comes next for the client.
#[derive(Debug)]
pub(super) enum News {
    Message(Kind, Message),
    /// It was too slow: a server would cut the connection, too.
    TooSlow,
    /// The servers refuse what was subscribed, or the tunnel ends.
    Over,
}

impl Kind {
    /// Of a command, by its name.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "PSUBSCRIBE" | "PUNSUBSCRIBE" => Self::Pattern,
            "SSUBSCRIBE" | "SUNSUBSCRIBE" => Self::Shard,
            _ => Self::Channel,
        }
    }
}

impl Subscriber {
    /// Whether there is any subscription: in RESP2 the connection is for nothing else then.
    pub(super) fn is_any(&self) -> bool {
        !(self.channels.names.is_empty() && self.patterns.names.is_empty() && self.shards.names.is_empty())
    }

    /// Subscribes, and says how many subscriptions the client is told that it has.
    pub(super) async fn add(&mut self, client: &Client, kind: Kind, name: &Bytes) -> Result<usize, Error> {
        let topics = self.topics(kind);
        if !topics.names.contains(name) {
            match &mut topics.subscription {
                Some(subscription) => subscription.add(name).await?,
                None => {
                    topics.subscription = Some(match kind {
                        Kind::Channel => client.subscribe(name).await?,
                        Kind::Pattern => client.psubscribe(name).await?,
                        Kind::Shard => client.ssubscribe(name).await?,
                    });
                }
            }
            topics.names.insert(name.clone());
        }
        Ok(self.count(kind))
    }

    /// Unsubscribes, and says how many subscriptions are left.
    pub(super) fn remove(&mut self, kind: Kind, name: &Bytes) -> usize {
        let topics = self.topics(kind);
        if topics.names.remove(name)
            && let Some(subscription) = &mut topics.subscription
        {
            subscription.remove(name);
        }
        if topics.names.is_empty() {
            topics.subscription = None;
        }
        self.count(kind)
    }

    /// All names of a kind.
    pub(super) fn names(&mut self, kind: Kind) -> Vec<Bytes> {
        self.topics(kind).names.iter().cloned().collect()
    }

    /// As servers count: channels and patterns together, those of shards apart.
    pub(super) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.shards.names.len(),
            Kind::Channel | Kind::Pattern => self.channels.names.len() + self.patterns.names.len(),
        }
    }

    /// How many channels, patterns, and channels of shards.
    pub(super) fn counts(&self) -> [usize; 3] {
        [&self.channels, &self.patterns, &self.shards].map(|topics| topics.names.len())
    }

    /// Waits for what comes next; for ever if nothing is subscribed.
    ///
    /// # Cancel safety
    /// No message is lost.
    pub(super) async fn next(&mut self) -> News {
        loop {
            let (kind, event) = poll_fn(|cx| {
                let all = [
                    (Kind::Channel, &mut self.channels),
                    (Kind::Pattern, &mut self.patterns),
                    (Kind::Shard, &mut self.shards),
                ];
                for (kind, topics) in all {
                    let Some(subscription) = &mut topics.subscription else { continue };
                    let next = std::pin::pin!(subscription.next());
                    if let Poll::Ready(event) = next.poll(cx) {
                        return Poll::Ready((kind, event));
                    }
                }
                Poll::Pending
            })
            .await;
            match event {
                Some(Event::Message(message)) => return News::Message(kind, message),
                // Pub/sub promises no more: who is away gets no message. It goes on by itself.
                Some(Event::Gap { .. }) => {}
                Some(Event::Dropped { .. }) => return News::TooSlow,
                Some(Event::Refused { .. }) | None => return News::Over,
            }
        }
    }

    /// A message that is there already.
    pub(super) fn try_next(&mut self) -> Option<News> {
        let all =
            [(Kind::Channel, &mut self.channels), (Kind::Pattern, &mut self.patterns), (Kind::Shard, &mut self.shards)];
        for (kind, topics) in all {
            while let Some(event) = topics.subscription.as_mut().and_then(Subscription::try_next) {
                match event {
                    Event::Message(message) => return Some(News::Message(kind, message)),
                    Event::Gap { .. } => {}
                    Event::Dropped { .. } => return Some(News::TooSlow),
                    Event::Refused { .. } => return Some(News::Over),
                }
            }
        }
        None
    }

    fn topics(&mut self, kind: Kind) -> &mut Topics {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }
}

/// A message as the server would push it.
pub(super) fn push(kind: Kind, message: Message) -> Value {
    let word = |text: &'static str| Value::Bulk(Bytes::from_static(text.as_bytes()));
    let mut items = Vec::with_capacity(4);
    items.push(match kind {
        Kind::Channel => word("message"),
        Kind::Pattern => word("pmessage"),
        Kind::Shard => word("smessage"),
    });
    items.extend(message.pattern.map(Value::Bulk));
    items.extend([Value::Bulk(message.channel), Value::Bulk(message.payload)]);
    Value::Push(items)
}

/// What confirms a subscription, or its end.
pub(super) fn confirmation(word: &str, name: Option<&Bytes>, count: usize) -> Value {
    Value::Push(vec![
        Value::Bulk(Bytes::copy_from_slice(word.as_bytes())),
        name.map_or(Value::Null, |name| Value::Bulk(name.clone())),
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)),
    ])
}

/// In RESP2 a client with subscriptions can do nothing else.
pub(super) fn blocks_others(subscriber: &Subscriber, protocol: Protocol) -> bool {
    protocol == Protocol::Resp2 && subscriber.is_any()
}
