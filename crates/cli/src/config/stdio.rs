//! `stdio` of a service: how a program that speaks lines on its standard streams is answered over HTTP.

use pilotlight_stdio::{Mode, StdioOptions};
use pilotlight_supervisor::{MinInstances, ServiceSpec, Spare, Transport};

use super::diagnostic::{Code, Diagnostic};
use super::readers::{choice, read_words};
use super::schema::Part;
use super::section::{Field, Section, a_number, a_size, noted};
use super::shown::shown;
use super::value::Rejected;

/// What cannot be set for such a program.
pub(super) fn check(section: &Section<'_>, spec: &ServiceSpec, found: &mut Vec<Diagnostic>) {
    if spec.transport != Transport::Stdio {
        return;
    }
    let one_adapter = "one adapter has all its processes, as they belong to clients";
    let processes = "take it away; `stdio.max_processes` says how many processes there may be";
    let refused = [
        ("max_instances", spec.max_instances > 1, one_adapter, processes),
        ("spare", spec.spare == Spare::One, one_adapter, processes),
        ("min_instances", spec.min_instances == MinInstances::One, "a process is started for a client", processes),
        (
            "freeze_after",
            spec.freeze_after.is_some(),
            "its processes are ended when they are idle",
            "take it away; `idle_timeout` says when",
        ),
    ];
    for (name, is_set, why, help) in refused {
        if let Some(field) = section.field(name).filter(|_| is_set) {
            let message = format!("`{name}` does not go with transport = \"stdio\": {why}");
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        }
    }
}

/// Reads the value of `stdio`.
pub(super) fn read(
    section: &Section<'_>,
    spec: Option<&ServiceSpec>,
    found: &mut Vec<Diagnostic>,
) -> Option<StdioOptions> {
    if spec.is_none_or(|spec| spec.transport != Transport::Stdio) {
        if let Some(field) = section.field("stdio") {
            let message =
                "`stdio` is for programs that speak lines on their standard streams, and this service is none";
            let help = "add transport = \"stdio\", or take `stdio` away";
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        }
        return None;
    }
    let section = section.part("stdio", Part::ServiceStdio, "in the service's stdio", found);
    let section = section.unwrap_or_else(|| Section::empty(0..0));
    let mut options = StdioOptions::default();
    section.set("mode", mode, &mut options.mode, found);
    section.set("max_processes", a_number(&StdioOptions::MAX_PROCESSES), &mut options.max_processes, found);
    section.set("max_line", a_size(&StdioOptions::MAX_LINE), &mut options.max_line, found);
    section.set("replay_buffer", a_size(&StdioOptions::REPLAY_BUFFER), &mut options.replay_buffer, found);
    if let Some(field) = section.field("origins") {
        options.origins = origins(&field, found);
    }
    Some(options)
}

fn mode(field: &Field<'_>) -> Result<Mode, Diagnostic> {
    let name = choice(field, &Mode::ALL.map(Mode::name))?;
    Ok(Mode::ALL.into_iter().find(|mode| mode.name() == name).unwrap_or_default())
}

fn origins(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Vec<String> {
    let Some(list) = field.value.as_array() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if list.len() > StdioOptions::MAX_ORIGINS {
        let wrong = format!("{} origins are more than the {} allowed", list.len(), StdioOptions::MAX_ORIGINS);
        found.push(field.rejected(Rejected::new(wrong)));
        return Vec::new();
    }
    let words = read_words(field, list, found).unwrap_or_default();
    let good = words.into_iter().filter_map(|(word, at)| {
        let checked = if is_origin(&word) {
            Ok(word)
        } else {
            let message = format!("{} is not an origin as browsers send it", shown(&word));
            let help = "write scheme, host and port, if that is not the usual one: \"https://app.example\"";
            Err(Diagnostic::error(Code::BadValue, at, message).help(help))
        };
        noted(checked, found)
    });
    good.collect()
}

/// Scheme, host and perhaps a port, in small letters and without a path.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    authority.is_some_and(|authority| !authority.is_empty() && authority.bytes().all(is_good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_as_browsers_send_them() {
        for good in ["https://app.example", "http://localhost:6274", "http://[::1]:80"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["app.example", "https://", "https://app.example/", "https://App.example", "*", "https://*.example"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
