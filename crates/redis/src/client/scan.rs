//! Scans as streams: of all keys, of a whole cluster too, and of the members of one key.

mod cluster;
mod filter;
mod members;
mod pages;

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;

pub use members::MemberScan;

use crate::client::handle::Client;
use crate::commands::Commands;
use crate::error::Error;
use crate::proto::scan::ClusterScan;
pub use crate::proto::scan::TokenError;
use crate::reply::ScanReply;
use filter::Filter;
use pages::{Page, Pager, Pages};

/// All keys of a server or cluster, page by page.
///
/// Every key that exists from the beginning to the end of the scan comes at least once, in a cluster also while its
/// slots move; some may come twice. The stream ends after an error that trying again does not mend, and goes on after a
/// [resumption](Self::resume) of its [token](Self::token).
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut scan = client.scan().pattern("user:*").count(1000);
/// while let Some(keys) = scan.next().await {
///     println!("{} keys", keys?.len());
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is scanned before it is polled"]
pub struct Scan {
    pages: Pages<KeyPager>,
    token: ScanToken,
}

/// Where a [`Scan`] is. Its text carries it to another process.
///
/// A standalone server's cursor means nothing to another server, nor to the same one after a restart.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, ScanToken};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut scan = client.scan();
/// scan.next().await;
/// let text = scan.token().to_string();
///
/// if let Ok(token) = text.parse::<ScanToken>() {
///     let mut rest = client.scan().resume(token);
///     rest.next().await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanToken(Progress);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// The cursor to send next; `None`: there is no more.
    Server(Option<u64>),
    Cluster(ClusterScan),
}

struct KeyPager {
    client: Client,
    filter: Filter,
    patience: Duration,
    progress: Progress,
}

/// How long a scan waits for a node that does not answer or slots that nobody has.
const PATIENCE: Duration = Duration::from_secs(30);

impl Client {
    /// A scan of all keys, of the whole cluster if it is one.
    pub fn scan(&self) -> Scan {
        let progress = match self.core().is_cluster() {
            true => Progress::Cluster(ClusterScan::new()),
            false => Progress::Server(Some(0)),
        };
        let token = ScanToken(progress.clone());
        let pager = KeyPager { client: self.clone(), filter: Filter::default(), patience: PATIENCE, progress };
        Scan { pages: Pages::new(pager), token }
    }
}

impl Scan {
    /// Only keys that match a glob pattern.
    pub fn pattern(self, pattern: impl Into<Bytes>) -> Self {
        self.with(|pager| pager.filter.pattern = Some(pattern.into()))
    }

    /// About so many keys are looked at for each page. The server's default is 10.
    pub fn count(self, count: u64) -> Self {
        self.with(|pager| pager.filter.count = Some(count))
    }

    /// Only keys of a type (`string`, `list`, `hash`, …).
    pub fn type_(self, kind: impl Into<Bytes>) -> Self {
        self.with(|pager| pager.filter.kind = Some(kind.into()))
    }

    /// How long to wait for a node that does not answer, or for slots that are on their way or that nobody serves.
    /// Default: 30 s.
    pub fn patience(self, patience: Duration) -> Self {
        self.with(|pager| pager.patience = patience)
    }

    /// Goes on where another scan was. A token of a standalone server is no use in a cluster, nor the other way round:
    /// such a scan begins anew.
    pub fn resume(mut self, token: ScanToken) -> Self {
        let same_kind = matches!(
            (&token.0, &self.token.0),
            (Progress::Server(_), Progress::Server(_)) | (Progress::Cluster(_), Progress::Cluster(_))
        );
        if same_kind {
            self.token = token.clone();
            return self.with(|pager| pager.progress = token.0);
        }
        self
    }

    fn with(mut self, change: impl FnOnce(&mut KeyPager)) -> Self {
        if let Some(pager) = self.pages.pager() {
            change(pager);
        }
        self
    }

    /// The next keys; `None`: that was all. Pages without keys are passed over.
    ///
    /// # Errors
    /// A node did not answer for as long as [`patience`](Self::patience), or the server refuses the scan.
    ///
    /// # Cancel safety
    /// A page that was under way when the future was dropped is the next one.
    pub async fn next(&mut self) -> Option<Result<Vec<Bytes>, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Where to go on after the pages that were handed out so far.
    #[must_use]
    pub fn token(&self) -> ScanToken {
        self.token.clone()
    }
}

impl Stream for Scan {
    type Item = Result<Vec<Bytes>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let poll = this.pages.poll_next(cx);
        if let Some(pager) = this.pages.pager() {
            this.token = ScanToken(pager.progress.clone());
        }
        poll
    }
}

impl Pager for KeyPager {
    type Item = Bytes;

    async fn page(&mut self) -> Result<Page<Bytes>, Error> {
        match &mut self.progress {
            Progress::Cluster(scan) => cluster::page(&self.client, scan, &self.filter, self.patience).await,
            Progress::Server(None) => Ok(Page::End),
            Progress::Server(Some(cursor)) => {
                let ScanReply { cursor: next, items } = self.client.run(self.filter.command(*cursor)).await?;
                self.progress = Progress::Server((next != 0).then_some(next));
                Ok(Page::Items(items))
            }
        }
    }
}

/// A standalone server's: `0|cursor`, `0|end`.
const SERVER: &str = "0|";
const END: &str = "end";

impl fmt::Display for ScanToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Progress::Server(Some(cursor)) => write!(f, "{SERVER}{cursor}"),
            Progress::Server(None) => write!(f, "{SERVER}{END}"),
            Progress::Cluster(scan) => scan.fmt(f),
        }
    }
}

impl FromStr for ScanToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        Ok(Self(match text.strip_prefix(SERVER) {
            Some(END) => Progress::Server(None),
            Some(cursor) => Progress::Server(Some(cursor.parse().map_err(|_| TokenError::CURSOR)?)),
            None => Progress::Cluster(text.parse()?),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_text() {
        for text in ["0|0", "0|18446744073709551615", "0|end", "1|0-99,7000||||||"] {
            let text = text.trim_end_matches('|');
            let full = if text.starts_with('1') { format!("{text}|||||") } else { text.to_owned() };
            assert_eq!(full.parse::<ScanToken>().unwrap().to_string(), full);
        }
        assert!("0|x".parse::<ScanToken>().is_err());
        assert!("2|".parse::<ScanToken>().is_err());
    }

    #[test]
    fn a_filter_is_part_of_each_command() {
        let filter = Filter { pattern: Some("a*".into()), count: Some(9), kind: Some("hash".into()) };
        let command = filter.command(7);
        let text: Vec<_> =
            command.arguments().iter().map(|arg| String::from_utf8_lossy(&arg.to_bytes()).into_owned()).collect();
        assert_eq!(text, ["7", "MATCH", "a*", "COUNT", "9", "TYPE", "hash"]);
    }
}
