//! Commands that are not sent because of an argument. They take the description of nothing that can be sent, so that
//! every path looks at them where it refuses what must not be on its connection, and no path looks at arguments.

use super::{Arg, Blocking, Command, CommandSpec, Flags, RequestPolicy, ResponsePolicy, UNKNOWN};

/// The description of a command with an [`Arg::Invalid`]. Its arguments begin with its name, as another one of those.
static REFUSED: CommandSpec = CommandSpec {
    name: "refused",
    preamble: b"",
    words: 0,
    arity: -1,
    needs: "",
    flags: Flags::CONNECTION_STATE,
    keys: &[],
    request: RequestPolicy::Default,
    response: ResponsePolicy::Default,
    blocking: Blocking::No,
};

impl Command<'_> {
    #[cold]
    pub(super) fn refuse(&mut self) {
        if !self.is_refused() {
            let name = if self.spec.words == 0 { UNKNOWN.name } else { self.spec.name };
            self.args.insert(0, Arg::Invalid(name));
            self.spec = &REFUSED;
        }
    }

    /// Whether an argument keeps it from being sent.
    pub(crate) fn is_refused(&self) -> bool {
        std::ptr::eq(self.spec, &REFUSED)
    }

    /// What is wrong with the argument because of which it is not sent, if there is one.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        if !self.is_refused() {
            return None;
        }
        self.args.iter().skip(1).find_map(|arg| match arg {
            Arg::Invalid(why) => Some(*why),
            _ => None,
        })
    }

    /// The name of a command that is refused.
    #[cold]
    pub(super) fn refused_name(&self) -> &'static str {
        match self.args.first() {
            Some(Arg::Invalid(name)) => name,
            _ => REFUSED.name,
        }
    }
}
