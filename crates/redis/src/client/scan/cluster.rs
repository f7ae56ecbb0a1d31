//! The pages of a scan of a whole cluster: what [`ClusterScan`] wants to know is asked for here.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::filter::Filter;
use super::pages::Page;
use crate::client::handle::Client;
use crate::command::Command;
use crate::commands::spec;
use crate::config::NodeAddress;
use crate::engine::options::CallOptions;
use crate::engine::route::Route;
use crate::engine::routing;
use crate::error::table::Remedy;
use crate::error::{Error, ErrorKind, Ran};
use crate::proto::retry::Refresh;
use crate::proto::scan::{ClusterScan, Step, Survey, moving_slots, own_epoch, own_slots};
use crate::proto::slot::Slot;
use crate::proto::slot_set::SlotSet;
use crate::proto::topology::compare::{Consensus, consensus};
use crate::proto::topology::{Node, Topology};
use crate::reply::{FromReply, ScanReply};

/// Between two looks at slots that are on their way.
const PAUSE: Duration = Duration::from_millis(50);
/// For each answer to a survey: a node that is down must not keep the others waiting for long.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(2);

/// The next page.
pub(super) async fn page(
    client: &Client,
    scan: &mut ClusterScan,
    filter: &Filter,
    patience: Duration,
) -> Result<Page<Bytes>, Error> {
    let mut since = Instant::now();
    loop {
        let last = scan.clone();
        let problem = match scan.step() {
            Step::Done => return Ok(Page::End),
            Step::Survey => survey(client, scan).await.err(),
            Step::Pause => {
                let problem = waiting_for(scan);
                tokio::time::sleep(PAUSE).await;
                survey(client, scan).await.err().or(Some(problem))
            }
            Step::Scan { node, cursor } => {
                let route = Route::Node(node.clone());
                match ask(client, filter.command(cursor), &route).await {
                    Ok(reply) => {
                        observe(client, scan);
                        let keys: Vec<_> = reply.items.into_iter().filter(|key| scan.wants(key)).collect();
                        scan.page(reply.cursor);
                        return Ok(Page::Items(keys));
                    }
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => {
                        scan.node_lost();
                        Some(error)
                    }
                }
            }
        };
        match problem {
            Some(problem) if since.elapsed() >= patience => return Err(problem),
            // A node that is surveyed and lost in turn is no progress.
            Some(_) => tokio::time::sleep(PAUSE).await,
            None if last.remaining() != scan.remaining() => since = Instant::now(),
            None => {}
        }
    }
}

async fn ask(client: &Client, command: Command<'_>, route: &Route) -> Result<ScanReply<Bytes>, Error> {
    let value = routing::run(client.core(), &command, Some(route), CallOptions::by(client.core().config())).await?;
    ScanReply::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, command.name()))
}

/// The server will never answer otherwise.
fn is_final(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Server(server) => error.judge(server).remedy == Remedy::GiveUp,
        ErrorKind::Misuse(_) | ErrorKind::Reply(_) | ErrorKind::Closed => true,
        _ => false,
    }
}

fn waiting_for(scan: &ClusterScan) -> Error {
    let text = format!("slots {} are on their way or have no owner", scan.remaining());
    Error::new(ErrorKind::Cluster(text.into()), Ran::NotSent, "SCAN")
}

/// What the client has learnt meanwhile by redirects.
fn observe(client: &Client, scan: &mut ClusterScan) {
    if let Some(cluster) = client.core().cluster() {
        cluster.look(|topology| scan.observe(topology));
    }
}

/// Asks all primaries for their views. Only a node itself knows for certain which slots it has, and which are on their
/// way; others hear of it later.
async fn survey(client: &Client, scan: &mut ClusterScan) -> Result<(), Error> {
    let options = CallOptions::by(client.core().config());
    let timeout = options.timeout.map_or(SURVEY_TIMEOUT, |timeout| timeout.min(SURVEY_TIMEOUT));
    let options = CallOptions { timeout: Some(timeout), ..options };
    let all =
        async |command: Command<'_>| routing::on_all(client.core(), &Route::AllPrimaries, &command, options).await;
    let (maps, nodes, infos) = (
        all(Command::new(&spec::CLUSTER_SLOTS)).await?,
        all(Command::new(&spec::CLUSTER_NODES)).await?,
        all(Command::new(&spec::INFO).arg("server")).await?,
    );
    let mut problem = None;
    let mut views = Vec::new();
    for answer in maps {
        match answer.reply {
            Ok(value) => {
                let Ok(mut view) = Topology::from_slots(&value, &client.core().asked(&answer.node)) else { continue };
                let told = nodes.iter().find(|it| it.node == answer.node).and_then(|it| it.reply.as_ref().ok());
                told.iter().for_each(|told| view.learn_epochs(told));
                views.push(view);
            }
            Err(error) => problem = Some(error),
        }
    }
    let Some(Consensus { view: topology, .. }) = consensus(views) else {
        let nothing = || Error::new(ErrorKind::Cluster("no node tells a topology".into()), Ran::NotSent, "SCAN");
        return Err(problem.unwrap_or_else(nothing));
    };
    let texts = |answers: Vec<crate::engine::route::NodeReply>| {
        let text = |it: crate::engine::route::NodeReply| Some((it.node, String::from_reply(it.reply.ok()?).ok()?));
        answers.into_iter().filter_map(text).collect::<HashMap<NodeAddress, String>>()
    };
    let (nodes, infos) = (texts(nodes), texts(infos));
    let moving = unsettled(&topology, &nodes);
    let run_id = |node: &Node| {
        let id = infos.get(&node.announced)?.lines().find_map(|line| line.strip_prefix("run_id:"))?;
        let epoch = own_epoch(nodes.get(&node.announced)?)?;
        Some(format!("{}@{epoch}", id.trim()).into())
    };
    scan.surveyed(&Survey { topology: &topology, moving: &moving, run_id: &run_id });
    // The client's own topology may be behind: as long as it is, pages are compared with the wrong owners.
    client.core().cluster().into_iter().for_each(|cluster| {
        let differs = |own: &Topology| Slot::all().any(|slot| address(own, slot) != address(&topology, slot));
        if cluster.look(differs).unwrap_or(true) {
            cluster.want_refresh(Refresh::Urgent);
        }
    });
    Ok(())
}

/// Slots that are being migrated, and slots whose owner does not say itself that it has them.
fn unsettled(topology: &Topology, nodes: &HashMap<NodeAddress, String>) -> SlotSet {
    let mut moving = SlotSet::new();
    let mut own: HashMap<&NodeAddress, SlotSet> = HashMap::new();
    for (node, text) in nodes {
        moving.extend(&moving_slots(text));
        own.insert(node, own_slots(text));
    }
    for slot in Slot::all() {
        let is_certain = address(topology, slot).and_then(|owner| own.get(owner)).is_some_and(|own| own.contains(slot));
        if !is_certain {
            moving.insert(slot);
        }
    }
    moving
}

fn address(topology: &Topology, slot: Slot) -> Option<&NodeAddress> {
    topology.owner(slot).and_then(|owner| topology.node(owner)).map(|node| &node.announced)
}
