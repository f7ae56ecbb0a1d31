//! A command that the developer names.

use std::path::Path;

use super::model::{Guess, Over, Process, over, text};

pub(super) fn guess(folder: &Path, command: &[String], said: Option<Over>) -> Guess {
    let files = command.iter().filter(|word| !word.starts_with('-')).map(|word| folder.join(word));
    let source = || files.filter(|path| path.is_file()).find_map(|path| over(&text(&path)?));
    let over = said.or_else(source).unwrap_or(Over::Port);
    let command = if command.iter().any(|word| word.contains("$PORT")) {
        vec!["sh".to_owned(), "-c".to_owned(), format!("exec {}", for_shell(command))]
    } else {
        command.to_vec()
    };
    let mut process = Process::web(command, over);
    process.start_timeout_s = 600; // it may build something first
    Guess::of("command", "it was named after `--`", process.env("PYTHONDONTWRITEBYTECODE", "1"))
}

/// Words for a shell, in which `$PORT` keeps its meaning.
fn for_shell(words: &[String]) -> String {
    let quoted = |word: &String| {
        let parts: Vec<String> = word.split("$PORT").map(|part| part.replace('\'', "'\\''")).collect();
        format!("'{}'", parts.join("'\"$PORT\"'"))
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        let words = ["a b", "it's", "--port=$PORT", "$HOME"].map(str::to_owned);
        assert_eq!(for_shell(&words), r#"'a b' 'it'\''s' '--port='"$PORT"'' '$HOME'"#);
    }
}
