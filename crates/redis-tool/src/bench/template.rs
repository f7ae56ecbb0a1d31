//! Any command, with places for keys and values.

use std::sync::Arc;

use pilotlight_redis::command::{CommandSpec, UNKNOWN};
use pilotlight_redis::commands::lookup;

use crate::connection::UsageError;

const PLACES: [(&str, Piece); 3] =
    [("__key__", Piece::Key), ("__data__", Piece::Data), ("__rand_int__", Piece::Number)];

/// A command of the user's.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) spec: &'static CommandSpec,
    name: String,
    words: Vec<Vec<Piece>>,
}

/// A part of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Arc<[u8]>),
    /// A key.
    Key,
    /// A value.
    Data,
    /// The number of a key.
    Number,
}

impl Template {
    /// Reads the words of a command; none: there is no command.
    ///
    /// # Errors
    /// The command would leave its connection in another state, or there is no name.
    pub(crate) fn parse(words: &[String]) -> Result<Option<Self>, UsageError> {
        let Some(first) = words.first() else { return Ok(None) };
        let two = words.get(1).and_then(|second| lookup(&format!("{first} {second}")));
        let spec = two.or_else(|| lookup(first)).unwrap_or(&UNKNOWN);
        let name = if spec.words == 0 { first.to_ascii_uppercase() } else { spec.name.to_owned() };
        let arguments = words.get(usize::from(spec.words)..).unwrap_or_default();
        Ok(Some(Self { spec, name, words: arguments.iter().map(|word| pieces(word)).collect() }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Arguments after the name.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The arguments, in pieces.
    pub(crate) fn words(&self) -> &[Vec<Piece>] {
        &self.words
    }
}

fn pieces(word: &str) -> Vec<Piece> {
    let (mut pieces, mut rest) = (Vec::new(), word);
    loop {
        let first = PLACES
            .iter()
            .filter_map(|(name, piece)| Some((rest.find(name)?, *name, piece)))
            .min_by_key(|place| place.0);
        let Some((at, name, piece)) = first else { break };
        if at > 0 {
            pieces.push(Piece::Text(rest.as_bytes()[..at].into()));
        }
        pieces.push(piece.clone());
        rest = &rest[at + name.len()..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.as_bytes().into()));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_places() {
        let text = |text: &str| Piece::Text(text.as_bytes().into());
        assert_eq!(pieces("plain"), [text("plain")]);
        assert_eq!(pieces("{__key__}:__rand_int__x"), [text("{"), Piece::Key, text("}:"), Piece::Number, text("x")]);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn names_of_two_words_are_one() {
        let template = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let template = Template::parse(&words).unwrap().unwrap();
            (template.name().to_owned(), template.len())
        };
        assert_eq!(template(&["hset", "k", "f", "__data__"]), ("HSET".to_owned(), 3));
        assert_eq!(template(&["object", "encoding", "k"]), ("OBJECT ENCODING".to_owned(), 1));
        assert_eq!(template(&["nosuch", "k"]), ("NOSUCH".to_owned(), 2));
    }
}
