//! Arguments of a program as data: what completions and manual pages are made of. How they exclude or need each other
//! is the program's own business.

use clap::builder::{PossibleValue, PossibleValuesParser, Resettable, StyledStr};
use clap::{Arg, ArgAction, Command};
use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    name: String,
    about: Option<String>,
    long_about: Option<String>,
    after_help: Option<String>,
    aliases: Vec<String>,
    needs_command: bool,
    /// Whether it has no `-h, --help` but one of its own.
    own_help: bool,
    arguments: Vec<Argument>,
    commands: Vec<Description>,
}

/// An option, or an argument that is told by its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Argument {
    id: String,
    short: Option<char>,
    long: Option<String>,
    aliases: Vec<String>,
    help: Option<String>,
    long_help: Option<String>,
    heading: Option<String>,
    values: Values,
    value_names: Vec<String>,
    choices: Vec<Choice>,
    defaults: Vec<String>,
    environment: Option<String>,
    required: bool,
    hidden: bool,
}

/// How many values follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Values {
    None,
    One,
    Many,
}

/// One of the values that are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Choice {
    name: String,
    help: Option<String>,
}

impl Description {
    /// What is seen of a command: nothing that is hidden.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        Self {
            name: command.get_name().to_owned(),
            about: text(command.get_about()),
            long_about: text(command.get_long_about()),
            after_help: text(command.get_after_help()),
            aliases: command.get_visible_aliases().map(str::to_owned).collect(),
            needs_command: command.is_subcommand_required_set(),
            own_help: command.is_disable_help_flag_set(),
            arguments: command.get_arguments().map(Argument::of).collect(),
            commands: command.get_subcommands().filter(|command| !command.is_hide_set()).map(Self::of).collect(),
        }
    }

    /// A command that is seen in the same way. Its texts are never freed: it is made once, by a process that then ends.
    #[must_use]
    pub fn command(self) -> Command {
        let mut command = Command::new(kept(self.name))
            .about(words(self.about))
            .long_about(words(self.long_about))
            .after_help(words(self.after_help))
            .visible_aliases(self.aliases.into_iter().map(kept).collect::<Vec<_>>())
            .subcommand_required(self.needs_command)
            .disable_help_flag(self.own_help);
        for argument in self.arguments {
            command = command.arg(argument.arg());
        }
        command.subcommands(self.commands.into_iter().map(Self::command))
    }
}

impl Argument {
    fn of(arg: &Arg) -> Self {
        Self {
            id: arg.get_id().to_string(),
            short: arg.get_short(),
            long: arg.get_long().map(str::to_owned),
            aliases: arg.get_visible_aliases().unwrap_or_default().into_iter().map(str::to_owned).collect(),
            help: text(arg.get_help()),
            long_help: text(arg.get_long_help()),
            heading: arg.get_help_heading().map(str::to_owned),
            values: Values::of(arg),
            value_names: arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect(),
            choices: if arg.get_action().takes_values() { choices(arg) } else { Vec::new() },
            defaults: defaults(arg),
            environment: arg.get_env().and_then(|name| name.to_str()).map(str::to_owned),
            required: arg.is_required_set(),
            hidden: arg.is_hide_set(),
        }
    }

    fn arg(self) -> Arg {
        let mut arg = Arg::new(kept(self.id))
            .short(self.short)
            .long(self.long.map_or(Resettable::Reset, |long| Resettable::Value(kept(long).into())))
            .visible_aliases(self.aliases.into_iter().map(kept).collect::<Vec<_>>())
            .help(words(self.help))
            .long_help(words(self.long_help))
            .help_heading(self.heading.map(kept))
            .required(self.required)
            .hide(self.hidden)
            .env(self.environment.map(kept));
        arg = match self.values {
            Values::None => return arg.action(ArgAction::SetTrue),
            Values::One => arg.action(ArgAction::Set),
            Values::Many => arg.action(ArgAction::Append).num_args(1..),
        };
        if !self.value_names.is_empty() {
            arg = arg.value_names(self.value_names.into_iter().map(kept).collect::<Vec<_>>());
        }
        if !self.choices.is_empty() {
            arg = arg.value_parser(PossibleValuesParser::new(self.choices.into_iter().map(Choice::value)));
        }
        arg.default_values(self.defaults.into_iter().map(kept).collect::<Vec<_>>())
    }
}

impl Values {
    fn of(arg: &Arg) -> Self {
        let many = arg.get_num_args().is_some_and(|count| count.max_values() > 1);
        match (arg.get_action().takes_values(), many) {
            (false, _) => Self::None,
            (true, true) => Self::Many,
            (true, false) => Self::One,
        }
    }
}

impl Choice {
    fn value(self) -> PossibleValue {
        PossibleValue::new(kept(self.name)).help(words(self.help))
    }
}

fn choices(arg: &Arg) -> Vec<Choice> {
    let shown = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    shown.map(|value| Choice { name: value.get_name().to_owned(), help: text(value.get_help()) }).collect()
}

fn defaults(arg: &Arg) -> Vec<String> {
    if arg.is_hide_default_value_set() || !arg.get_action().takes_values() {
        return Vec::new();
    }
    arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect()
}

fn text(styled: Option<&StyledStr>) -> Option<String> {
    styled.map(ToString::to_string)
}

fn words(text: Option<String>) -> Resettable<StyledStr> {
    text.map_or(Resettable::Reset, |text| Resettable::Value(text.into()))
}

fn kept(text: String) -> &'static str {
    text.leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Command {
        let size = Arg::new("size")
            .short('s')
            .long("size")
            .value_name("BYTES")
            .default_value("64")
            .env("SIZE")
            .help("So large");
        let kind = Arg::new("kind").long("kind").value_parser(["string", "hash"]).required(true);
        let files = Arg::new("files").num_args(1..).value_name("FILE").long_help("Many words");
        let quiet = Arg::new("quiet").long("quiet").visible_alias("silent").action(ArgAction::SetTrue);
        let secret = Command::new("secret").hide(true);
        let fill = Command::new("fill")
            .about("Fill")
            .visible_alias("load")
            .args([size, kind, files, quiet])
            .after_help("Examples:\n  x");
        Command::new("tool").subcommand_required(true).subcommands([fill, secret])
    }

    /// What people read of a command and all below it.
    fn pages(mut command: Command) -> Vec<String> {
        command.build();
        fn of(command: &mut Command, pages: &mut Vec<String>) {
            pages.push(command.render_long_help().to_string());
            command.get_subcommands_mut().for_each(|command| of(command, pages));
        }
        let mut pages_of_all = Vec::new();
        of(&mut command, &mut pages_of_all);
        pages_of_all
    }

    #[test]
    fn a_described_command_reads_as_the_command_does() {
        let text = serde_json::to_string(&Description::of(&sample())).unwrap();
        let described: Description = serde_json::from_str(&text).unwrap();
        assert_eq!(pages(described.command())[..2], pages(sample())[..2]);
    }

    #[test]
    fn what_is_hidden_is_not_told() {
        let text = serde_json::to_string(&Description::of(&sample())).unwrap();
        assert!(text.contains("fill") && !text.contains("secret"), "{text}");
    }
}
