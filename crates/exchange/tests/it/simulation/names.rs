//! Actions and responses by name.

use pilotlight_exchange::{Action, Judgement, Keep, PlaceTurn, Response, Status};

use super::model::Model;

/// What a schedule has seen.
pub(super) fn name(action: &Action<Model>) -> &'static str {
    match action {
        Action::Respond { response, .. } => response_name(response),
        Action::Prepare(.., Keep::Found) => "Prepare, found",
        Action::Prepare(.., Keep::Nothing) => "Prepare, nothing",
        Action::TakePlace(PlaceTurn::First, _) => "TakePlace, first",
        Action::TakePlace(PlaceTurn::Again, _) => "TakePlace, again",
        Action::Send { condition: Some(_), .. } => "Send, conditional",
        Action::Send { condition: None, .. } => "Send",
        Action::Judge(.., Judgement::Response) => "Judge, answer",
        Action::Judge(.., Judgement::Posted) => "Judge, posted",
        Action::Refresh(_) => "Refresh",
        Action::TakeTurn => "TakeTurn",
        Action::Follow(..) => "Follow",
        Action::AskRedis(_) => "AskRedis",
        Action::AwaitLead(..) => "AwaitLead",
        Action::Adopt(..) => "Adopt",
        Action::AskRedisOnly => "AskRedisOnly",
        Action::OpenBody => "OpenBody",
        Action::HoldBody(..) => "HoldBody",
        Action::BeginPost => "BeginPost",
        Action::SendAgain { .. } => "SendAgain",
        Action::AwaitEnd(_) => "AwaitEnd",
        Action::ReportStuck => "ReportStuck",
        Action::Invalidate(_) => "Invalidate",
        Action::MayServeStale(_) => "MayServeStale",
        Action::LandFailed(..) => "LandFailed",
        Action::Validate(..) => "Validate",
        Action::LookAtBody(_) => "LookAtBody",
        Action::Drain { .. } => "Drain",
    }
}

fn response_name(response: &Response<Model>) -> &'static str {
    match response {
        Response::Stored(_, status) => match status {
            Status::Hit => "Hit",
            Status::Revalidating => "Revalidating",
            Status::Redis => "Redis",
            Status::Collapsed(()) => "Collapsed",
            Status::CollapsedStale(()) => "CollapsedStale",
            Status::StaleIfError(..) => "StaleIfError",
        },
        Response::Passed(_, Some(_), ()) => "Passed, unstored",
        Response::Passed(_, None, ()) => "Passed",
        Response::Live(..) => "Live",
        Response::Validated { .. } => "Validated",
        Response::Recorded(..) => "Recorded",
        Response::Failure(_) => "Failure",
    }
}
