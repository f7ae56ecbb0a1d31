//! Commands by name: how one that is not typed gets its description.

use super::lookup;
use crate::command::{Arg, Command, UNKNOWN};

impl Command<'_> {
    /// A command by name, for what has no typed method. `name` is one word (`"GET"`, `"FT.SEARCH"`) or two
    /// (`"CLIENT INFO"`).
    ///
    /// A known name brings its description with it (keys, policies); of an unknown one the first argument is taken for
    /// the key.
    #[must_use]
    pub fn raw(name: &str) -> Self {
        match lookup(name) {
            Some(spec) => Self::new(spec),
            None => name.split_ascii_whitespace().map(str::to_owned).fold(Self::new(&UNKNOWN), Self::arg),
        }
    }

    /// The same command with its description, which one that was put together word by word does not have:
    /// `raw("CLIENT").arg("REPLY")`. Without it, nobody would know that it must not run on a shared connection, or
    /// where its keys are.
    #[inline]
    pub(crate) fn resolved(self) -> Self {
        if self.spec().words == 0 && !self.is_refused() { self.looked_up() } else { self }
    }

    #[cold]
    fn looked_up(self) -> Self {
        let word = |at: usize| match self.arguments().get(at).map(Arg::to_bytes) {
            Some(bytes) if bytes.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-') => {
                String::from_utf8(bytes.into_owned()).unwrap_or_default()
            }
            _ => String::new(),
        };
        let (name, subcommand) = (word(0), word(1));
        match lookup(&format!("{name} {subcommand}")).or_else(|| lookup(&name)) {
            Some(spec) => self.described(spec),
            None => self,
        }
    }
}
