//! Optional words of a command, each in its slot: what the types of options are made of.

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

#[cfg(feature = "modules")]
use crate::command::Pairs;
use crate::command::{Arg, Args, Command};

/// Words in the order of their slots. Words of one slot stay in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct Choices<'a>(SmallVec<[(u8, Arg<'a>); 4]>);

impl<'a> Choices<'a> {
    /// Empties `slots`: what is chosen now replaces what was chosen before.
    pub(crate) fn without(mut self, slots: Range<u8>) -> Self {
        self.0.retain(|(slot, _)| !slots.contains(slot));
        self
    }

    /// Adds a word to `slot`.
    pub(crate) fn arg(mut self, slot: u8, arg: impl Into<Arg<'a>>) -> Self {
        self.push(slot, arg.into());
        self
    }

    /// Adds words to `slot`.
    pub(crate) fn args(mut self, slot: u8, args: impl Args<'a>) -> Self {
        args.each(&mut |arg| self.push(slot, arg));
        self
    }

    /// Adds pairs of words to `slot`.
    #[cfg(feature = "modules")]
    pub(crate) fn pairs(mut self, slot: u8, pairs: impl Pairs<'a>) -> Self {
        pairs.each_pair(&mut |arg| self.push(slot, arg));
        self
    }

    /// Adds words to `slot` after their number.
    #[cfg(feature = "modules")]
    pub(crate) fn counted(self, slot: u8, args: impl Args<'a>) -> Self {
        let mut words = SmallVec::<[Arg<'a>; 4]>::new();
        args.each(&mut |arg| words.push(arg));
        self.after_count(slot, &words)
    }

    /// Adds pairs of words to `slot` after the number of words.
    #[cfg(feature = "modules")]
    pub(crate) fn counted_words(self, slot: u8, pairs: impl Pairs<'a>) -> Self {
        let mut words = SmallVec::<[Arg<'a>; 4]>::new();
        pairs.each_pair(&mut |arg| words.push(arg));
        self.after_count(slot, &words)
    }

    #[cfg(feature = "modules")]
    fn after_count(self, slot: u8, words: &[Arg<'a>]) -> Self {
        words.iter().fold(self.arg(slot, words.len()), |choices, word| choices.arg(slot, word.clone()))
    }

    fn push(&mut self, slot: u8, arg: Arg<'a>) {
        let at = self.0.partition_point(|(other, _)| *other <= slot);
        self.0.insert(at, (slot, arg));
    }
}

/// How many words there are: they may be secrets.
impl fmt::Debug for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words", self.0.len())
    }
}

impl<'a> Command<'a> {
    /// Adds the words that were chosen for `slots`.
    pub(crate) fn chosen(mut self, choices: &Choices<'a>, slots: Range<u8>) -> Self {
        for (_, arg) in choices.0.iter().filter(|(slot, _)| slots.contains(slot)) {
            self = self.arg(arg.clone());
        }
        self
    }
}
