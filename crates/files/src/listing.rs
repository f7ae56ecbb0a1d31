//! A folder as a page of HTML: plain, and every name of it escaped.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pilotlight_printable::html;
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::beneath::{Opened, Root};
use crate::target::is_served;

/// Most names on a page.
const MAX_NAMES: usize = 10_000;
/// What stays as it is in a link.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The page of the folder at `names`.
pub(crate) fn page(root: &Root, names: &str, folder: &OwnedFd) -> Result<Bytes, Errno> {
    let mut entries = Vec::new();
    let mut is_cut = false;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if !is_served(name) {
            continue;
        }
        if entries.len() == MAX_NAMES {
            is_cut = true;
            break;
        }
        let is_folder = match entry.file_type() {
            FileType::Directory => true,
            FileType::RegularFile => false,
            // Links, and what the file system says nothing of: as they would be opened.
            FileType::Symlink | FileType::Unknown => {
                let slash = if names.is_empty() { "" } else { "/" };
                match root.get(&format!("{names}{slash}{name}")) {
                    Ok(Opened::Folder(_)) => true,
                    Ok(Opened::File(..)) => false,
                    Err(_) => continue,
                }
            }
            _ => continue,
        };
        entries.push((!is_folder, name.to_owned()));
    }
    entries.sort();
    Ok(written(names, &entries, is_cut).into())
}

/// `entries`: whether it is a file, and its name.
fn written(names: &str, entries: &[(bool, String)], is_cut: bool) -> String {
    let path = format!("/{names}");
    let title = html(&path);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    if !names.is_empty() {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    for (is_file, name) in entries {
        let slash = if *is_file { "" } else { "/" };
        // Writing to a String cannot fail. "./", as a name with a colon would be a scheme.
        let link = utf8_percent_encode(name, ESCAPED);
        let _ = writeln!(page, "<li><a href=\"./{link}{slash}\">{}{slash}</a>", html(name));
    }
    page.push_str("</ul>\n");
    if is_cut {
        let _ = writeln!(page, "<p>and more: {MAX_NAMES} are shown</p>");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_links_are_relative() {
        let entries = [(false, "a&b".to_owned()), (true, "<script>.js".to_owned()), (true, "javascript:x".to_owned())];
        let page = written("x/\"y", &entries, false);
        assert!(page.contains("<title>/x/&quot;y</title>"), "{page}");
        assert!(page.contains("<li><a href=\"./a%26b/\">a&amp;b/</a>\n"), "{page}");
        assert!(page.contains("<li><a href=\"./%3Cscript%3E.js\">&lt;script&gt;.js</a>\n"), "{page}");
        assert!(page.contains("<li><a href=\"./javascript%3Ax\">javascript:x</a>\n"), "{page}");
    }
}
