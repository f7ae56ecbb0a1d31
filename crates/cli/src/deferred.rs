//! Commands of a command that are described only when it is the one that was given: a gateway that starts does not
//! make, and then keep the pages of, descriptions of commands that it is not.

use clap::builder::Resettable;
use clap::error::Error;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

/// The commands `T` below another one.
pub struct Deferred<T>(pub T);

impl<T: Subcommand> Deferred<T> {
    /// Describes them now, for who wants to know all of a command that has them deferred: `help` among its commands
    /// lists what is there.
    #[must_use]
    pub fn whole(command: Command) -> Command {
        described::<T>(command).defer(|command| command)
    }
}

impl<T: Subcommand> Subcommand for Deferred<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(described::<T>)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(T::augment_subcommands_for_update)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}

/// Its own words about it count, not those about the type.
fn described<T: Subcommand>(command: Command) -> Command {
    let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
    T::augment_subcommands(command).about(Resettable::from(about)).long_about(Resettable::from(long_about))
}
