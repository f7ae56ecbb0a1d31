//! One round on connections that are not shared.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::judge::Failure;
use super::round::Group;
use super::state::{Line, RetryLoop, Tries, Try, Work};
use crate::engine::lane::Lane;
use crate::engine::sink::Sink;
use crate::engine::submission::Outcome;
use crate::error::Error;
use crate::out::Out;

/// What came of an attempt, at which node, and how many bytes it had.
type Done = Result<(Arc<Lane>, Outcome, usize), Error>;

impl RetryLoop<'_, '_, '_, '_> {
    /// All requests at once, each on a connection of its own.
    pub(super) async fn round_apart(&mut self, tries: Tries) {
        let asked = Instant::now();
        let done: Vec<Done> = match &*tries {
            [only] => {
                let mut sink = self.sink.take();
                let done = self.work.exchange(only, sink.as_deref_mut()).await;
                self.sink = sink;
                vec![done]
            }
            _ => all(tries.iter().map(|it| self.work.exchange(it, None)).collect()).await,
        };
        for (it, done) in tries.into_iter().zip(done) {
            match done {
                Ok((lane, outcome, bytes)) => self.settle(Group::alone(lane, it, bytes, asked), outcome),
                Err(error) => self.judge(it, Failure::NoRoute(error), asked),
            }
        }
    }
}

impl Work<'_, '_, '_> {
    async fn exchange(&self, it: &Try, sink: Option<&mut Sink<'_>>) -> Done {
        let lane = self.lane(it)?;
        let submission = self.submission(it, Instant::now());
        let mut out = Out::contiguous_only();
        self.encode(it, &mut out);
        let (pool, config) = (self.core.pool(), self.core.config());
        let outcome = match (self.line, sink) {
            (Line::Bare, _) => pool.run_bare(&lane, submission, &out).await,
            (_, Some(sink)) => pool.run_into(&lane, submission, config, &out, sink).await,
            (_, None) => pool.run(&lane, submission, config, &out).await,
        };
        Ok((lane, outcome, out.len()))
    }
}

/// Awaits all of them at once.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Some(Box::pin(future)), None)).collect();
    poll_fn(|cx| {
        for (future, output) in &mut waiting {
            if let Some(Poll::Ready(ready)) = future.as_mut().map(|future| future.as_mut().poll(cx)) {
                (*future, *output) = (None, Some(ready));
            }
        }
        if waiting.iter().any(|(future, _)| future.is_some()) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
}
