//! A request that no client waits for: that of a schedule. It goes the way of a client's: a service that does not run
//! is started, and what waits, waits in its queue.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{HeaderName, Method};
use pilotlight_cache::Forward;
use pilotlight_exchange::{Event, Lookup};

use super::detached_fetch::DetachedFetch;
use super::inbound::{Caller, Inbound, IncomingRequest, Passage};
use crate::head::Head;
use crate::peer_address::{Entrance, PeerAddress};
use crate::record::Record;
use crate::routes::Route;
use crate::schedules::ScheduleSpec;
use crate::target::Trust;
use crate::timing::{Moment, Timeline};
use crate::worker::Worker;

/// Bytes of an answer's body that are kept.
const MAX_KEPT: usize = 300;
/// Who asks.
const AGENT: &str = "Pilotlight-Schedule";

/// What it was answered with.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The first bytes of the body.
    pub(crate) beginning: Vec<u8>,
}

/// Sends the request and reads the answer to its end.
pub(crate) async fn ask(worker: &Rc<Worker>, route: &Arc<Route>, spec: &ScheduleSpec) -> Result<Answer, String> {
    let passage = Passage::new(worker, route).ok_or("there is no way to its service")?;
    let caller = Caller {
        settings: Arc::clone(worker.common.table.load().settings()),
        peer: PeerAddress::of("", Entrance::NONE, None),
        connection: None,
    };
    let request = IncomingRequest { head: head(spec), body: None, id: worker.ids.id(None) };
    let record = Record::uncounted(worker, &route.series, Timeline::new(Moment::now()));
    let mut inbound = Inbound::new(worker, caller, record, DetachedFetch::new(worker), passage, request);
    inbound.outbound.trust = Trust::OURSELVES;
    inbound.outbound.event.clone_from(&spec.event);
    let begin = Event::Begin { lookup: Lookup::Off(Forward::Disabled), redis: None };
    let (result, _) = Box::pin(inbound.respond(begin, Duration::ZERO)).await;
    let (response, mut body) = result.map_err(|failure| failure.log_text())?;
    let mut beginning = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.poll_source(cx)).await {
        let frame = frame.map_err(|cut| cut.to_string())?;
        if let Some(data) = frame.data_ref() {
            let room = MAX_KEPT - beginning.len().min(MAX_KEPT);
            beginning.extend(data.iter().take(room));
        }
    }
    Ok(Answer { status: response.status.as_u16(), beginning })
}

fn head(spec: &ScheduleSpec) -> Head {
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(HOST, &spec.host);
    set(USER_AGENT, AGENT);
    // RFC 9110 §8.6: a method that has a meaning for content says that there is none.
    if matches!(spec.method, Method::POST | Method::PUT | Method::PATCH) {
        set(CONTENT_LENGTH, "0");
    }
    let mut head = Head::get(spec.target.as_str().into(), spec.host.as_str().into(), headers);
    head.method = spec.method.clone();
    head
}
