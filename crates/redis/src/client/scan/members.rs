//! Scans of the members of one key.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;

use super::pages::{Page, Pager, Pages};
use crate::client::handle::Client;
use crate::command::{Arg, Command, CommandSpec};
use crate::commands::{Commands, spec};
use crate::config::NodeAddress;
use crate::error::Error;
use crate::proto::slot::Slot;
use crate::reply::{FromReply, ScanReply};

/// The members of a hash, set or sorted set, page by page.
///
/// Every member that is there from the beginning to the end comes at least once; some may come twice. If the key's slot
/// moves to another node, the scan begins anew there, as cursors mean nothing to another server.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut fields = client.scan_hash("user:1");
/// while let Some(page) = fields.next().await {
///     for (field, value) in page? {
///         println!("{field:?} {value:?}");
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is scanned before it is polled"]
pub struct MemberScan<T: FromReply + Send + 'static> {
    pages: Pages<MemberPager<T>>,
}

struct MemberPager<T> {
    client: Client,
    spec: &'static CommandSpec,
    key: Bytes,
    pattern: Option<Bytes>,
    count: Option<u64>,
    /// `None`: there is no more.
    cursor: Option<u64>,
    /// Whose cursor it is.
    node: Option<NodeAddress>,
    item: std::marker::PhantomData<fn() -> T>,
}

impl Client {
    /// A scan of a hash's fields and values.
    pub fn scan_hash(&self, key: impl Into<Bytes>) -> MemberScan<(Bytes, Bytes)> {
        MemberScan::new(self, &spec::HSCAN, key.into())
    }

    /// A scan of a set's members.
    pub fn scan_set(&self, key: impl Into<Bytes>) -> MemberScan<Bytes> {
        MemberScan::new(self, &spec::SSCAN, key.into())
    }

    /// A scan of a sorted set's members and scores.
    pub fn scan_sorted_set(&self, key: impl Into<Bytes>) -> MemberScan<(Bytes, f64)> {
        MemberScan::new(self, &spec::ZSCAN, key.into())
    }
}

impl<T: FromReply + Send + 'static> MemberScan<T> {
    fn new(client: &Client, spec: &'static CommandSpec, key: Bytes) -> Self {
        let client = client.clone();
        let item = std::marker::PhantomData;
        let pager = MemberPager { client, spec, key, pattern: None, count: None, cursor: Some(0), node: None, item };
        Self { pages: Pages::new(pager) }
    }

    /// Only members that match a glob pattern.
    pub fn pattern(mut self, pattern: impl Into<Bytes>) -> Self {
        if let Some(pager) = self.pages.pager() {
            pager.pattern = Some(pattern.into());
        }
        self
    }

    /// About so many members are looked at for each page. The server's default is 10.
    pub fn count(mut self, count: u64) -> Self {
        if let Some(pager) = self.pages.pager() {
            pager.count = Some(count);
        }
        self
    }

    /// The next members; `None`: that was all. Pages without members are passed over.
    ///
    /// # Errors
    /// As any command. An error is the end.
    ///
    /// # Cancel safety
    /// A page that was under way when the future was dropped is the next one.
    pub async fn next(&mut self) -> Option<Result<Vec<T>, Error>> {
        std::future::poll_fn(|cx| self.pages.poll_next(cx)).await
    }
}

impl<T: FromReply + Send + 'static> Stream for MemberScan<T> {
    type Item = Result<Vec<T>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().pages.poll_next(cx)
    }
}

impl<T: FromReply + Send + 'static> Pager for MemberPager<T> {
    type Item = T;

    async fn page(&mut self) -> Result<Page<T>, Error> {
        let owner = self.owner();
        if owner.is_some() && self.node.is_some() && owner != self.node {
            self.cursor = Some(0);
        }
        self.node = owner.or(self.node.take());
        let Some(cursor) = self.cursor else { return Ok(Page::End) };
        let reply: ScanReply<T> = self.client.run(self.command(cursor)).await?;
        self.cursor = (reply.cursor != 0).then_some(reply.cursor);
        Ok(Page::Items(reply.items))
    }
}

impl<T> MemberPager<T> {
    /// The node that has the key's slot, as far as the client knows. A redirect of the last page is known by now.
    fn owner(&self) -> Option<NodeAddress> {
        let lane = self.client.core().primary_lane(self.spec, Some(Slot::of(&self.key)));
        lane.ok().map(|lane| lane.address())
    }

    fn command<'a>(&self, cursor: u64) -> Command<'a> {
        let mut command = Command::new(self.spec).arg(Arg::Shared(self.key.clone())).arg(cursor);
        if let Some(pattern) = &self.pattern {
            command = command.arg("MATCH").arg(Arg::Shared(pattern.clone()));
        }
        if let Some(count) = self.count {
            command = command.arg("COUNT").arg(count);
        }
        command
    }
}
