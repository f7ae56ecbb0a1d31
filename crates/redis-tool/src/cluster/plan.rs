//! Which slots should go where. Pure: nobody is asked.

use pilotlight_redis::{SLOTS, Slot, SlotSet};

/// A primary as a plan sees it.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub(super) id: String,
    pub(super) slots: SlotSet,
    /// Its share, in relation to the others'.
    pub(super) weight: f64,
}

/// Slots that go from one primary to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) slots: SlotSet,
}

/// What each primary would have by its weight: whole slots that add up to those that there are.
pub(super) fn shares(holders: &[Holder]) -> Vec<usize> {
    let total: usize = holders.iter().map(|holder| holder.slots.len()).sum();
    let weights: f64 = holders.iter().map(|holder| holder.weight).sum();
    if weights <= 0.0 {
        return holders.iter().map(|holder| holder.slots.len()).collect();
    }
    // Cumulative rounding: the sum is exact, and each share is within one slot of its fraction.
    let (mut seen, mut given) = (0.0, 0);
    let share = |holder: &Holder| {
        seen += holder.weight;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the number of slots")]
        let until = (f64::from(u32::try_from(total).unwrap_or(u32::from(SLOTS))) * seen / weights).round() as usize;
        let share = until - given;
        given = until;
        share
    };
    holders.iter().map(share).collect()
}

/// Moves that give every primary its share; none if all are within `threshold_percent` of it.
pub(super) fn rebalance(holders: &[Holder], threshold_percent: f64) -> Vec<Move> {
    let shares = shares(holders);
    let is_off = |(holder, share): (&Holder, &usize)| {
        let (has, wanted) = (holder.slots.len(), *share);
        if wanted == 0 { has > 0 } else { percent(has.abs_diff(wanted), wanted) > threshold_percent }
    };
    if !holders.iter().zip(&shares).any(is_off) {
        return Vec::new();
    }
    let mut spare: Vec<(usize, Vec<Slot>)> = Vec::new();
    let mut short: Vec<(usize, usize)> = Vec::new();
    for (at, (holder, share)) in holders.iter().zip(&shares).enumerate() {
        let has = holder.slots.len();
        if has > *share {
            // The last slots leave, so that the rest stays in one piece.
            spare.push((at, holder.slots.iter().skip(*share).collect()));
        } else if has < *share {
            short.push((at, share - has));
        }
    }
    let mut moves = Vec::new();
    let mut spare = spare.into_iter().flat_map(|(at, slots)| slots.into_iter().map(move |slot| (at, slot)));
    for (to, wanted) in short {
        take(&mut moves, holders, to, spare.by_ref().take(wanted));
    }
    moves
}

/// Takes `count` slots from several primaries, from each in proportion to what it has.
pub(super) fn reshard(sources: &[Holder], to: &str, count: usize) -> Vec<Move> {
    let total: usize = sources.iter().map(|source| source.slots.len()).sum();
    let count = count.min(total);
    let (mut seen, mut given) = (0, 0);
    let mut moves = Vec::new();
    for source in sources {
        seen += source.slots.len();
        let until = (count * seen).checked_div(total).unwrap_or(0);
        let slots: SlotSet = source.slots.iter().take(until - given).collect();
        given = until;
        if !slots.is_empty() {
            moves.push(Move { from: source.id.clone(), to: to.to_owned(), slots });
        }
    }
    moves
}

fn take(moves: &mut Vec<Move>, holders: &[Holder], to: usize, slots: impl Iterator<Item = (usize, Slot)>) {
    for (from, slot) in slots {
        let (from, to) = (&holders[from].id, &holders[to].id);
        match moves.last_mut() {
            Some(last) if last.from == *from && last.to == *to => last.slots.insert(slot),
            _ => {
                let mut slots = SlotSet::new();
                slots.insert(slot);
                moves.push(Move { from: from.clone(), to: to.clone(), slots });
            }
        }
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    100.0 * number(part) / number(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Primaries that share all slots as `owner` says.
    fn holders(weights: &[f64], owner: impl Fn(u16) -> usize) -> Vec<Holder> {
        let mut holders: Vec<_> = weights
            .iter()
            .enumerate()
            .map(|(at, weight)| Holder { id: at.to_string(), slots: SlotSet::new(), weight: *weight })
            .collect();
        Slot::all().for_each(|slot| holders[owner(slot.number())].slots.insert(slot));
        holders
    }

    fn apply(mut holders: Vec<Holder>, moves: &[Move]) -> Vec<usize> {
        for one in moves {
            let from: usize = one.from.parse().unwrap();
            let to: usize = one.to.parse().unwrap();
            for slot in one.slots.iter() {
                assert!(holders[from].slots.contains(slot), "{slot} is not at {from}");
                holders[from].slots.remove(slot);
                holders[to].slots.insert(slot);
            }
        }
        holders.iter().map(|holder| holder.slots.len()).collect()
    }

    proptest! {
        #[test]
        fn a_rebalance_gives_everybody_the_share(weights in prop::collection::vec(0_u8..4, 2..8), seed in any::<u16>()) {
            let mut weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            weights[0] = 1.0;
            let count = u16::try_from(weights.len()).unwrap();
            let holders = holders(&weights, |slot| usize::from((slot ^ seed) % count));
            let shares = shares(&holders);
            prop_assert_eq!(shares.iter().sum::<usize>(), usize::from(SLOTS));
            let moves = rebalance(&holders, 0.0);
            prop_assert_eq!(apply(holders, &moves), shares);
        }

        #[test]
        fn a_reshard_takes_what_is_asked_for(count in 0_usize..20_000) {
            let holders = holders(&[1.0, 1.0, 1.0, 1.0], |slot| usize::from(slot % 7).min(2));
            let moves = reshard(&holders[..3], "3", count);
            prop_assert_eq!(apply(holders, &moves)[3], count.min(usize::from(SLOTS)));
        }
    }

    #[test]
    fn what_is_nearly_balanced_stays() {
        let holders = holders(&[1.0, 1.0], |slot| usize::from(slot >= 8_200));
        assert_eq!(rebalance(&holders, 2.0), []);
        let moves = rebalance(&holders, 0.0);
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].slots.to_string(), "8192-8199");
    }
}
