//! Pub/sub: channels, patterns and shard channels as streams of events.
//!
//! Subscriptions have connections of their own, one for each node that is needed; all subscriptions of a client share
//! them. What each connection is to be subscribed to is decided by `proto::subscriptions`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;

use crate::client::handle::Client;
use crate::command::Args;
use crate::engine::pubsub::{Event, Inbox};
use crate::error::{Error, Misuse, Ran};
use crate::proto::subscriptions::{Kind, SubscriberId, Topic};

/// Messages of some channels, patterns or shard channels, in the order of each channel. It is a stream of [`Event`]s
/// that ends when the client is closed.
///
/// It lives through lost connections, failovers and migrations of slots: channels are subscribed again, and an
/// [`Event::Gap`] says where messages may be missing. Dropping it unsubscribes from what no other subscription of this
/// client wants.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, Event};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut news = client.subscribe(["news", "weather"]).await?;
/// while let Some(event) = news.next().await {
///     match event {
///         Event::Message(message) => println!("{:?}: {:?}", message.channel, message.payload),
///         Event::Gap { reason } => println!("messages may be missing: {reason:?}"),
///         Event::Dropped { count } => println!("too slow: {count} dropped"),
///         Event::Refused { channel, error } => println!("{channel:?}: {error}"),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping it unsubscribes"]
pub struct Subscription {
    /// Keeps the connections alive.
    client: Client,
    id: SubscriberId,
    kind: Kind,
    inbox: Arc<Inbox>,
}

impl Client {
    /// Subscribes to channels (`SUBSCRIBE`): messages of [`publish`](crate::Commands::publish). Without any channel, it
    /// waits for [`Subscription::add`].
    ///
    /// # Errors
    /// In a cluster, a channel or pattern is about keyspace events: each node tells those of its own keys only. The
    /// server refuses a channel, or has not confirmed all of them within the command timeout. Nothing is subscribed
    /// then.
    ///
    /// # Cancel safety
    /// Dropping the future unsubscribes.
    pub async fn subscribe<'a>(&self, channels: impl Args<'a>) -> Result<Subscription, Error> {
        Subscription::begin(self, Kind::Channel, channels).await
    }

    /// Subscribes to all channels that match any of some patterns (`PSUBSCRIBE`). A message whose channel matches two
    /// patterns comes twice.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    ///
    /// # Cancel safety
    /// Dropping the future unsubscribes.
    pub async fn psubscribe<'a>(&self, patterns: impl Args<'a>) -> Result<Subscription, Error> {
        Subscription::begin(self, Kind::Pattern, patterns).await
    }

    /// Subscribes to shard channels (`SSUBSCRIBE`): messages of [`spublish`](crate::Commands::spublish). In a cluster
    /// each channel is subscribed at the primary of its slot, wherever that moves.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    ///
    /// # Cancel safety
    /// Dropping the future unsubscribes.
    pub async fn ssubscribe<'a>(&self, channels: impl Args<'a>) -> Result<Subscription, Error> {
        Subscription::begin(self, Kind::Sharded, channels).await
    }
}

impl Subscription {
    async fn begin<'a>(client: &Client, kind: Kind, names: impl Args<'a>) -> Result<Self, Error> {
        let topics = topics(kind, names);
        let (id, inbox) = client.core().pubsub().add_subscriber();
        let subscription = Self { client: client.clone(), id, kind, inbox };
        subscription.want(topics).await?;
        Ok(subscription)
    }

    /// The next event; `None` once the client is closed and everything before was taken.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// The next event if there is one now.
    pub fn try_next(&mut self) -> Option<Event> {
        self.inbox.pop()
    }

    /// Subscribes to more channels, of the same kind. It is done when the server has confirmed all of them.
    ///
    /// # Errors
    /// As [`Client::subscribe`]; what was subscribed before stays.
    ///
    /// # Cancel safety
    /// Dropping the future unsubscribes from the new ones.
    pub async fn add<'a>(&mut self, channels: impl Args<'a>) -> Result<(), Error> {
        self.want(topics(self.kind, channels)).await
    }

    /// Gives up some channels. No message of theirs comes after this, not even of those that were received before.
    pub fn remove<'a>(&mut self, channels: impl Args<'a>) {
        let topics = topics(self.kind, channels);
        self.client.core().pubsub().unwant(self.id, &topics);
        self.inbox.forget(&topics);
    }

    /// Whether all channels are subscribed at this moment; false while a connection is being made again.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.client.core().pubsub().is_whole(self.id)
    }

    /// Messages dropped so far because this subscriber was slow.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inbox.dropped_in_all()
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Event>> {
        // The runtime that the connections lived on may have been shut down.
        self.client.core().pubsub().staff_if_short();
        self.inbox.poll_next(cx)
    }

    async fn want(&self, topics: Vec<Topic>) -> Result<(), Error> {
        let command = match self.kind {
            Kind::Channel => "SUBSCRIBE",
            Kind::Pattern => "PSUBSCRIBE",
            Kind::Sharded => "SSUBSCRIBE",
        };
        if self.client.core().is_cluster() && topics.iter().any(Topic::is_of_keyspace) {
            let instead = "each node of a cluster tells keyspace events of its own keys only: subscribe with a client of \
                           each primary (Config::standalone)";
            return Err(Error::new(Misuse::Unroutable { command, instead }, Ran::NotSent, command));
        }
        self.client.core().pubsub().want(self.id, &self.inbox, topics, command).await
    }
}

impl Stream for Subscription {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.client.core().pubsub().remove_subscriber(self.id);
    }
}

fn topics<'a>(kind: Kind, names: impl Args<'a>) -> Vec<Topic> {
    let mut topics = Vec::new();
    names.each(&mut |name| topics.push(Topic::new(kind, Bytes::copy_from_slice(&name.to_bytes()))));
    topics
}
