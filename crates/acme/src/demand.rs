//! Certificates on demand: whoever answers at the `ask` address says whether a name may have one. How many names may be
//! asked about is limited, since anybody may ask a gateway for any name.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::name::Name;

/// Names that may be asked about at once.
const BURST: f64 = 20.0;
/// And one more in so many seconds.
const EVERY: f64 = 5.0;
/// How long it is remembered that a name was asked about.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Most names that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// Which names are asked about. Pure: the time is an argument.
#[derive(Debug)]
pub(crate) struct Demand {
    left: f64,
    filled: SystemTime,
    asked: HashMap<Name, SystemTime>,
}

impl Demand {
    /// Nobody has asked yet.
    pub(crate) fn new(now: SystemTime) -> Self {
        Self { left: BURST, filled: now, asked: HashMap::new() }
    }

    /// Whether this name is asked about now: not when it was lately, and not when too many were.
    pub(crate) fn admits(&mut self, name: &Name, now: SystemTime) -> bool {
        if self.asked.get(name).is_some_and(|at| now.duration_since(*at).is_ok_and(|age| age < REMEMBERED)) {
            return false;
        }
        let passed = now.duration_since(self.filled).unwrap_or_default().as_secs_f64();
        (self.left, self.filled) = ((self.left + passed / EVERY).min(BURST), now);
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        if self.asked.len() >= MAX_REMEMBERED {
            self.asked.retain(|_, at| now.duration_since(*at).is_ok_and(|age| age < REMEMBERED));
        }
        if self.asked.len() < MAX_REMEMBERED {
            self.asked.insert(name.clone(), now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Reach;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn name(number: u32) -> Name {
        Name::of_host(&format!("n{number}.example.org"), Reach::Public).unwrap()
    }

    #[test]
    fn a_flood_of_names_is_asked_about_slowly() {
        let mut demand = Demand::new(at(0));
        let admitted = (0..1000).filter(|number| demand.admits(&name(*number), at(0))).count();
        assert_eq!(admitted, 20);
        assert!(!demand.admits(&name(2000), at(4)) && demand.admits(&name(2000), at(5)));
        let admitted = (3000..4000).filter(|number| demand.admits(&name(*number), at(10_000))).count();
        assert_eq!(admitted, 20, "what was not used is not saved for ever");
    }

    #[test]
    fn a_name_is_asked_about_again_after_a_while() {
        let mut demand = Demand::new(at(0));
        assert!(demand.admits(&name(1), at(0)));
        assert!(!demand.admits(&name(1), at(299)));
        assert!(demand.admits(&name(1), at(300)));
    }
}
