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
mod variables;
mod words;

use crate::model::{Draft, ImportError};
use crate::origin::{self, Origin};

use level::Level;
use reader::Reader;

pub(crate) fn read(text: &str, origin: Origin<'_>) -> Result<Draft, ImportError> {
    let mut directives = syntax::parse(text)?;
    let mut unset = Vec::new();
    variables::fill(&mut directives, origin, &mut unset);
    let mut reader = Reader::default();
    for (line, name) in unset {
        reader.draft.not_mapped(line, format!("${{{name}}}"), origin::unset(&name));
    }
    reader.gather(&directives, 0);
    reader.block(&directives, &Level::default(), 0);
    reader.lifetimes_of_files();
    let mut draft = reader.draft;
    if draft.routes.is_empty() && draft.options().is_empty() {
        return Err(ImportError { line: 1, message: "there is no directive of nginx here".to_owned() });
    }
    draft.has_whole_hosts = true;
    draft.settle();
    draft.merge_listeners();
    draft.sort_options();
    Ok(draft)
}
