//! A command: what it is ([`CommandSpec`]) and its arguments. It is encoded once for each sending, straight into a
//! lane's buffer.

mod arg;
mod keys;
mod number;
mod pairs;
mod refused;
mod spec;
pub(crate) mod table;
mod time;

use std::fmt;

use pilotlight_resp::encode;
use smallvec::SmallVec;

pub use arg::{Arg, Args, Element};
pub use number::{Integer, Number};
pub use pairs::{Each, Pairs, Triples, each};
pub use spec::{BeginSearch, Blocking, CommandSpec, FindKeys, Flags, KeySpec, RequestPolicy, ResponsePolicy, UNKNOWN};
pub use time::{IdleMilliseconds, Milliseconds, Seconds, UnixMilliseconds, UnixSeconds, WaitSeconds};

use crate::out::Out;
use crate::proto::slot::Slot;

/// A command with its arguments. Up to four arguments need no heap.
///
/// ```
/// use pilotlight_redis::{Command, Slot};
///
/// let command = Command::raw("MEMORY").args(["USAGE", "{user:1}:name"]);
/// assert_eq!(command.slot(), Some(Slot::of(b"user:1")));
/// ```
#[derive(Clone)]
pub struct Command<'a> {
    spec: &'static CommandSpec,
    args: SmallVec<[Arg<'a>; 4]>,
}

impl<'a> Command<'a> {
    /// A command without arguments yet.
    #[must_use]
    pub fn new(spec: &'static CommandSpec) -> Self {
        Self { spec, args: SmallVec::new() }
    }

    /// The same command with its description, whose words are its first arguments now.
    pub(crate) fn described(mut self, spec: &'static CommandSpec) -> Self {
        self.args.drain(..usize::from(spec.words));
        Self { spec, ..self }
    }

    /// Adds one argument.
    #[must_use]
    #[inline]
    pub fn arg(mut self, arg: impl Into<Arg<'a>>) -> Self {
        self.push(arg.into());
        self
    }

    /// Adds one or many arguments.
    #[must_use]
    pub fn args(mut self, args: impl Args<'a>) -> Self {
        args.each(&mut |arg| self.push(arg));
        self
    }

    /// Adds pairs of arguments.
    #[must_use]
    pub fn pairs(mut self, pairs: impl Pairs<'a>) -> Self {
        pairs.each_pair(&mut |arg| self.push(arg));
        self
    }

    /// Adds triples of arguments.
    #[must_use]
    pub fn triples(mut self, triples: impl Triples<'a>) -> Self {
        triples.each_triple(&mut |arg| self.push(arg));
        self
    }

    #[inline]
    fn push(&mut self, arg: Arg<'a>) {
        if matches!(arg, Arg::Invalid(_)) {
            self.refuse();
        }
        self.args.push(arg);
    }

    /// Adds arguments after their number.
    #[must_use]
    pub fn counted(self, args: impl Args<'a>) -> Self {
        self.after_count(|command| command.args(args), 1)
    }

    /// Adds pairs of arguments after the number of pairs.
    #[must_use]
    pub fn counted_pairs(self, pairs: impl Pairs<'a>) -> Self {
        self.after_count(|command| command.pairs(pairs), 2)
    }

    /// Adds the first arguments of all pairs, then the second ones (`XREAD`).
    #[must_use]
    pub fn unzipped(mut self, pairs: impl Pairs<'a>) -> Self {
        let mut seconds: SmallVec<[Arg<'a>; 4]> = SmallVec::new();
        let mut first = true;
        pairs.each_pair(&mut |arg| {
            if first {
                self.push(arg);
            } else {
                seconds.push(arg);
            }
            first = !first;
        });
        seconds.into_iter().for_each(|arg| self.push(arg));
        self
    }

    fn after_count(mut self, add: impl FnOnce(Self) -> Self, size: usize) -> Self {
        let at = self.args.len();
        self.args.push(Arg::from(0_usize));
        let mut command = add(self);
        let added = command.args.len() - at - 1;
        if !command.is_refused() {
            command.args[at] = Arg::from(added / size);
        }
        command
    }

    /// What is known about the command.
    #[must_use]
    pub fn spec(&self) -> &'static CommandSpec {
        self.spec
    }

    /// The arguments after the name.
    #[must_use]
    pub fn arguments(&self) -> &[Arg<'a>] {
        &self.args
    }

    /// The command's name; of an unknown command, `unknown`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.is_refused() { self.refused_name() } else { self.spec.name }
    }

    /// The slot of its first key, if it has a key. Other keys are not looked at.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> Option<Slot> {
        // Nearly every command: the key is at a fixed place.
        let position = match self.spec.keys.first()?.begin {
            BeginSearch::Index(index) if matches!(self.spec.keys[0].find, FindKeys::Range { .. }) => usize::from(index),
            _ => keys::positions(self.spec, &self.args).next()?,
        };
        self.args.get(position).map(Self::slot_of)
    }

    /// The slot of all its keys, if it has a key.
    ///
    /// # Errors
    /// Two keys lie in different slots.
    #[inline]
    pub(crate) fn only_slot(&self) -> Result<Option<Slot>, SeveralSlots> {
        // Nearly every command: it has one key.
        if let [KeySpec { begin: BeginSearch::Index(_), find: FindKeys::Range { last: 0, .. } }] = self.spec.keys {
            return Ok(self.slot());
        }
        let mut slots = self.key_positions().filter_map(|at| self.args.get(at)).map(Self::slot_of);
        let first = slots.next();
        if slots.all(|slot| Some(slot) == first) { Ok(first) } else { Err(SeveralSlots) }
    }

    /// Positions of all keys among the arguments.
    pub fn key_positions(&self) -> impl Iterator<Item = usize> + '_ {
        keys::positions(self.spec, &self.args)
    }

    /// The slot of an argument taken as a key.
    #[inline]
    pub(crate) fn slot_of(key: &Arg<'_>) -> Slot {
        match key {
            Arg::Borrowed(bytes) => Slot::of(bytes),
            Arg::Shared(bytes) => Slot::of(bytes),
            other => Slot::of(&other.to_bytes()),
        }
    }

    /// Bytes of all arguments, about.
    pub(crate) fn size(&self) -> usize {
        self.args.iter().map(Arg::size).sum()
    }

    /// Appends the command in RESP: an array of bulk strings.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Out) {
        let words = usize::from(self.spec.words) + self.args.len();
        if words == 0 {
            return encode_nothing(out);
        }
        let page = out.page();
        encode::array_header(page, words);
        page.extend_from_slice(self.spec.preamble);
        for arg in &self.args {
            arg.encode(out);
        }
    }

    /// The same command, independent of what its arguments were borrowed from.
    #[must_use]
    pub fn into_owned(self) -> Command<'static> {
        Command { spec: self.spec, args: self.args.into_iter().map(Arg::into_owned).collect() }
    }
}

/// Keys of one command lie in different slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeveralSlots;

/// A command without a word. Servers pass over an empty array without a reply, and the next command's would be taken
/// for it: they answer an empty name.
#[cold]
fn encode_nothing(out: &mut Out) {
    encode::command(out.page(), &[b""]);
}

/// The name and the number of arguments: arguments may be secrets.
impl fmt::Debug for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} arguments)", self.spec.name, self.args.len())
    }
}
