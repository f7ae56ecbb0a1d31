//! A source of pages as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::Error;

/// What comes next.
pub(super) enum Page<T> {
    /// Perhaps none.
    Items(Vec<T>),
    End,
}

/// A source of pages, one after the other.
pub(super) trait Pager: Send + 'static {
    type Item: Send + 'static;

    /// The next page. An error is the end.
    fn page(&mut self) -> impl Future<Output = Result<Page<Self::Item>, Error>> + Send;
}

type Turn<P> = (P, Result<Page<<P as Pager>::Item>, Error>);

/// See the module. Pages without items are passed over.
pub(super) struct Pages<P: Pager> {
    state: State<P>,
}

enum State<P: Pager> {
    Idle(P),
    Running(Pin<Box<dyn Future<Output = Turn<P>> + Send>>),
    /// After an error, with what was reached before it.
    Ended(Option<P>),
}

impl<P: Pager> Pages<P> {
    pub(super) fn new(pager: P) -> Self {
        Self { state: State::Idle(pager) }
    }

    /// The source; `None` while it gets a page.
    pub(super) fn pager(&mut self) -> Option<&mut P> {
        match &mut self.state {
            State::Idle(pager) => Some(pager),
            State::Running(_) => None,
            State::Ended(pager) => pager.as_mut(),
        }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<P::Item>, Error>>> {
        loop {
            match &mut self.state {
                State::Idle(_) => {
                    if let State::Idle(mut pager) = std::mem::replace(&mut self.state, State::Ended(None)) {
                        self.state = State::Running(Box::pin(async move {
                            let page = pager.page().await;
                            (pager, page)
                        }));
                    }
                }
                State::Running(future) => {
                    let Poll::Ready((pager, page)) = future.as_mut().poll(cx) else { return Poll::Pending };
                    let (state, output) = match page {
                        Ok(Page::Items(items)) if items.is_empty() => (State::Idle(pager), None),
                        Ok(Page::Items(items)) => (State::Idle(pager), Some(Some(Ok(items)))),
                        Ok(Page::End) => (State::Ended(Some(pager)), Some(None)),
                        Err(error) => (State::Ended(Some(pager)), Some(Some(Err(error)))),
                    };
                    self.state = state;
                    if let Some(output) = output {
                        return Poll::Ready(output);
                    }
                }
                State::Ended(_) => return Poll::Ready(None),
            }
        }
    }
}
