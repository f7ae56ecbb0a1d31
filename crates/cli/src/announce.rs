//! What `pilotlight run` prints when it listens.

use std::io::{IsTerminal, Write};

use pilotlight_gateway::{Admin, Gateway};

use crate::config::Config;

/// What is listening, and what to try.
pub(crate) fn announce(config: &Config, gateway: &Gateway, admin: Option<&Admin>) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for address in gateway.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    if let Some(address) = admin.and_then(Admin::metrics_address) {
        writeln!(out, "metrics on http://{address}/metrics")?;
    }
    if let Some(base) = base(config, gateway) {
        let width = config.routes.iter().map(|route| base.len() + route.path.len()).max().unwrap_or(0);
        writeln!(out)?;
        for route in &config.routes {
            let host = route.host.as_ref().map(|host| format!("  (host {host})")).unwrap_or_default();
            let url = format!("{base}{}", route.path);
            writeln!(out, "  {url:width$}  {}{host}", config.destination(route))?;
        }
        writeln!(out, "\ntry:")?;
        for route in config.routes.iter().filter(|route| route.host.is_none()).take(3) {
            writeln!(out, "  curl -i {base}{}", route.path)?;
        }
    }
    if std::io::stdout().is_terminal() {
        writeln!(out, "\nCtrl-C stops everything.")?;
    }
    out.flush()
}

/// What URLs begin with: the first address that is one, by the name that its certificate has.
fn base(config: &Config, gateway: &Gateway) -> Option<String> {
    let addresses = gateway.addresses();
    let mut listeners = addresses.iter().map(ToString::to_string).zip(&config.listen);
    let (address, listener) = listeners.find(|(address, _)| address.starts_with("http"))?;
    match (&listener.local_host, address.rsplit_once(':')) {
        (Some(host), Some((_, port))) => Some(format!("https://{host}:{port}")),
        _ => Some(address),
    }
}
