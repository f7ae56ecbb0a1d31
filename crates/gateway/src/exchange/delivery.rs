//! From what was decided to a response: heads, `Cache-Status`, bodies that are stored while they are passed on.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, SET_COOKIE};
use pilotlight_cache::{self as cache, CacheStatus, Decision, Fill, Recorder, Stored};
use pilotlight_exchange::{Event, Judgement, Limit, Refusal, Response, Setting, Status};

use super::handles::{Fetched, Ours};
use super::inbound::{Inbound, Parted};
use crate::body::{ResponseBody, keep};
use crate::cache_key;
use crate::lookup::{hit_in_redis, now};
use crate::options::RouteCache;
use crate::problem::Failure;
use crate::read_ahead::ReadAhead;
use crate::request_body::BodyError;
use crate::response::ResponseHead;
use crate::upstream::{ServiceResponse, UpstreamError};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

impl Inbound {
    pub(super) fn answer(&self, response: Response<Ours>) -> Result<Parted, Failure> {
        Ok(match response {
            Response::Stored(stored, status) => self.response_from(&stored, cache_status(&stored, status)),
            Response::Live(live, why) => {
                let status = CacheStatus::forwarded(why).collapsed();
                let answer = live.response_as(status, &self.head().method, self.head().headers(), now());
                let (response, body) = ResponseHead::part(answer);
                (response, ResponseBody::Live(Box::new(body)))
            }
            Response::Validated { stored, unstored, mut answer, why } => {
                let status = CacheStatus::forwarded(why).answered(answer.answer.status).ttl(stored.ttl_s(now()));
                let status = unstored.map_or_else(|| status.stored(), |why| status.unstored(why));
                let mut parted = self.response_from(&stored, Some(status));
                // They belong to this client alone.
                for cookie in answer.answer.fields.map().get_all(SET_COOKIE) {
                    parted.0.fields.append(SET_COOKIE, cookie.clone());
                }
                parted
            }
            Response::Recorded(fetched, recorder, why) => {
                let Fetched { answer, timing } = *fetched;
                let status = CacheStatus::forwarded(why).answered(answer.status).stored();
                let status = status.ttl(recorder.ttl_s(timing.received));
                let body = self.record(answer.body, recorder);
                self.deliver(ServiceResponse { body, ..answer }, status)
            }
            Response::Passed(fetched, unstored, why) => {
                let status = CacheStatus::forwarded(why).answered(fetched.answer.status);
                let status = match unstored {
                    Some(why) => {
                        self.record.unstored(why);
                        status.unstored(why)
                    }
                    None => status,
                };
                self.deliver(fetched.answer, status)
            }
            Response::Failure(refusal) => return Err(self.refused(refusal)),
        })
    }

    fn refused(&self, refusal: Refusal<Ours>) -> Failure {
        match refusal {
            Refusal::TimedOut(limit) => {
                let service = self.service_name();
                let setting = setting(limit);
                Failure::Upstream(UpstreamError::Timeout { service, after: limit.after, setting })
            }
            other => failure(other),
        }
    }

    /// A response from a stored response.
    fn response_from(&self, stored: &Stored, status: Option<CacheStatus>) -> Parted {
        let (method, headers) = (&self.head().method, self.head().headers());
        let answer = match status {
            Some(status) => stored.response_as(status, method, headers, now()),
            None => stored.response(method, headers, now()),
        };
        let (response, body) = ResponseHead::part(answer);
        (response, ResponseBody::stored(body))
    }

    /// A response of the service on its way to the client.
    fn deliver(&self, answer: ServiceResponse, status: CacheStatus) -> Parted {
        let ServiceResponse { status: code, mut fields, body, upgraded } = answer;
        fields.append(CACHE_STATUS, status.value());
        // Of this client alone: what is stored of the response was taken before.
        if let Some(cookie) = &self.cookie {
            fields.append(SET_COOKIE, (**cookie).clone());
        }
        if self.route.cache != RouteCache::Off
            && let Some(cache) = &self.worker.common.cache
        {
            cache.finish(fields.map());
        }
        // `Upgrade` itself came with the response.
        if let (Some(upgraded), Some(client)) = (upgraded, &self.client.connection) {
            client.upgrade_to(upgraded);
        }
        (ResponseHead::new(code, fields), body)
    }

    /// Stores a response at once if it is here, while it is read otherwise.
    fn record(&self, body: ResponseBody, mut recorder: Box<Recorder>) -> ResponseBody {
        match &body {
            ResponseBody::Empty => keep(recorder),
            ResponseBody::Full(data) => {
                if recorder.push(data).is_ok() {
                    keep(recorder);
                }
            }
            ResponseBody::Stored(_) | ResponseBody::Live(_) | ResponseBody::Files(_) | ResponseBody::Streamed(_) => {
                let timeout = self.client.settings.limits.response_timeout.unwrap_or(Duration::from_secs(60));
                let deadline = self.worker.deadlines.deadline();
                let abandoned = self.worker.common.abandoned;
                let spawner = &self.worker.spawner;
                let read_ahead = ReadAhead::start(spawner, body, recorder, deadline, timeout, abandoned);
                return ResponseBody::Streamed(Box::new(read_ahead));
            }
        }
        body
    }

    /// RFC 9111 §4.4: an unsafe request was answered.
    pub(super) fn invalidate(&self, mut fetched: Box<Fetched>) -> Event<Ours> {
        if let Some(cache) = &self.worker.common.cache {
            let table = self.worker.common.table.load();
            let (method, status) = (&self.head().method, fetched.answer.status);
            let answered = cache::Answered { method, status, response: fetched.answer.fields.map() };
            let invalidated = cache_key::invalidate(cache, &table, self.url(), answered, now());
            if let Some(coherence) = &self.worker.common.coherence {
                coherence.handle().publish_behind(invalidated.purges);
            }
        }
        Event::Invalidated(fetched)
    }

    pub(super) fn serves_if_error(&self, stored: &Stored, now: cache::Timestamp) -> bool {
        let (Some(cache), Ok(key)) = (&self.worker.common.cache, self.key()) else { return false };
        cache.serves_if_error(&key.as_key(), stored, self.head().headers(), now)
    }

    /// A stale response is used in place of an error, for those who wait as well.
    pub(super) fn land_failed(&self, fill: Fill, stored: Arc<Stored>, refusal: Option<Refusal<Ours>>) -> Event<Ours> {
        if let Some(refusal) = refusal {
            let (id, failure) = (self.outbound.id.as_str(), self.refused(refusal));
            let (code, text) = (failure.status(), failure.log_text());
            let trace_id = self.record.trace_id();
            tracing::warn!(request_id = id, trace_id, "answered with a stale response instead of {code}: {text}");
        }
        fill.failed(stored);
        Event::LandedFailed
    }

    /// RFC 9111 §4.3.4: what a 304 means for the stored response.
    pub(super) fn validate(&self, fill: Fill, stored: &Arc<Stored>, mut fetched: Box<Fetched>) -> Event<Ours> {
        let headers = self.head().headers();
        let rules = cache_key::rules(&self.route, headers);
        let timing = fetched.timing;
        let fill = self.validating(fill);
        match fill.not_modified(stored, headers, fetched.answer.fields.map(), timing, rules) {
            cache::Validated::Response { stored, unstored } => Event::Validated(stored, unstored, fetched),
            cache::Validated::Mismatch(again) => Event::Mismatched(Box::new(again)),
        }
    }

    /// Whether a response is stored: by the rules of the route first, then by RFC 9111 §3.
    pub(super) fn judge(&self, fill: Fill, mut fetched: Box<Fetched>, judgement: Judgement) -> Event<Ours> {
        let headers = self.head().headers();
        let rules = cache_key::rules(&self.route, headers);
        let (status, timing) = (fetched.answer.status, fetched.timing);
        let answered = fetched.answer.fields.map();
        let refused = cache_key::refuses(&self.route, status, answered);
        let decision = match (judgement, refused) {
            (Judgement::Posted, Some(why)) => Decision::Pass(why),
            (Judgement::Posted, None) => fill.posted(headers, status, answered, timing, rules),
            (Judgement::Response, Some(why)) => {
                Decision::Pass(self.validating(fill).refuse(why, status, timing.received))
            }
            (Judgement::Response, None) => self.validating(fill).response(headers, status, answered, timing, rules),
        };
        match decision {
            Decision::Store(recorder) => Event::Store(fetched, recorder),
            Decision::Pass(why) => Event::Unstored(fetched, why),
        }
    }

    /// A fill that knows what it validates.
    fn validating(&self, fill: Fill) -> Fill {
        match &self.stale {
            Some(stored) => fill.validating(stored),
            None => fill,
        }
    }
}

/// Where a stored response comes from; `None`: it has the words ready.
fn cache_status(stored: &Stored, status: Status<cache::Forward>) -> Option<CacheStatus> {
    let ttl_s = stored.ttl_s(now());
    Some(match status {
        Status::Hit => return None,
        Status::Revalidating => CacheStatus::stale_while_revalidated(ttl_s),
        Status::Redis => hit_in_redis(stored, now()),
        Status::Collapsed(why) => CacheStatus::forwarded(why).collapsed(),
        Status::CollapsedStale(why) => CacheStatus::forwarded(why).collapsed().stale_if_error(ttl_s),
        Status::StaleIfError(why, answered) => {
            let forwarded = CacheStatus::forwarded(why);
            let code = answered.and_then(|status| http::StatusCode::from_u16(status).ok());
            code.map_or(forwarded, |code| forwarded.answered(code)).stale_if_error(ttl_s)
        }
    })
}

/// A refusal of a request that has no route.
pub(super) fn refused(response: Response<Ours>) -> Failure {
    match response {
        Response::Failure(refusal) => failure(refusal),
        _ => Failure::Bug,
    }
}

fn failure(refusal: Refusal<Ours>) -> Failure {
    match refusal {
        Refusal::Given(failure, _) => *failure,
        Refusal::OnlyIfCached => Failure::OnlyIfCached,
        Refusal::BodyLate(limit) => Failure::Body(BodyError::Late { after: limit.after, setting: setting(limit) }),
        Refusal::TimedOut(_) | Refusal::Bug => Failure::Bug,
    }
}

fn setting(limit: Limit) -> &'static str {
    match limit.setting {
        Setting::RouteTimeout => "the route's timeout",
        Setting::RouteResponseTimeout => "the route's response_timeout",
        Setting::GeneralResponseTimeout => "limits.response_timeout",
        Setting::MaxRequestTime => "its max_request_time",
        Setting::Unknown => "its deadline",
    }
}
