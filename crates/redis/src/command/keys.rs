//! Where the keys of a command are: the interpreter of key specifications (redis.io, "Key specifications").

use smallvec::SmallVec;

use super::{Arg, BeginSearch, CommandSpec, FindKeys, KeySpec};

/// Positions of all keys, in the order of the specification. A count or keyword that does not fit the arguments yields
/// none: the server will say what is wrong.
pub(super) fn positions(spec: &CommandSpec, args: &[Arg<'_>]) -> impl Iterator<Item = usize> + use<> {
    let mut found: SmallVec<[usize; 8]> = SmallVec::new();
    for key in spec.keys {
        group(key, args, &mut found);
    }
    found.into_iter()
}

fn group(spec: &KeySpec, args: &[Arg<'_>], found: &mut SmallVec<[usize; 8]>) {
    let Some(begin) = beginning(spec.begin, args) else { return };
    match spec.find {
        FindKeys::Range { last, step, limit } => {
            let Some(end) = range_end(begin, last, limit, args.len()) else { return };
            found.extend((begin..=end).step_by(usize::from(step.max(1))).filter(|&at| at < args.len()));
        }
        FindKeys::KeyNum { number, first, step } => {
            let Some(count) = args.get(begin + usize::from(number)).and_then(number_of) else { return };
            let first = begin + usize::from(first);
            let step = usize::from(step.max(1));
            let possible = args.len().saturating_sub(first).div_ceil(step);
            if count <= possible {
                found.extend((0..count).map(|index| first + index * step));
            }
        }
    }
}

fn beginning(begin: BeginSearch, args: &[Arg<'_>]) -> Option<usize> {
    match begin {
        BeginSearch::Index(index) => (usize::from(index) < args.len()).then_some(usize::from(index)),
        BeginSearch::UnlessEmpty(index) => {
            let at = usize::from(index);
            args.get(at).is_some_and(|arg| !arg.to_bytes().is_empty()).then_some(at)
        }
        BeginSearch::Keyword(word, start) => {
            let is_word = |&at: &usize| args[at].to_bytes().eq_ignore_ascii_case(word.as_bytes());
            let at = if start >= 0 {
                (start.unsigned_abs().into()..args.len()).find(is_word)
            } else {
                let from = args.len().checked_sub(start.unsigned_abs().into())?;
                (0..=from).rev().find(is_word)
            };
            at.map(|at| at + 1).filter(|&at| at < args.len())
        }
    }
}

fn range_end(begin: usize, last: i8, limit: u8, len: usize) -> Option<usize> {
    let distance = usize::from(last.unsigned_abs());
    if last >= 0 {
        return Some(begin + distance);
    }
    if last == -1 && limit > 1 {
        let part = (len - begin) / usize::from(limit);
        return (begin + part).checked_sub(1).filter(|&end| end >= begin);
    }
    len.checked_sub(distance).filter(|&end| end >= begin)
}

fn number_of(arg: &Arg<'_>) -> Option<usize> {
    std::str::from_utf8(&arg.to_bytes()).ok()?.parse().ok()
}
