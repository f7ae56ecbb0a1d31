//! Which script a service by FastCGI, SCGI or uwsgi would run for a request, or what is answered in its place.

use std::time::Instant;

use percent_encoding::percent_decode_str;
use pilotlight_files::{FileCache, Place, Script, ScriptOptions};
use pilotlight_supervisor::Transport;
use serde_json::{Value, json};

use crate::exchange::site::path_of;
use crate::options::{CgiOptions, ServerProtocol, ServiceTarget};
use crate::problem::Failure;
use crate::routes::Route;

/// Explains a path and query as the service gets them; `None`: its service speaks another protocol.
pub(super) fn explain(route: &Route, sent: &str) -> Option<Value> {
    if !is_told_variables(route.service.as_ref()?) {
        return None;
    }
    let options = route.cgi.as_deref();
    let path = path_of(sent);
    Some(match options.and_then(|options| options.scripts.as_ref()) {
        Some(scripts) => in_folder(options, scripts, path),
        None => whole(options, route, path),
    })
}

fn is_told_variables(service: &ServiceTarget) -> bool {
    match service {
        ServiceTarget::Managed(_, transport) => {
            matches!(transport, Transport::FastCgi(_) | Transport::Scgi(_) | Transport::Uwsgi(_))
        }
        ServiceTarget::External(external) => matches!(external.spec().protocol, ServerProtocol::Cgi(_)),
    }
}

/// Looks into the folder of scripts as a request would.
fn in_folder(options: Option<&CgiOptions>, scripts: &ScriptOptions, path: &str) -> Value {
    match FileCache::default().place(scripts, path, Instant::now()) {
        Ok(Place::Script(Script { root, names, path_info })) => {
            let file = root.join(&names).display().to_string();
            json!({
                "SCRIPT_FILENAME": told(options, "SCRIPT_FILENAME", Some(file)),
                "SCRIPT_NAME": told(options, "SCRIPT_NAME", Some(format!("/{names}"))),
                "PATH_INFO": told(options, "PATH_INFO", Some(path_info).filter(|info| !info.is_empty())),
            })
        }
        Ok(Place::File(below)) => json!({ "file": format!("{}{below}", scripts.files.root.display()) }),
        Ok(Place::Folder) => json!({ "redirect": format!("{path}/") }),
        Err(error) => {
            let failure = Failure::Files(error);
            json!({ "status": failure.status().as_u16(), "why": failure.log_text() })
        }
    }
}

/// A service without a folder is one program.
fn whole(options: Option<&CgiOptions>, route: &Route, path: &str) -> Value {
    let stripped = if route.strip_prefix { route.path.trim_end_matches('/') } else { "" };
    let info = percent_decode_str(path).decode_utf8_lossy().into_owned();
    json!({
        "SCRIPT_NAME": told(options, "SCRIPT_NAME", Some(stripped.to_owned())),
        "PATH_INFO": told(options, "PATH_INFO", Some(info)),
    })
}

/// The value of a variable that the program gets. One in `params` overrides the one of the gateway.
fn told(options: Option<&CgiOptions>, name: &str, found: Option<String>) -> Option<String> {
    let set = options.and_then(|options| options.params.iter().find(|(set, _)| set == name));
    set.map(|(_, value)| value.clone()).or(found)
}
