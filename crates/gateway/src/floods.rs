//! Addresses whose connections were ended for a flood of frames. What one connection costs until it is ended is
//! bounded; opened again and again they would cost without an end.
//!
//! Addresses of this machine are spared, and those of proxies that are trusted: others stand behind them.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections of one address that may be ended for a flood within [`WINDOW`]; after that many its new ones are closed
/// at once until the window is over.
const MAX_FLOODS: u32 = 8;
/// From the first of them.
const WINDOW: Duration = Duration::from_secs(10);
/// Addresses that are remembered; with one more the oldest is forgotten.
const MAX_ADDRESSES: usize = 1024;

/// An address, and what its connections were ended for.
#[derive(Debug)]
struct Flooder {
    network: IpAddr,
    since: Instant,
    floods: u32,
}

/// Those of all listeners.
#[derive(Debug, Default)]
pub(crate) struct Floods {
    /// Whether there are any, for whoever accepts a connection.
    any: AtomicBool,
    list: Mutex<Vec<Flooder>>,
}

impl Floods {
    /// A connection from there was ended. Returns whether the next ones will be closed from now on.
    pub(crate) fn came(&self, address: IpAddr, now: Instant) -> bool {
        if address.is_loopback() {
            return false;
        }
        let Ok(mut list) = self.list.lock() else { return false };
        list.retain(|flooder| now.duration_since(flooder.since) < WINDOW);
        let network = network(address);
        let floods = match list.iter_mut().find(|flooder| flooder.network == network) {
            Some(flooder) => {
                flooder.floods += 1;
                flooder.floods
            }
            None => {
                if list.len() == MAX_ADDRESSES {
                    list.remove(0);
                }
                list.push(Flooder { network, since: now, floods: 1 });
                1
            }
        };
        self.any.store(true, Ordering::Relaxed);
        floods == MAX_FLOODS
    }

    /// Whether a new connection from there is to be closed at once.
    pub(crate) fn refuses(&self, address: impl FnOnce() -> Option<IpAddr>, now: impl FnOnce() -> Instant) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let (Some(address), Ok(mut list)) = (address(), self.list.lock()) else { return false };
        let now = now();
        list.retain(|flooder| now.duration_since(flooder.since) < WINDOW);
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        let network = network(address);
        list.iter().any(|flooder| flooder.network == network && flooder.floods >= MAX_FLOODS)
    }
}

/// Who has one address of IPv6 has the 2⁶⁴ of its network (RFC 4291 §2.5.4).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_floods_again_and_again_is_refused_for_a_while() {
        let (floods, now) = (Floods::default(), Instant::now());
        let refuses = |text: &str, now| floods.refuses(|| Some(ip(text)), || now);
        for _ in 1..MAX_FLOODS {
            assert!(!floods.came(ip("192.0.2.1"), now));
            assert!(!refuses("192.0.2.1", now));
        }
        assert!(floods.came(ip("::ffff:192.0.2.1"), now), "from now on");
        assert!(!floods.came(ip("192.0.2.1"), now), "said once");
        assert!(refuses("192.0.2.1", now) && !refuses("192.0.2.2", now));
        assert!(!floods.refuses(|| None, || now), "a Unix socket");
        assert!(!refuses("192.0.2.1", now + WINDOW));
        assert!(!floods.any.load(Ordering::Relaxed));
    }

    #[test]
    fn this_machine_is_spared() {
        let (floods, now) = (Floods::default(), Instant::now());
        for _ in 0..2 * MAX_FLOODS {
            assert!(!floods.came(ip("127.0.0.1"), now));
        }
        assert!(!floods.refuses(|| Some(ip("127.0.0.1")), || now));
    }

    #[test]
    fn a_network_of_ipv6_is_one() {
        let (floods, now) = (Floods::default(), Instant::now());
        for number in 0..MAX_FLOODS {
            floods.came(ip(&format!("2001:db8::{number:x}")), now);
        }
        assert!(floods.refuses(|| Some(ip("2001:db8::ffff")), || now));
        assert!(!floods.refuses(|| Some(ip("2001:db8:0:1::1")), || now));
    }

    #[test]
    fn so_many_are_remembered() {
        let (floods, now) = (Floods::default(), Instant::now());
        for number in 0..2 * MAX_ADDRESSES as u32 {
            floods.came(IpAddr::V4(number.into()), now);
        }
        assert_eq!(floods.list.lock().unwrap().len(), MAX_ADDRESSES);
    }
}
