//! TLS as the operator sees it: handshakes, and each certificate with its names and its end.

use std::time::SystemTime;

use pilotlight_tls::{CertificateInfo, Source};
use serde_json::{Value, json};

use super::shared::Shared;

/// Handshakes since the start.
pub(super) struct Handshakes {
    pub(super) full: u64,
    pub(super) resumed: u64,
    pub(super) failed: u64,
}

impl Handshakes {
    pub(super) fn of(shared: &Shared) -> Self {
        let mut sum = Self { full: 0, resumed: 0, failed: 0 };
        for worker in &shared.common.metrics.connections {
            sum.full += worker.full_handshakes.value();
            sum.resumed += worker.resumed_handshakes.value();
            sum.failed += worker.failed_handshakes.value();
        }
        sum
    }
}

/// `null` while there is no certificate, and nobody has tried to shake hands.
pub(super) fn status(shared: &Shared) -> Value {
    let certificates = shared.common.tls.store().list();
    let Handshakes { full, resumed, failed } = Handshakes::of(shared);
    if certificates.is_empty() && full + resumed + failed == 0 {
        return Value::Null;
    }
    json!({
        "handshakes": { "full": full, "resumed": resumed, "failed": failed },
        "certificates": certificates.iter().map(certificate).collect::<Vec<_>>(),
    })
}

pub(super) fn certificate(CertificateInfo { source, certificate }: &CertificateInfo) -> Value {
    json!({
        "source": source_name(*source),
        "from": certificate.origin(),
        "names": certificate.names(),
        "issuer": certificate.issuer(),
        "serial": certificate.serial(),
        "not_before": httpdate::fmt_http_date(certificate.not_before()),
        "not_after": httpdate::fmt_http_date(certificate.not_after()),
        "ends_in_seconds": ends_in(certificate.not_after()),
    })
}

/// Negative when it is over.
pub(super) fn ends_in(end: SystemTime) -> i64 {
    let signed = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let now = SystemTime::now();
    end.duration_since(now).map_or_else(|over| -signed(over.duration()), signed)
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Files => "files",
        Source::Acme => "acme",
        Source::Internal => "internal",
    }
}

/// For Prometheus: by the first name of each certificate, seconds since 1970.
pub(super) fn ends(shared: &Shared) -> Vec<(String, u64)> {
    let all = shared.common.tls.store().list();
    let end = |info: &CertificateInfo| {
        let seconds = info.certificate.not_after().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (info.certificate.names().first().cloned().unwrap_or_default(), seconds.as_secs())
    };
    all.iter().map(end).collect()
}
