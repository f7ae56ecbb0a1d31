//! Servers that are followed by name, on a thread of its own, which is there only if a service has some.
//!
//! Invariant: an answer counts until there is another one. What the DNS does not say changes nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use crate::options::{DnsOptions, External, ServerName, ServiceTarget};

mod resolve;

use resolve::{Found, Resolver};

/// Names that are looked up at the same time.
const MAX_LOOKUPS: usize = 64;
/// How long after an answer without servers the DNS is asked again: requests may wait for them. `min_ttl` if that is
/// longer.
const EMPTY_TTL: Duration = Duration::from_secs(2);
/// How long after a failure: the first, and the longest pause.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How much sooner than it has to be the DNS is asked, so that gateways which were started together do not ask
/// together.
const JITTER: f64 = 0.1;

/// The way to the thread.
#[derive(Default)]
pub(crate) struct Names {
    orders: Mutex<Option<UnboundedSender<Vec<Arc<External>>>>>,
}

impl Names {
    /// Follows the names of these services from now on, and no others. `changed` is told whenever a list has changed.
    pub(crate) fn follow(&self, services: &[ServiceTarget], changed: &Arc<Notify>) {
        let named = |target: &ServiceTarget| match target {
            ServiceTarget::External(external) => external.spec().dns.is_some().then(|| Arc::clone(external)),
            ServiceTarget::Managed(..) => None,
        };
        let named: Vec<Arc<External>> = services.iter().filter_map(named).collect();
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.is_none() && !named.is_empty() {
            *orders = start(Arc::clone(changed));
        }
        if let Some(orders) = &*orders {
            let _ = orders.send(named); // a thread that has ended has said why
        }
    }
}

fn start(changed: Arc<Notify>) -> Option<UnboundedSender<Vec<Arc<External>>>> {
    let (orders, ordered) = unbounded_channel(); // one for each reload
    let thread = std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        match runtime.enable_io().enable_time().build() {
            Ok(runtime) => runtime.block_on(run(ordered, changed)),
            Err(e) => tracing::error!("the names of servers are not followed: {e}"),
        }
    });
    thread.inspect_err(|e| tracing::error!("the names of servers are not followed: {e}")).ok().map(|_| orders)
}

async fn run(mut orders: UnboundedReceiver<Vec<Arc<External>>>, changed: Arc<Notify>) {
    let (mut tasks, lookups) = (JoinSet::new(), Arc::new(Semaphore::new(MAX_LOOKUPS)));
    let mut followed: HashMap<(usize, ServerName), AbortHandle> = HashMap::new();
    while let Some(services) = orders.recv().await {
        let mut before = std::mem::take(&mut followed);
        for external in services {
            for name in &external.spec().names {
                // The task holds its service, so that no address is used twice.
                let key = (Arc::as_ptr(&external).addr(), name.clone());
                let task = before.remove(&key).unwrap_or_else(|| {
                    let (external, name) = (Arc::clone(&external), name.clone());
                    tasks.spawn(keep(external, name, Arc::clone(&lookups), Arc::clone(&changed)))
                });
                followed.insert(key, task);
            }
        }
        before.into_values().for_each(|task| task.abort());
        while tasks.try_join_next().is_some() {}
    }
}

/// Looks up a name again and again.
async fn keep(external: Arc<External>, name: ServerName, lookups: Arc<Semaphore>, changed: Arc<Notify>) {
    let Some(options) = external.spec().dns.clone() else { return };
    let (mut resolver, mut failures) = (Resolver::new(options.clone()), 0);
    loop {
        let Ok(lookup) = lookups.acquire().await else { return };
        let found = tokio::time::timeout(options.timeout, resolver.find(&name)).await;
        drop(lookup);
        let found = match found {
            Ok(found) => found.map_err(|e| e.to_string()),
            Err(_) => Err(format!("the DNS does not answer within {} s", options.timeout.as_secs_f32())),
        };
        failures = if found.is_ok() { 0 } else { failures + 1 };
        let next = found.as_ref().map_or_else(|_| pause(failures), |found| lifetime(found, &options));
        if let Ok(Found { left_out: 1.., servers, .. }) = &found {
            let (service, count) = (external.name(), servers.len());
            tracing::warn!(service, name = name.name, "only its first {count} servers are used (dns.max_addresses)");
        }
        if external.resolved(&name, found.map(|found| found.servers), next) {
            changed.notify_one();
        }
        tokio::time::sleep(next.mul_f64(1.0 - JITTER * fastrand::f64())).await;
    }
}

/// How long an answer counts.
fn lifetime(found: &Found, options: &DnsOptions) -> Duration {
    let ttl = if found.servers.is_empty() { EMPTY_TTL } else { found.ttl.unwrap_or(EMPTY_TTL) };
    ttl.min(options.max_ttl).max(options.min_ttl)
}

fn pause(failures: u32) -> Duration {
    let (first, longest) = RETRY_PAUSE;
    first.saturating_mul(1 << (failures.saturating_sub(1)).min(16)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ExternalAddr, ServerSpec};

    #[test]
    fn an_answer_counts_for_its_ttl_within_bounds() {
        let options = DnsOptions { max_ttl: Duration::from_secs(60), ..DnsOptions::default() };
        let of = |count: usize, ttl: Option<u64>| {
            let servers = vec![ServerSpec::new(ExternalAddr::Tcp("10.0.0.1".to_owned(), 80)); count];
            lifetime(&Found { servers, ttl: ttl.map(Duration::from_secs), left_out: 0 }, &options).as_secs()
        };
        assert_eq!([of(1, Some(0)), of(1, Some(30)), of(1, Some(3600))], [1, 30, 60]);
        assert_eq!([of(0, None), of(0, Some(3600))], [2, 2], "what is empty may be filled");
    }

    #[test]
    fn the_dns_is_asked_less_and_less_often_while_it_is_away() {
        assert_eq!([1, 2, 3, 5, 6, 99].map(|failures| pause(failures).as_secs()), [1, 2, 4, 16, 30, 30]);
    }
}
