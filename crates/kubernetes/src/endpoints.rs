//! Where the endpoints of each service of the gateway are: the ready ones, by their own addresses. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::snapshot::{Key, Slice, Snapshot};
use crate::translate::Backend;

/// The weights that the gateway takes.
const MAX_WEIGHT: u64 = 1000;

/// An endpoint with its share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its share, 1 to 1000.
    pub weight: u32,
}

/// The endpoints of each service, in the order of their addresses.
#[must_use]
pub fn endpoints(snapshot: &Snapshot, backends: &BTreeMap<String, Backend>) -> BTreeMap<String, Vec<Endpoint>> {
    let mut of_services: BTreeMap<&Key, Vec<&Slice>> = BTreeMap::new();
    for slice in snapshot.slices.values() {
        of_services.entry(&slice.service).or_default().push(slice);
    }
    backends.iter().map(|(name, backend)| (name.clone(), of(backend, &of_services))).collect()
}

fn of(backend: &Backend, of_services: &BTreeMap<&Key, Vec<&Slice>>) -> Vec<Endpoint> {
    let mut parts: Vec<(Vec<SocketAddr>, u64)> = Vec::with_capacity(backend.parts.len());
    for part in &backend.parts {
        let mut found = Vec::new();
        for slice in of_services.get(&part.service).into_iter().flatten() {
            let ports = slice.ports.iter().filter(|(name, _)| *name == part.port);
            for (_, port) in ports {
                found.extend(slice.ready.iter().map(|address| SocketAddr::new(*address, *port)));
            }
        }
        found.sort_unstable();
        found.dedup(); // one may be in two slices for a moment
        if !found.is_empty() {
            parts.push((found, u64::from(part.weight)));
        }
    }
    if let [(only, _)] = &parts[..] {
        return only.iter().map(|address| Endpoint { address: *address, weight: 1 }).collect();
    }
    // The share of a Service is spread over its endpoints: as a fraction of the largest share of one endpoint, so that
    // the numbers stay small.
    let share = |(found, weight): &(Vec<SocketAddr>, u64)| *weight * 1_000_000 / found.len() as u64;
    let largest = parts.iter().map(share).max().unwrap_or(1).max(1);
    let mut all: Vec<Endpoint> = Vec::new();
    for part in &parts {
        let weight = (share(part) * MAX_WEIGHT / largest).clamp(1, MAX_WEIGHT);
        let weight = u32::try_from(weight).unwrap_or(1);
        all.extend(part.0.iter().map(|address| Endpoint { address: *address, weight }));
    }
    all.sort_unstable();
    all.dedup_by_key(|endpoint| endpoint.address);
    all
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::translate::BackendPart;

    fn slice(service: &str, ready: &[u8], port: u16) -> Slice {
        Slice {
            service: Key::new("ns", service),
            ports: vec![("http".to_owned(), port), ("metrics".to_owned(), 9000)],
            ready: ready.iter().map(|last| IpAddr::from([10, 0, 0, *last])).collect(),
        }
    }

    fn part(service: &str, weight: u32) -> BackendPart {
        BackendPart { service: Key::new("ns", service), port: "http".to_owned(), weight }
    }

    fn found(slices: Vec<Slice>, parts: Vec<BackendPart>) -> Vec<(String, u32)> {
        let named = slices.into_iter().enumerate().map(|(index, slice)| (Key::new("ns", &index.to_string()), slice));
        let snapshot = Snapshot { slices: named.collect(), ..Snapshot::default() };
        let backends = BTreeMap::from([("a".to_owned(), Backend { parts, ..Backend::default() })]);
        let found = endpoints(&snapshot, &backends).remove("a").unwrap();
        found.into_iter().map(|endpoint| (endpoint.address.to_string(), endpoint.weight)).collect()
    }

    #[test]
    fn those_of_all_slices_with_the_port_of_the_service() {
        let slices = vec![slice("a", &[2, 1], 80), slice("a", &[2, 3], 81), slice("b", &[9], 80)];
        let expected =
            ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.2:81", "10.0.0.3:81"].map(|address| (address.to_owned(), 1));
        assert_eq!(found(slices, vec![part("a", 1)]), expected);
    }

    #[test]
    fn shares_are_those_of_services_not_of_endpoints() {
        let slices = vec![slice("a", &[1, 2, 3], 80), slice("b", &[9], 80)];
        let all = found(slices.clone(), vec![part("a", 9), part("b", 1)]);
        let of_a: u32 = all.iter().filter(|(address, _)| !address.contains("0.9:")).map(|(_, weight)| weight).sum();
        let of_b: u32 = all.iter().filter(|(address, _)| address.contains("0.9:")).map(|(_, weight)| weight).sum();
        assert_eq!((of_a, of_b), (3000, 333));
        // Who has nobody leaves its share to the others.
        assert_eq!(found(slices, vec![part("a", 1), part("c", 5)]).len(), 3);
    }

    #[test]
    fn nobody() {
        assert_eq!(found(Vec::new(), vec![part("a", 1)]), []);
    }
}
