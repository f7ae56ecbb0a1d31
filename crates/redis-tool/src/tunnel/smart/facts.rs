//! `INFO` and `ROLE`: a server's own reply, without what its clients could go past the tunnel with. They see one
//! primary that is no node of a cluster and has no replicas, as `HELLO` says.

use bytes::Bytes;
use pilotlight_redis::{Commands, Value};

use super::replies::error_text;
use super::session::Session;
use crate::tunnel::request::Request;

impl Session {
    pub(super) async fn facts(&mut self, request: &Request<'_>) {
        let reply = match self.end.whole.run::<Value>(request.command()).await {
            Ok(reply) => reply,
            Err(error) => return self.wire.error(&error_text(&error)),
        };
        let reply = match request.name() {
            "ROLE" => role(reply),
            _ => info(reply, self.entry.port()),
        };
        self.wire.value(&reply, self.client.protocol);
    }
}

/// `ROLE` of a primary without replicas.
fn role(reply: Value) -> Value {
    let Value::Array(parts) = &reply else { return reply };
    let offset = match parts.as_slice() {
        [_, offset @ Value::Integer(_), Value::Array(_)] => offset.clone(),
        [_, _, _, _, offset @ Value::Integer(_)] => offset.clone(),
        _ => return reply,
    };
    Value::Array(vec![Value::Bulk(Bytes::from_static(b"master")), offset, Value::Array(Vec::new())])
}

fn info(reply: Value, port: Option<u16>) -> Value {
    let rewrite = |text: &Bytes| Bytes::from(rewritten(&String::from_utf8_lossy(text), port));
    match reply {
        Value::Bulk(text) => Value::Bulk(rewrite(&text)),
        Value::Verbatim { format, text } => Value::Verbatim { format, text: rewrite(&text) },
        other => other,
    }
}

/// The lines of `INFO`, with the tunnel's port for the server's.
fn rewritten(text: &str, port: Option<u16>) -> String {
    let mut is_replication = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.starts_with('#') {
            is_replication = line.trim_end() == "# Replication";
        }
        let (name, _) = line.split_once(':').unwrap_or((line, ""));
        let is_of_others = is_replication
            && (name.starts_with("slave") || name.starts_with("replica") || name.starts_with("master_link"))
            || ["master_host", "master_port", "master_last_io_seconds_ago", "master_sync_in_progress"].contains(&name)
            || name.strip_prefix("listener").is_some_and(|number| number.parse::<u32>().is_ok());
        if is_of_others {
            continue;
        }
        let instead = match name {
            "redis_mode" | "server_mode" => "standalone",
            "role" if is_replication => "master",
            "connected_slaves" | "cluster_enabled" => "0",
            "tcp_port" => match port {
                Some(port) => {
                    out.push_str(&format!("tcp_port:{port}\r\n"));
                    continue;
                }
                None => "0",
            },
            _ => {
                out.push_str(line);
                continue;
            }
        };
        out.push_str(&format!("{name}:{instead}\r\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_of_one_primary() {
        let text = "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\nserver_mode:cluster\r\ntcp_port:7001\r\n\
                    listener0:name=tcp,bind=10.0.0.1,port=7001\r\n\r\n# Replication\r\nrole:slave\r\nmaster_host:10.0.0.2\r\n\
                    master_port:7002\r\nmaster_link_status:up\r\nslave_repl_offset:14\r\nconnected_slaves:2\r\n\
                    slave0:ip=10.0.0.3,port=7003\r\nmaster_replid:ab\r\nmaster_repl_offset:14\r\n\r\n\
                    # Stats\r\nslave_expires_tracked_keys:0\r\n# Cluster\r\ncluster_enabled:1\r\n";
        let expected = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nserver_mode:standalone\r\ntcp_port:9\r\n\
                        \r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:ab\r\nmaster_repl_offset:14\r\n\r\n\
                        # Stats\r\nslave_expires_tracked_keys:0\r\n# Cluster\r\ncluster_enabled:0\r\n";
        assert_eq!(rewritten(text, Some(9)), expected);
    }

    #[test]
    fn the_role_is_that_of_one_primary() {
        let text = |text: &'static str| Value::Bulk(text.into());
        let expected = Value::Array(vec![text("master"), Value::Integer(7), Value::Array(Vec::new())]);
        let replica = Value::Array(vec![text("10.0.0.3"), text("7003"), text("7")]);
        for reply in [
            Value::Array(vec![text("master"), Value::Integer(7), Value::Array(vec![replica])]),
            Value::Array(vec![
                text("slave"),
                text("10.0.0.2"),
                Value::Integer(7002),
                text("connected"),
                Value::Integer(7),
            ]),
        ] {
            assert_eq!(role(reply), expected);
        }
    }
}
