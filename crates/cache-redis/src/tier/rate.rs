//! Rates that gateways count together: one key for what is counted together, one script for each request.
//!
//! They have breakers of their own: a server that is full (`OOM`), or a user who may not call `TIME`, still answers
//! reads.

use std::time::Instant;

use super::Tier;
use super::budget::{Late, within};
use crate::script;

/// The longest time of a burst that is counted, in nanoseconds: 146 years. A reply is a number of 63 bits.
const MAX_AHEAD_NS: u64 = 1 << 62;

/// A rate by the generic cell rate algorithm (ITU-T I.371, annex A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedRate {
    /// What one costs, in nanoseconds.
    pub cost_ns: u64,
    /// How far ahead of the present all may be paid for, in nanoseconds: the cost of a burst. At most 146 years count.
    pub most_ns: u64,
}

/// What Redis says of one more. Whatever it is, all that was admitted is paid for until `ahead_ns` nanoseconds after
/// that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// It is admitted, and counted.
    Admitted {
        /// See there.
        ahead_ns: u64,
    },
    /// It would be more than the burst, and was not counted.
    Refused {
        /// See there.
        ahead_ns: u64,
    },
}

impl Tier {
    /// Counts one more of what `key` says, its parts in their order, for all gateways with this Redis and prefix; waits
    /// for that at most for [`Options::budget`](crate::Options::budget). `None`: Redis has not answered, or was not
    /// asked as it has not answered others; it may have counted.
    ///
    /// # Cancel safety
    /// Dropping it may leave the request counted.
    pub async fn count<'a>(&self, key: impl IntoIterator<Item = &'a [u8]>, rate: SharedRate) -> Option<Counted> {
        let name = self.shared.keys().rate(key);
        let counters = &self.own.counters;
        if !self.rates.borrow_mut().of(&name).permits(Instant::now()) {
            counters.skipped_rates.add_one();
            return None;
        }
        let (cost, most) = (rate.cost_ns, rate.most_ns.min(MAX_AHEAD_NS));
        let call = script::RATE.run::<(u8, u64)>(&self.client).key(&*name).arg([cost.to_string(), most.to_string()]);
        let counted = within(self.shared.options().budget, call.into_future()).await;
        match counted {
            Ok(Ok((is_admitted, ahead_ns))) => {
                self.note_count(&name);
                Some(match is_admitted {
                    0 => {
                        counters.refused_rates.add_one();
                        Counted::Refused { ahead_ns }
                    }
                    _ => {
                        counters.admitted_rates.add_one();
                        Counted::Admitted { ahead_ns }
                    }
                })
            }
            Ok(Err(error)) => {
                counters.failed_rates.add_one();
                self.note_no_count(&name, &error);
                None
            }
            Err(Late) => {
                counters.late_rates.add_one();
                let budget = self.shared.options().budget;
                self.note_no_count(&name, &format_args!("no answer within cache.redis.budget ({budget:?})"));
                None
            }
        }
    }

    fn note_count(&self, name: &str) {
        let closed = self.rates.borrow_mut().of(name).succeeded();
        if closed {
            self.shared.counts_again();
        }
    }

    fn note_no_count(&self, name: &str, why: &dyn std::fmt::Display) {
        let opened = self.rates.borrow_mut().of(name).failed(Instant::now());
        if opened {
            self.shared.counts_no_more(why);
        }
    }
}
