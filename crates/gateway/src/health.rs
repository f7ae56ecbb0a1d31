//! Health requests: of an instance that gets no other before (the first of a new release), and of servers that somebody
//! else runs.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use pilotlight_files::{FilesOptions, ScriptOptions};
use pilotlight_supervisor::{Examination, HealthCheck, Lease};

use crate::exchange::site::{self, Site};
use crate::head::Head;
use crate::options::{RouteLimit, ServiceTarget};
use crate::outbound::Outbound;
use crate::peer_address::{Entrance, PeerAddress};
use crate::target::Trust;
use crate::upstream::first_byte::FirstByte;
use crate::upstream::one_try::{Kept, Try};
use crate::upstream::server::Server;
use crate::upstream::silence::SilenceLimit;
use crate::upstream::{SendError, ServiceResponse, cgi, http as http1, http2, https, lambda, pipe};
use crate::worker::{Upstream, Worker};

pub(crate) mod servers;

/// The setting that limits how long its answer may take.
const TIMEOUT: &str = "health.timeout";

/// Asks an instance whether it is healthy, and tells the supervisor.
pub(crate) async fn examine(worker: Rc<Worker>, examination: Box<Examination>) {
    let Examination { service, transport, health, lease, moved } = *examination;
    let instance = Arc::clone(lease.instance());
    let upstream = worker.upstream(&ServiceTarget::Managed(service, transport));
    let asked = Asked { health: &health, host: &health.host, moved, server: None };
    let verdict = judged(&health, ask(&worker, &upstream, asked, Some(lease)).await);
    instance.report_health(verdict.map_err(|why| format!("it is not healthy: {why}")));
}

/// The status of a good answer, or what is wrong.
fn judged(health: &HealthCheck, answer: Result<ServiceResponse, String>) -> Result<u16, String> {
    let target = &health.target;
    match answer.map(|response| response.status.as_u16()) {
        Ok(status) if health.status.has(status) => Ok(status),
        Ok(status) => Err(format!("it answered GET {target} with status {status}, not with {}", health.status)),
        Err(why) => Err(format!("GET {target} was not answered: {why}")),
    }
}

/// What an instance, or a server, is asked.
struct Asked<'a> {
    health: &'a HealthCheck,
    host: &'a str,
    /// The folder of the settings, and that of its release.
    moved: Option<(PathBuf, PathBuf)>,
    /// The server of somebody else's.
    server: Option<&'a Server<'a>>,
}

/// The scripts of the release that is tried, while the settings lead to the one before.
fn of_release(scripts: &ScriptOptions, moved: Option<&(PathBuf, PathBuf)>) -> ScriptOptions {
    let mut scripts = scripts.clone();
    if let Some((link, dir)) = moved
        && let Ok(within) = scripts.files.root.strip_prefix(link)
    {
        scripts.files = Arc::new(FilesOptions { root: dir.join(within), ..(*scripts.files).clone() });
    }
    scripts
}

async fn ask(
    worker: &Rc<Worker>,
    upstream: &Upstream,
    Asked { health, host, moved, server }: Asked<'_>,
    mut lease: Option<Lease>,
) -> Result<ServiceResponse, String> {
    let mut outbound = outbound(worker, &health.target, host);
    let silence = SilenceLimit::new(RouteLimit::Own(Some(health.timeout)), None);
    let limit = Some((health.timeout, TIMEOUT));
    let mut first_byte = Some(FirstByte::new(worker.deadlines.deadline(), limit, None, silence));
    let mut one = Try { lease: &mut lease, first_byte: &mut first_byte };
    let sent = match upstream {
        Upstream::Pipe(_, link) => Box::pin(pipe::send(link, &mut one, &outbound, None)).await,
        Upstream::Http(_, pool) | Upstream::External(_, pool) => {
            Box::pin(http1::send(pool, server, &mut one, &outbound, None, Kept::IsNotUsed)).await
        }
        Upstream::Http2(_, pool) => Box::pin(http2::send(pool, None, &mut one, &outbound, None, Kept::IsNotUsed)).await,
        Upstream::ExternalTls(external, http1, http2) => {
            let pools = https::Pools { http1, http2 };
            Box::pin(https::send(external, server, pools, &mut one, &outbound, None, Kept::MayBeUsed)).await
        }
        // A connection for each would be kept for a minute.
        Upstream::ExternalHttp2(_, pool) => {
            Box::pin(http2::send(pool, server, &mut one, &outbound, None, Kept::MayBeUsed)).await
        }
        Upstream::Cgi(_, protocol, pool) | Upstream::ExternalCgi(_, protocol, pool) => {
            let table = worker.common.table.load();
            let options = table.cgi(&pool.service).map(|options| &**options);
            if let Some(scripts) = options.and_then(|options| options.scripts.as_ref()) {
                let path = site::path_of(&health.target);
                let scripts = of_release(scripts, moved.as_ref());
                match site::find(worker, &scripts, None, &outbound.head, path).map_err(|e| e.log_text())? {
                    Site::Script(script) => outbound.script = Some(script),
                    Site::Own(_) => return Err("a file answers for it, which says nothing of the program".to_owned()),
                }
            }
            let to = cgi::To { pool, protocol: *protocol, options, external: server };
            Box::pin(cgi::send(to, &mut one, &outbound, None, Kept::IsNotUsed)).await
        }
        Upstream::Lambda(service) => {
            let table = worker.common.table.load();
            let (functions, options) = (&worker.common.functions, table.lambda(service.name()));
            let options = options.map(|options| &**options);
            Box::pin(lambda::send(functions, service, options, &mut one, &outbound, None)).await
        }
    };
    sent.map_err(|failed| match failed.error {
        SendError::Upstream(error) => error.to_string(),
        SendError::Client(error) => error.to_string(),
        SendError::Start(error) => error.to_string(),
    })
}

fn outbound(worker: &Worker, target: &str, host: &str) -> Outbound {
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(HOST, host);
    set(USER_AGENT, "Pilotlight-Health");
    Outbound {
        head: Head::get(target.into(), host.into(), headers),
        id: worker.ids.id(None),
        peer: PeerAddress::of("", Entrance::NONE, None),
        stripped: None,
        changes: None,
        trust: Trust::Nobody,
        validators: None,
        upgrade: None,
        interim: None,
        trace: None,
        is_cached: false,
        script: None,
        event: None,
    }
}
