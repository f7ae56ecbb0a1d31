//! What a route has for a request whose head has been read.

use std::rc::Rc;
use std::sync::Arc;

use http::Response;
use pilotlight_cache::{Lookup, StoredBody};

use super::inbound::Passage;
use super::{own, site};
use crate::body::ResponseBody;
use crate::head::Head;
use crate::json_choice::Choice;
use crate::metrics::Verdict;
use crate::problem::Failure;
use crate::routes::Route;
use crate::target::Hop;
use crate::worker::Worker;

/// What is known of a request when its head has been read.
pub(super) enum Found {
    /// The gateway's own response: of a route that leads to no service, or to what is for the gateway itself.
    Own(Option<Arc<Route>>, Response<ResponseBody>),
    /// The same, where that is an error.
    Refused(Option<Arc<Route>>, Failure),
    Stored(Arc<Route>, Verdict, Response<StoredBody>),
    /// The service has to be asked, or something else than the stored response as it is answers.
    Route(Passage, Option<Lookup>),
    /// Its credentials have to be looked at, which takes a while.
    Asks(Arc<Route>),
    /// Its body says which route it has.
    Chooses(Box<Choice>),
}

impl Found {
    pub(super) fn route_of(&self) -> Option<&Arc<Route>> {
        match self {
            Self::Stored(route, ..) | Self::Own(Some(route), _) | Self::Refused(Some(route), _) | Self::Asks(route) => {
                Some(route)
            }
            Self::Route(passage, _) => Some(&passage.route),
            Self::Own(None, _) | Self::Refused(None, _) | Self::Chooses(_) => None,
        }
    }

    /// What a route has for a request that no stored response answers as it is.
    pub(super) fn route(
        worker: &Rc<Worker>,
        route: &Arc<Route>,
        head: &Head,
        hop: Hop,
        lookup: Option<Lookup>,
    ) -> Self {
        let script = match site::of_route(worker, route, head) {
            None => None,
            Some(Ok(site::Site::Script(script))) => Some(script),
            Some(Ok(site::Site::Own(answer))) => return Self::Own(Some(Arc::clone(route)), answer),
            Some(Err(failure)) => return Self::Refused(Some(Arc::clone(route)), failure),
        };
        match Passage::new(worker, route) {
            Some(mut passage) => {
                passage.script = script;
                Self::Route(passage, lookup)
            }
            None => match own::answer(worker, route, head, hop) {
                Ok(answer) => Self::Own(Some(Arc::clone(route)), answer),
                Err(failure) => Self::Refused(Some(Arc::clone(route)), failure),
            },
        }
    }
}
