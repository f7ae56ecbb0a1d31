//! The calls of a runtime client, by method and path.

/// What a runtime client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// The next invocation: `GET /2018-06-01/runtime/invocation/next`.
    Next,
    /// The result of an invocation: `POST …/invocation/ID/response`.
    Response(&'a str),
    /// An invocation failed: `POST …/invocation/ID/error`.
    Error(&'a str),
    /// The function could not be initialised: `POST …/runtime/init/error`.
    InitError,
}

/// Why a call is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Extensions are programs beside a function, which have no place here.
    #[error("extensions are not supported: run such a program as a service of its own")]
    Extensions,
    /// Of a snapshot's restore, which there is none of.
    #[error("there is no restore: instances start, they are not restored from snapshots")]
    Restore,
    /// Another method.
    #[error("the method must be {0}")]
    Method(&'static str),
    /// Another path.
    #[error("this is no path of the Runtime API, version 2018-06-01")]
    Path,
}

impl<'a> Call<'a> {
    /// Reads the target of a request.
    ///
    /// # Errors
    /// It is for something else, or there is no such path.
    pub fn parse(method: &str, path: &'a str) -> Result<Self, CallError> {
        let path = path.split('?').next().unwrap_or_default();
        if path.starts_with("/2020-01-01/") || path.starts_with("/2020-08-15/") || path.starts_with("/2022-07-01/") {
            return Err(CallError::Extensions); // extensions, their logs, their telemetry
        }
        let path = path.strip_prefix("/2018-06-01/runtime/").ok_or(CallError::Path)?;
        let (call, expected) = match path {
            "invocation/next" => (Call::Next, "GET"),
            "init/error" => (Call::InitError, "POST"),
            "restore/next" | "restore/error" => return Err(CallError::Restore),
            _ => {
                let (id, what) =
                    path.strip_prefix("invocation/").and_then(|rest| rest.split_once('/')).ok_or(CallError::Path)?;
                match what {
                    "response" => (Call::Response(id), "POST"),
                    "error" => (Call::Error(id), "POST"),
                    _ => return Err(CallError::Path),
                }
            }
        };
        if method == expected { Ok(call) } else { Err(CallError::Method(expected)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (method, path, expected) in [
            ("GET", "/2018-06-01/runtime/invocation/next", Ok(Call::Next)),
            ("GET", "/2018-06-01/runtime/invocation/next?x=1", Ok(Call::Next)),
            ("POST", "/2018-06-01/runtime/invocation/next", Err(CallError::Method("GET"))),
            ("POST", "/2018-06-01/runtime/invocation/a-b/response", Ok(Call::Response("a-b"))),
            ("POST", "/2018-06-01/runtime/invocation//error", Ok(Call::Error(""))),
            ("PUT", "/2018-06-01/runtime/invocation/a/error", Err(CallError::Method("POST"))),
            ("POST", "/2018-06-01/runtime/invocation/a/other", Err(CallError::Path)),
            ("POST", "/2018-06-01/runtime/invocation/a/response/b", Err(CallError::Path)),
            ("POST", "/2018-06-01/runtime/init/error", Ok(Call::InitError)),
            ("GET", "/2018-06-01/runtime/restore/next", Err(CallError::Restore)),
            ("POST", "/2020-01-01/extension/register", Err(CallError::Extensions)),
            ("PUT", "/2022-07-01/telemetry", Err(CallError::Extensions)),
            ("GET", "/", Err(CallError::Path)),
        ] {
            assert_eq!(Call::parse(method, path), expected, "{method} {path}");
        }
    }
}
