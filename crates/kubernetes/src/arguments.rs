//! What `pilotlight kubernetes` takes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Parser;

use crate::snapshot::Key;

/// The program's version of `--help` examples.
pub const EXAMPLES: &str = "Examples:
  pilotlight kubernetes                                in a pod, with the service account's token
  pilotlight kubernetes --port-offset 8000             without root: port 80 of a Gateway is listened on at 8080
  pilotlight kubernetes --config base.toml             with [cache.redis], [limits], [access_log] … of this file
  pilotlight kubernetes --namespace shop --namespace blog
                                                       with Roles in two namespaces instead of a ClusterRole
  pilotlight kubernetes --print                        the configuration that the cluster makes, and what is refused

It reads GatewayClass, Gateway, HTTPRoute and ReferenceGrant of the Gateway API, and Ingress. A workload with the
annotation pilotlight.dev/idle-timeout: 5m is scaled to zero when nobody uses it, and woken by its next request.";

/// Serve what Gateways and Ingresses of a Kubernetes cluster say; scale idle workloads to zero, wake them
#[derive(Clone, Debug, Parser)]
#[command(
    name = "kubernetes",
    bin_name = "pilotlight kubernetes",
    display_name = "pilotlight-kubernetes",
    version,
    after_help = EXAMPLES
)]
pub struct Arguments {
    /// A configuration file for everything that the cluster does not say; it has no `listen`
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the configuration for the cluster as it is now, and do nothing else
    #[arg(long)]
    pub print: bool,
    /// Read only this namespace; may be repeated [default: all]
    #[arg(long = "namespace", value_name = "NAMESPACE")]
    pub namespaces: Vec<String>,
    /// Only the GatewayClass and the IngressClass of this name [default: all with our controller]
    #[arg(long, value_name = "NAME")]
    pub class_name: Option<String>,
    /// The context of the kubeconfig [default: its current one; in a pod the service account]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Ports below 1024 are listened on at the port plus this
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub port_offset: u16,
    /// The address that is listened on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind: IpAddr,
    /// What statuses say of where the gateway is: an IP address or a host name; may be repeated [default: POD_IP]
    #[arg(long = "address", value_name = "ADDRESS", conflicts_with = "publish_service")]
    pub addresses: Vec<String>,
    /// Take that from this Service: its load balancer, else its cluster IP
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = key)]
    pub publish_service: Option<Key>,
    /// Where GET /livez and /readyz are answered
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8079)))]
    pub probe: SocketAddr,
    /// The namespace of the leases [default: POD_NAMESPACE, else that of the service account or the context]
    #[arg(long, value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// What this replica is called, unlike any other [default: POD_NAME, else the host's name and the process id]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

fn key(text: &str) -> Result<Key, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(Key::new(namespace, name)),
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}

impl Arguments {
    /// What this replica is called.
    #[must_use]
    pub fn replica_name(&self) -> String {
        let of_pod = || std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
        let of_host = || {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            format!("{host}-{}", std::process::id())
        };
        self.name.clone().or_else(of_pod).unwrap_or_else(of_host)
    }

    /// Addresses for statuses, where no Service has them.
    #[must_use]
    pub fn own_addresses(&self) -> Vec<String> {
        let of_pod = || std::env::var("POD_IP").ok().filter(|address| !address.is_empty());
        if self.addresses.is_empty() { of_pod().into_iter().collect() } else { self.addresses.clone() }
    }
}
