//! What `pilotlight run` prints when it listens.

use std::io::{IsTerminal, Write};

use pilotlight_gateway::{Admin, Gateway, RouteSpec};

use crate::config::{Config, Listener};

/// What is listening, and what to try.
pub(crate) fn announce(config: &Config, gateway: &Gateway, admin: Option<&Admin>) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for address in gateway.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    if let Some(address) = admin.and_then(Admin::metrics_address) {
        writeln!(out, "metrics on http://{address}/metrics")?;
    }
    let bases = bases(config, gateway);
    let urls: Vec<(&RouteSpec, String)> =
        config.routes.iter().filter_map(|route| Some((route, url(&bases, route)?))).collect();
    if !urls.is_empty() {
        let width = urls.iter().map(|(_, url)| url.len()).max().unwrap_or(0);
        writeln!(out)?;
        for (route, url) in &urls {
            let host = route.host.as_ref().map(|host| format!("  (host {host})")).unwrap_or_default();
            writeln!(out, "  {url:width$}  {}{host}", config.destination(route))?;
        }
        writeln!(out, "\ntry:")?;
        for (_, url) in urls.iter().filter(|(route, _)| route.host.is_none()).take(3) {
            writeln!(out, "  curl -i {url}")?;
        }
    }
    if std::io::stdout().is_terminal() {
        writeln!(out, "\nCtrl-C stops everything.")?;
    }
    out.flush()
}

/// What URLs begin with.
struct Base {
    port: Option<u16>,
    text: String,
}

/// What URLs begin with at each address that has some, by the name that its certificate has.
fn bases(config: &Config, gateway: &Gateway) -> Vec<Base> {
    let addresses = gateway.addresses();
    let listeners = addresses.iter().map(|address| (address.port(), address.to_string())).zip(&config.listen);
    let with_urls = listeners.filter(|((_, text), _)| text.starts_with("http"));
    let base = |((port, text), listener): ((Option<u16>, String), &Listener)| match (&listener.local_host, port) {
        (Some(host), Some(number)) => Base { port, text: format!("https://{host}:{number}") },
        _ => Base { port, text },
    };
    with_urls.map(base).collect()
}

/// URL of a route at the first address that it is for.
fn url(bases: &[Base], route: &RouteSpec) -> Option<String> {
    let ports = route.when.as_ref().map_or(&[][..], |when| &when.ports);
    let is_for = |base: &&Base| ports.is_empty() || base.port.is_some_and(|port| ports.contains(&port));
    bases.iter().find(is_for).map(|base| format!("{}{}", base.text, route.path))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    #[test]
    fn a_route_is_tried_at_a_port_that_it_is_for() {
        let text = "listen = [\"127.0.0.1:80\", \"127.0.0.1:8090\"]\n[[routes]]\npath = \"/a\"\nfiles = \"w\"\n\
                    [[routes]]\npath = \"/b\"\nfiles = \"w\"\nwhen = { ports = [8090] }\n\
                    [[routes]]\npath = \"/c\"\nfiles = \"w\"\nwhen = { ports = [9] }\n";
        let config = parse(text, Path::new("/x/pilotlight.toml")).unwrap_or_else(|e| panic!("{e}")).config;
        let bases = [80, 8090].map(|port| Base { port: Some(port), text: format!("http://127.0.0.1:{port}") });
        let urls: Vec<Option<String>> = config.routes.iter().map(|route| url(&bases, route)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(urls, [some("http://127.0.0.1:80/a"), some("http://127.0.0.1:8090/b"), None]);
    }
}
