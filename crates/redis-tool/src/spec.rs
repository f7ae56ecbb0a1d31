//! Words as a command of the client's table.

use pilotlight_redis::Command;
use pilotlight_redis::command::{CommandSpec, UNKNOWN};
use pilotlight_redis::commands::lookup;

/// The description of a command: by two words if there is one, else by the first.
pub(crate) fn spec_of(words: &[Vec<u8>]) -> &'static CommandSpec {
    let word = |at: usize| words.get(at).and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default();
    let (name, sub) = (word(0), word(1));
    if name.is_empty() || name.contains(' ') {
        return &UNKNOWN;
    }
    let both = (!sub.is_empty() && !sub.contains(' ')).then(|| lookup(&format!("{name} {sub}"))).flatten();
    both.or_else(|| lookup(name)).unwrap_or(&UNKNOWN)
}

/// The command of these words.
pub(crate) fn command(words: &[Vec<u8>]) -> Command<'_> {
    let spec = spec_of(words);
    words.iter().skip(spec.words.into()).fold(Command::new(spec), |command, word| command.arg(word.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn commands_are_known_by_one_word_or_two() {
        assert_eq!(spec_of(&words("get a")).name, "GET");
        assert_eq!(spec_of(&words("client List")).name, "CLIENT LIST");
        assert_eq!(spec_of(&words("client nonsense")).name, "CLIENT");
        assert_eq!(spec_of(&words("foo bar")).words, 0);
        assert_eq!(command(&words("config get save")).arguments().len(), 1);
        assert_eq!(command(&words("foo bar")).arguments().len(), 2);
    }
}
