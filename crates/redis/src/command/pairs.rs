//! Arguments that come in pairs and triples, or from an iterator.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::arg::{Arg, Args};

/// What an iterator yields, as arguments or pairs of them.
///
/// ```
/// # use pilotlight_redis::command::{Command, each};
/// let keys = (0..3).map(|id| format!("user:{id}"));
/// assert_eq!(Command::raw("DEL").args(each(keys)).arguments().len(), 3);
/// ```
pub fn each<I: IntoIterator>(items: I) -> Each<I> {
    Each(items)
}

/// See [`each`].
#[derive(Debug, Clone)]
pub struct Each<I>(I);

impl<'a, I: IntoIterator<Item: Into<Arg<'a>>>> Args<'a> for Each<I> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.0.into_iter().for_each(|item| push(item.into()));
    }
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>, I: IntoIterator<Item = (A, B)>> Pairs<'a> for Each<I> {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.0.into_iter().for_each(|pair| pair.each_pair(push));
    }
}

/// Pairs of arguments (`MSET`, `HSET`, `XADD`, …): an array, a vector or a map of them.
///
/// ```no_run
/// use std::collections::HashMap;
///
/// use pilotlight_redis::{Client, Commands, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// client.mset(("one", 1)).await?;
/// client.mset([("one", 1), ("two", 2)]).await?;
/// client.hset("user:1", &HashMap::from([("name", "Ada")])).await?;
/// # Ok(()) }
/// ```
pub trait Pairs<'a> {
    /// Gives each argument to `push`, first and second in turn.
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>));
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>> Pairs<'a> for (A, B) {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.0.into());
        push(self.1.into());
    }
}

macro_rules! pairs {
    ($([$($bounds:tt)*] $many:ty),* $(,)?) => {$(
        impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>, $($bounds)*> Pairs<'a> for $many {
            fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
                self.into_iter().for_each(|pair| pair.each_pair(push));
            }
        }
    )*};
}
pairs!(
    [const N: usize] [(A, B); N], [] Vec<(A, B)>, [] Box<[(A, B)]>, [] VecDeque<(A, B)>, [S] HashMap<A, B, S>,
    [] BTreeMap<A, B>, [] Option<(A, B)>
);

impl<'a, A, B> Pairs<'a> for &'a (A, B)
where
    &'a A: Into<Arg<'a>>,
    &'a B: Into<Arg<'a>>,
{
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        push((&self.0).into());
        push((&self.1).into());
    }
}

/// Pairs that are borrowed: of a slice, an array, a vector, a map.
macro_rules! pairs_borrowed {
    ($([$($bounds:tt)*] $many:ty, $pair:pat => ($first:expr, $second:expr));* $(;)?) => {$(
        impl<'a, A, B, $($bounds)*> Pairs<'a> for &'a $many
        where
            &'a A: Into<Arg<'a>>,
            &'a B: Into<Arg<'a>>,
        {
            fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
                self.iter().for_each(|$pair| {
                    push($first.into());
                    push($second.into());
                });
            }
        }
    )*};
}
pairs_borrowed! {
    [] [(A, B)], (first, second) => (first, second);
    [const N: usize] [(A, B); N], (first, second) => (first, second);
    [] Vec<(A, B)>, (first, second) => (first, second);
    [] Box<[(A, B)]>, (first, second) => (first, second);
    [] VecDeque<(A, B)>, (first, second) => (first, second);
    [S] HashMap<A, B, S>, (first, second) => (first, second);
    [] BTreeMap<A, B>, (first, second) => (first, second);
}

/// Triples of arguments (`GEOADD`): one, an array, a slice or a vector of them, or what an iterator yields ([`each`]).
///
/// ```no_run
/// use pilotlight_redis::{Client, Commands, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// client.geoadd("towns", [(13.361, 38.115, "Palermo"), (15.087, 37.502, "Catania")]).await?;
/// # Ok(()) }
/// ```
pub trait Triples<'a> {
    /// Gives each argument to `push`, in order.
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>));
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>, C: Into<Arg<'a>>> Triples<'a> for (A, B, C) {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.0.into());
        push(self.1.into());
        push(self.2.into());
    }
}

impl<'a, T: Triples<'a>, const N: usize> Triples<'a> for [T; N] {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|triple| triple.each_triple(push));
    }
}

impl<'a, A, B, C> Triples<'a> for &'a [(A, B, C)]
where
    &'a A: Into<Arg<'a>>,
    &'a B: Into<Arg<'a>>,
    &'a C: Into<Arg<'a>>,
{
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.iter().for_each(|(a, b, c)| (a, b, c).each_triple(push));
    }
}

impl<'a, I: IntoIterator<Item: Triples<'a>>> Triples<'a> for Each<I> {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.0.into_iter().for_each(|triple| triple.each_triple(push));
    }
}

impl<'a, T: Triples<'a>> Triples<'a> for Vec<T> {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|triple| triple.each_triple(push));
    }
}
