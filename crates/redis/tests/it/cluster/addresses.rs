//! Nodes that are not where, or not what, they say: NAT, host names, IPv6, TLS.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::{AddressMap, NodeAddress, Pem, TlsConfig, TlsRoots};
use pilotlight_redis::{Client, Commands, Config, ErrorKind};
use pilotlight_testkit::{Accepting, Ending, FaultProxy};

use crate::bed::{Bed, Proxies, preimages};
use crate::spare::Single;

async fn uses(client: &Client) {
    for key in preimages().iter().step_by(500) {
        client.set(key, key).await.unwrap();
        assert_eq!(client.get(key).await.unwrap(), Some(Bytes::from(key.clone())));
    }
}

/// Moves a slot, so that a redirect names the node, too.
async fn is_redirected(bed: &Bed, client: &Client) {
    client.set("{a}1", "v").await.unwrap();
    bed.run(|cluster| {
        let (source, slot) = cluster.node_for_key("{a}1").unwrap();
        let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
        cluster.move_slot(slot, target).unwrap();
    })
    .await;
    assert_eq!(client.get("{a}1").await.unwrap().as_deref(), Some(&b"v"[..]));
    assert!(bed.errors("MOVED") > 0);
}

#[tokio::test]
async fn are_translated_by_a_table() {
    let bed = Bed::start(3, 0).await;
    let proxies = Proxies::new(&bed).await;
    let client = Client::new(Config { address_map: proxies.address_map(), ..bed.config() }).unwrap();
    uses(&client).await;
    is_redirected(&bed, &client).await;
    assert!(proxies.all().iter().all(|proxy| proxy.stats().bytes_to_server > 0));
    // Nobody goes past the proxies.
    for proxy in proxies.all() {
        proxy.set_accepting(Accepting::Refuse).await.unwrap();
        proxy.end_all(Ending::Close);
    }
    let error = client.set("k", "v").timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect(_) | ErrorKind::Connection(_)), "{error}");
}

#[tokio::test]
async fn are_translated_by_a_function() {
    let bed = Bed::start(3, 0).await;
    let mut announced = Vec::new();
    for node in bed.nodes() {
        let nowhere = FaultProxy::to(node.server().addr()).await.unwrap();
        announced.push((nowhere.port(), node.port()));
        let (id, port) = (node.id().to_owned(), nowhere.port());
        bed.run(move |cluster| cluster.announce_port(cluster.node(&id).unwrap(), port).unwrap()).await;
        nowhere.set_accepting(Accepting::Refuse).await.unwrap();
        // It keeps the port.
        std::mem::forget(nowhere);
    }
    let ports = announced.clone();
    let function = move |address: &NodeAddress| {
        let (_, real) = *ports.iter().find(|(outer, _)| *address == NodeAddress::tcp("127.0.0.1", *outer))?;
        Some(NodeAddress::tcp("127.0.0.1", real))
    };
    let client = Client::new(Config { address_map: AddressMap::Function(Arc::new(function)), ..bed.config() }).unwrap();
    uses(&client).await;
    is_redirected(&bed, &client).await;
    let outer: Vec<_> = announced.iter().map(|(outer, _)| format!("127.0.0.1:{outer}")).collect();
    assert!(
        client.stats().lanes.iter().all(|lane| outer.contains(&lane.node.to_string())),
        "a node is called what it announces"
    );
}

#[tokio::test]
async fn may_be_host_names() {
    let bed = Bed::single(Single::HostNames).await;
    let client = bed.client();
    client.set("k", "v").await.unwrap();
    assert!(client.stats().lanes.iter().any(|lane| lane.node.starts_with("localhost:")), "{:?}", client.stats());
    uses(&client).await;
    is_redirected(&bed, &client).await;
}

#[tokio::test]
async fn may_be_unknown_to_the_nodes() {
    let bed = Bed::single(Single::UnknownEndpoints).await;
    let client = bed.client();
    uses(&client).await;
    is_redirected(&bed, &client).await;
}

#[tokio::test]
async fn may_be_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("no IPv6 loopback here");
        return;
    }
    let bed = Bed::single(Single::Ipv6).await;
    let client = Client::new(Config::cluster([NodeAddress::tcp("::1", bed.nodes()[0].port())])).unwrap();
    uses(&client).await;
    is_redirected(&bed, &client).await;
    assert!(client.stats().lanes.iter().all(|lane| lane.node.starts_with("[::1]:")), "{:?}", client.stats());
}

#[tokio::test]
async fn may_be_secured() {
    let bed = Bed::single(Single::Secured).await;
    let ca = bed.nodes()[0].server().certificates().unwrap().ca_pem().as_bytes().into();
    let tls = TlsConfig { roots: TlsRoots::Only(Pem::Text(ca)), ..TlsConfig::default() };
    let client = Client::new(bed.config().with_tls(tls)).unwrap();
    uses(&client).await;
    is_redirected(&bed, &client).await;
}
