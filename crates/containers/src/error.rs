//! Why a call of the engine failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a call of the engine failed. The message names the socket and the call, and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine listens there.
    #[error("no container engine answers at {}: {source}{}", socket.display(), advice(source))]
    Away {
        /// Its socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It broke the connection off, or speaks something else.
    #[error("{call}: the container engine at {} broke the connection ({source})", socket.display())]
    Broken {
        /// Method and path.
        call: String,
        /// Its socket.
        socket: PathBuf,
        /// What was wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A limit of time is over.
    #[error("{call}: the container engine at {} did not answer within {time:?}", socket.display())]
    Timeout {
        /// Method and path.
        call: String,
        /// Its socket.
        socket: PathBuf,
        /// The limit.
        time: Duration,
    },
    /// It does not do that.
    #[error("{call}: the container engine at {} says {status}: {message}{}", socket.display(), hint(*status, message))]
    Refused {
        /// Method and path.
        call: String,
        /// Its socket.
        socket: PathBuf,
        /// The status of HTTP.
        status: u16,
        /// Its message.
        message: String,
    },
    /// Its answer is not what the API says.
    #[error("{call}: the answer of the container engine at {} cannot be read: {reason}", socket.display())]
    Answer {
        /// Method and path.
        call: String,
        /// Its socket.
        socket: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An image could not be pulled.
    #[error("the image {image} cannot be pulled: {message}{}", pull_hint(message))]
    Pull {
        /// Its name.
        image: String,
        /// What the engine says.
        message: String,
    },
}

impl EngineError {
    /// Whether another try may succeed by itself: the engine is away, being restarted, or busy.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Away { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            Self::Broken { .. } | Self::Timeout { .. } => true,
            Self::Refused { .. } | Self::Answer { .. } | Self::Pull { .. } => false,
        }
    }

    /// Whether the engine knows no such container, image or network.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether what was asked for does not go with the state that something is in, or a name is taken.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }
}

/// What to do when there is no connection.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => {
            "; start it (systemctl start docker, or podman.socket), or name its socket: [containers] socket = \"/path\""
        }
        io::ErrorKind::PermissionDenied => {
            "; this user may not use it: usermod -aG docker USER, or an engine of its own (podman.socket of the user)"
        }
        io::ErrorKind::ConnectionRefused => "; its socket is there and nobody listens: start the engine again",
        _ => "",
    }
}

/// What to do when it refuses.
fn hint(status: u16, message: &str) -> &'static str {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["no such image", "image not known"]) {
        "; pull it (pull = \"missing\"), or check its name and tag"
    } else if says(&["address already in use", "port is already allocated", "bind: address"]) {
        "; something else listens on that port of this machine: stop it, or publish another port"
    } else if says(&["network not found", "no such network", "unable to find network"]) {
        "; make the network first (docker network create NAME), or take `network` away"
    } else if says(&["executable file not found", "no such file or directory"]) && status != 404 {
        "; check `command` of the container and the paths in `volumes`"
    } else if says(&["rlimit", "ulimit"]) {
        "; the engine may not raise the limits that it gives by default: lower default_ulimits in containers.conf"
    } else {
        ""
    }
}

fn pull_hint(message: &str) -> &'static str {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["unauthorized", "denied", "authentication"]) {
        "; log the engine in (docker login REGISTRY), or check the name"
    } else if says(&["manifest unknown", "not found", "name unknown"]) {
        "; check its name and tag"
    } else if says(&["dial tcp", "lookup", "timeout", "connection refused", "no route", "pinging"]) {
        "; the registry cannot be reached from this machine: pull or load the image by hand, and write pull = \"never\""
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let away = |kind: io::ErrorKind| EngineError::Away { socket: "/run/docker.sock".into(), source: kind.into() };
        let text = away(io::ErrorKind::PermissionDenied).to_string();
        assert!(text.contains("/run/docker.sock") && text.contains("-aG docker"), "{text}");
        assert!(!away(io::ErrorKind::PermissionDenied).is_passing() && away(io::ErrorKind::NotFound).is_passing());
        let refused = |status, message: &str| EngineError::Refused {
            call: "POST /containers/create".to_owned(),
            socket: "/s".into(),
            status,
            message: message.to_owned(),
        };
        let text = refused(404, "no such image: x: image not known").to_string();
        assert!(text.contains("pull = \"missing\""), "{text}");
        assert!(refused(404, "no such container").is_not_found() && !refused(409, "in use").is_passing());
        let text = refused(500, "listen tcp4 127.0.0.1:80: bind: address already in use").to_string();
        assert!(text.contains("publish another port"), "{text}");
    }
}
