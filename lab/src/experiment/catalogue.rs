//! All experiments, by name.

use super::{Experiment, Extent};
use crate::cache::Cache;
use crate::capacity::Capacity;
use crate::clients::{Clients, Tool, Tunnel};
use crate::containers::Containers;
use crate::equals::Equals;
use crate::eviction::Eviction;
use crate::factors::{Factors, Study};
use crate::front::Front;
use crate::gateway::Gateway;
use crate::instructions::Instructions;
use crate::lambda::Lambda;
use crate::layers::Layers;
use crate::limits::Limits;
use crate::mcp::Mcp;
use crate::php::Php;
use crate::rest::Rest;
use crate::saves::Saves;
use crate::servers::Servers;
use crate::transport::Transport;

/// Every experiment, in the order of `--list` and of the report. A new one is one more line.
#[must_use]
pub fn all(extent: Extent) -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(Layers),
        Box::new(Gateway::usual(extent)),
        Box::new(Instructions::default()),
        Box::new(Capacity),
        Box::new(Cache),
        Box::new(Eviction),
        Box::new(Front),
        Box::new(Servers),
        Box::new(Limits),
        Box::new(Php::usual()),
        Box::new(Saves),
        Box::new(Transport::usual(extent)),
        Box::new(Lambda),
        Box::new(Mcp),
        Box::new(Containers),
        Box::new(Rest::usual(extent)),
        Box::new(Clients::usual(extent)),
        Box::new(Tool),
        Box::new(Tunnel::usual()),
        Box::new(Factors),
        Box::new(Study::usual(extent)),
        Box::new(Equals::usual(extent)),
    ]
}

/// The experiment of this name, measured for itself.
#[must_use]
pub fn find(name: &str) -> Option<Box<dyn Experiment>> {
    all(Extent::Alone).into_iter().find(|experiment| experiment.name() == name)
}
