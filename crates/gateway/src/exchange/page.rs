//! Pages of errors that a service of the operator's makes: it is asked for one in place of the error, with what the
//! client says of its languages and of what it can show. If it fails as well, the gateway's own page goes out.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_LANGUAGE, AGE, CACHE_CONTROL, ETAG, EXPIRES, HeaderMap, HeaderValue, LAST_MODIFIED};
use http::{StatusCode, Version};
use pilotlight_cache::Forward;
use pilotlight_exchange::{Event, Lookup};
use pilotlight_traces::TraceId;
use tracing::field::DisplayValue;

use super::changes::Seen;
use super::detached_fetch::DetachedFetch;
use super::inbound::{Caller, Inbound, IncomingRequest, Parted, Passage};
use crate::downstream::Downstream;
use crate::error_pages::{ErrorBy, LoadedPage};
use crate::grpc;
use crate::head::Head;
use crate::problem::Failure;
use crate::record::Record;
use crate::request_id::RequestId;
use crate::routes::Route;
use crate::template::Facts;
use crate::timing::{Moment, Timeline};
use crate::worker::Worker;

/// Longest target of a page.
const MAX_TARGET: usize = 8192;

/// A page that a service has to be asked for.
pub(super) struct PageRequest {
    route: Arc<Route>,
    target: String,
}

impl PageRequest {
    /// What to ask for in place of a response; `None` for almost every one.
    pub(super) fn of(
        worker: &Worker,
        route: Option<&Route>,
        seen: &Seen<'_>,
        result: &Result<Parted, Failure>,
    ) -> Option<Self> {
        let (status, by) = match result {
            Ok((response, _)) => (response.status, ErrorBy::Service),
            Err(failure) => (failure.status(), ErrorBy::Gateway),
        };
        Self::of_error(worker, route, seen, status, by)
    }

    fn of_error(
        worker: &Worker,
        route: Option<&Route>,
        seen: &Seen<'_>,
        status: StatusCode,
        by: ErrorBy,
    ) -> Option<Self> {
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        let table = worker.common.table.load();
        let pages = route.map_or(table.pages(), |route| &route.pages);
        let Some(LoadedPage::Service { name, path }) = pages.find(status, by) else { return None };
        if seen.head.version == Version::HTTP_2 && grpc::is_grpc(seen.head) {
            return None;
        }
        let facts = Facts { status: status.as_str(), ..seen.facts() };
        let target =
            path.fill(&facts, MAX_TARGET).filter(|target| target.bytes().all(|byte| byte.is_ascii_graphic()))?;
        Some(Self { route: Arc::clone(table.page_route(name)?), target })
    }

    /// Whether a stored response is an error that a service has a page for.
    pub(super) fn is_wanted(route: &Route, status: StatusCode) -> bool {
        matches!(route.pages.find(status, ErrorBy::Service), Some(LoadedPage::Service { .. }))
    }

    /// The page; `None` if the service has none, or none in time.
    pub(super) async fn fetch(
        self,
        worker: &Rc<Worker>,
        client: &dyn Downstream,
        head: &Head,
        id: &RequestId,
        trace_id: Option<DisplayValue<TraceId>>,
    ) -> Option<Parted> {
        let mut headers = HeaderMap::new();
        for name in [ACCEPT, ACCEPT_LANGUAGE] {
            if let Some(Ok(value)) = head.joined(name.as_str()).map(|value| HeaderValue::from_bytes(&value)) {
                headers.insert(name, value);
            }
        }
        let request = IncomingRequest {
            head: Head::get(self.target.into(), head.authority().into(), headers),
            body: None,
            id: id.clone(),
        };
        let record = Record::uncounted(worker, &self.route.series, Timeline::new(Moment::now()));
        let passage = Passage::new(worker, &self.route)?;
        let detached_fetch = DetachedFetch::new(worker);
        let mut inbound = Inbound::new(worker, Caller::answered(client), record, detached_fetch, passage, request);
        let begin = Event::Begin { lookup: Lookup::Off(Forward::Disabled), redis: None };
        let (result, _) = inbound.respond(begin, Duration::ZERO).await;
        match result {
            Ok((mut response, body)) if response.status == StatusCode::OK => {
                for name in [ETAG, LAST_MODIFIED, EXPIRES, AGE] {
                    response.fields.map().remove(name);
                }
                response.fields.set(CACHE_CONTROL, b"no-store");
                Some((response, body))
            }
            Ok((response, _)) => {
                let status = response.status;
                tracing::warn!(
                    request_id = id.as_str(),
                    trace_id,
                    "a page for an error is not used: its service answered {status}"
                );
                None
            }
            Err(failure) => {
                let failure = failure.log_text();
                tracing::warn!(request_id = id.as_str(), trace_id, "a page for an error could not be had: {failure}");
                None
            }
        }
    }
}
