//! Caddyfiles: every handler of a site becomes a route. What Caddy does without a word, certificates and the way from
//! plain HTTP to TLS, the gateway does as well; so a site's address says here what it says there.

mod handler;
mod level;
mod matcher;
mod options;
mod program;
mod reader;
mod scope;
mod site;
mod syntax;
mod variables;
mod words;

use crate::directive::Directive;
use crate::model::{Draft, ImportError};
use crate::origin::{self, Origin};

use level::Done;
use reader::{ONE_FILE, Reader};

pub(crate) fn read(text: &str, origin: Origin<'_>) -> Result<Draft, ImportError> {
    let (text, unset) = variables::filled(text, origin);
    let directives = syntax::parse(&text)?;
    let mut reader = Reader::default();
    for (line, name) in unset {
        reader.note(line, &format!("{{${name}}}"), Done::NotMapped(origin::unset(&name)));
    }
    let mut sites = Vec::new();
    for (index, directive) in directives.iter().enumerate() {
        let snippet = directive.name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
        match (directive.name.as_str(), snippet) {
            ("", _) => reader.options(directive),
            (_, Some(name)) => {
                reader.snippets.insert(name.to_owned(), directive.children().to_vec());
                reader.note(directive.line, &directive.name, Done::NotNeeded("it is read where it is imported"));
            }
            ("import", _) => reader.note(directive.line, &directive.label(), Done::NotMapped(ONE_FILE.to_owned())),
            (name, _) if name.starts_with("&(") => {
                reader.note(directive.line, name, Done::NotMapped("there are no named routes".to_owned()));
            }
            // One site without braces: its address, then its directives.
            _ if directive.block.is_none() => {
                let rest = directives.get(index + 1..).unwrap_or_default().to_vec();
                sites.push(Directive { block: Some(rest), ..directive.clone() });
                break;
            }
            _ => sites.push(directive.clone()),
        }
    }
    if sites.is_empty() && reader.draft.options().is_empty() {
        return Err(ImportError { line: 1, message: "there is no site of Caddy here".to_owned() });
    }
    let mut expanded = Vec::new();
    for site in sites {
        let block = reader.expanded(site.children(), 0);
        if std::mem::take(&mut reader.is_closing) {
            reader.closed.insert(site.line);
        }
        expanded.push(Directive { block: Some(block), ..site });
    }
    reader.addresses_of_tls(&expanded);
    for site in &expanded {
        reader.site(site);
    }
    let mut draft = reader.draft;
    draft.has_whole_hosts = true;
    draft.settle();
    draft.merge_listeners();
    draft.sort_options();
    Ok(draft)
}
