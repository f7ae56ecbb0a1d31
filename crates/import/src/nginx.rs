//! nginx: `server` blocks of a site file, or of the `http` block of `nginx.conf`. Every location becomes a route.

mod level;
mod location;
mod program;
mod reader;
mod scripts;
mod server;
mod syntax;
mod table;
mod upstream;
mod words;

use crate::model::{Draft, ImportError};

use level::Level;
use reader::Reader;

pub(crate) fn read(text: &str) -> Result<Draft, ImportError> {
    let directives = syntax::parse(text)?;
    let mut reader = Reader::default();
    reader.gather(&directives, 0);
    reader.block(&directives, &Level::default(), 0);
    reader.lifetimes_of_files();
    let mut draft = reader.draft;
    if draft.routes.is_empty() && draft.options().is_empty() {
        return Err(ImportError { line: 1, message: "there is no directive of nginx here".to_owned() });
    }
    draft.settle();
    draft.merge_listeners();
    draft.sort_options();
    Ok(draft)
}
