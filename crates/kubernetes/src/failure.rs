//! What the API server refuses, or why it is not reached, in words that say what to do.

use std::error::Error as _;

use kube::core::Status;

/// A request to the API server that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such kind, or no such object.
    Missing,
    /// This account may not do it; the server's words.
    Forbidden(String),
    /// The server does not know who asks.
    Unauthorized,
    /// Somebody else has changed the object meanwhile.
    Conflict,
    /// Nobody answered.
    Away(String),
    /// Something else.
    Other(String),
}

impl Failure {
    /// Of a request.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            other => {
                let mut text = other.to_string();
                let mut source = other.source();
                while let Some(error) = source {
                    let more = error.to_string();
                    if !text.contains(&more) {
                        text = format!("{text}: {more}");
                    }
                    source = error.source();
                }
                Self::Away(text)
            }
        }
    }

    /// Of an answer.
    #[must_use]
    pub fn of_status(status: &Status) -> Self {
        match status.code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden(status.message.clone()),
            404 => Self::Missing,
            409 => Self::Conflict,
            500.. => Self::Away(format!("it answers {}: {}", status.code, status.message)),
            _ => Self::Other(format!("{} ({})", status.message, status.code)),
        }
    }

    /// What could not be done (`list and watch`), with what, and the remedy.
    #[must_use]
    pub fn text(&self, verbs: &str, what: &str) -> String {
        match self {
            Self::Missing => format!("{what}: there is none"),
            Self::Forbidden(message) => format!(
                "this account may not {verbs} {what}: give its Role or ClusterRole these verbs for this resource ({message})"
            ),
            Self::Unauthorized => format!(
                "cannot {verbs} {what}: the API server does not accept the credentials; look at the service account, or at the user of the kubeconfig"
            ),
            Self::Conflict => format!("cannot {verbs} {what}: somebody else has changed it meanwhile"),
            Self::Away(why) => format!("cannot {verbs} {what}: the API server cannot be reached: {why}"),
            Self::Other(why) => format!("cannot {verbs} {what}: {why}"),
        }
    }
}

/// `httproutes.gateway.networking.k8s.io`
#[must_use]
pub fn resource(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_named_with_its_verbs() {
        let status = Status { code: 403, message: "services is forbidden".to_owned(), ..Status::default() };
        let failure = Failure::of_status(&status);
        let text = failure.text("list and watch", &resource("services", ""));
        assert!(text.starts_with("this account may not list and watch services: give"), "{text}");
        assert!(text.contains("services is forbidden"), "{text}");
    }
}
