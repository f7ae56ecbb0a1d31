//! A folder as a page of HTML: each file with its size and when it was changed, and every name escaped.

use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pilotlight_printable::html;
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use rustix::io::Errno;

use crate::beneath::{Opened, Root};
use crate::target::is_served;

/// Most names on a page.
const MAX_NAMES: usize = 10_000;
/// What stays as it is in a link.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What the page may do: look as it does. It loads nothing, runs nothing, and is in no frame.
pub(crate) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:0 auto;max-width:60rem;padding:1.5rem;background:#fff;color:#1c1f23;font:1rem/1.5 system-ui,sans-serif}\
h1{margin:0 0 1rem;font-size:1.375rem;line-height:1.3;overflow-wrap:anywhere}\
table{width:100%;border-collapse:collapse}\
th{text-align:left;font-size:.875rem;font-weight:600;color:#5a6068}\
th,td{padding:.3rem 1rem .3rem 0;border-bottom:1px solid #e3e5e8;vertical-align:top}\
td:first-child{overflow-wrap:anywhere}\
.size,.time{white-space:nowrap;font-variant-numeric:tabular-nums;color:#5a6068}\
.size{text-align:right}\
.time{padding-right:0}\
a{color:#0b57b0;text-decoration:none}\
a:hover,a:focus{text-decoration:underline}\
p{color:#5a6068}\
@media (max-width:40rem){.time{display:none}.size{padding-right:0}}\
@media (prefers-color-scheme:dark){body{background:#16181b;color:#e8eaed}th,td{border-color:#33373c}a{color:#8ab8f5}\
th,.size,.time,p{color:#a6adb5}}";

/// One line of the page. Folders come first, then by name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Folder { name: String, seconds: i64 },
    File { name: String, seconds: i64, bytes: u64 },
}

impl Entry {
    /// `None`: nothing that is served.
    fn of(name: &str, stat: &Stat) -> Option<Self> {
        let (name, seconds) = (name.to_owned(), stat.st_mtime);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Some(Self::Folder { name, seconds }),
            FileType::RegularFile => {
                Some(Self::File { name, seconds, bytes: u64::try_from(stat.st_size).unwrap_or_default() })
            }
            _ => None,
        }
    }
}

/// The page of the folder at `names`.
pub(crate) fn page(root: &Root, names: &str, folder: &OwnedFd) -> Result<Bytes, Errno> {
    let mut entries = Vec::new();
    let mut is_cut = false;
    for found in Dir::read_from(folder)? {
        let found = found?;
        let Ok(name) = found.file_name().to_str() else { continue };
        if !is_served(name) {
            continue;
        }
        if entries.len() == MAX_NAMES {
            is_cut = true;
            break;
        }
        entries.extend(entry(root, names, folder, name));
    }
    entries.sort();
    Ok(written(names, &entries, is_cut).into())
}

/// What is by that name; `None` if it would not be served, or has just been removed.
fn entry(root: &Root, names: &str, folder: &OwnedFd, name: &str) -> Option<Entry> {
    let stat = statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Entry::of(name, &stat);
    }
    // As the link would be opened.
    let slash = if names.is_empty() { "" } else { "/" };
    let stat = match root.get(&format!("{names}{slash}{name}")).ok()? {
        Opened::File(_, stat) => *stat,
        Opened::Folder(folder) => rustix::fs::fstat(&folder).ok()?,
    };
    Entry::of(name, &stat)
}

fn written(names: &str, entries: &[Entry], is_cut: bool) -> String {
    let path = format!("/{names}");
    let title = html(&path);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<table>\n\
         <thead><tr><th>Name</th><th class=\"size\">Size</th><th class=\"time\">Changed (UTC)</th></tr></thead>\n<tbody>\n"
    );
    if !names.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td class=\"size\"></td><td class=\"time\"></td></tr>\n");
    }
    for entry in entries {
        let (name, slash, size, seconds) = match entry {
            Entry::Folder { name, seconds } => (name, "/", String::new(), *seconds),
            Entry::File { name, seconds, bytes } => (name, "", size(*bytes), *seconds),
        };
        // Writing to a String cannot fail. "./", as a name with a colon would be a scheme; <bdi>, as a name that is
        // written from right to left turns no more around than itself.
        let link = utf8_percent_encode(name, ESCAPED);
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{link}{slash}\"><bdi>{}</bdi>{slash}</a></td><td class=\"size\">{size}</td>\
             <td class=\"time\">{}</td></tr>",
            html(name),
            changed(seconds)
        );
    }
    page.push_str("</tbody>\n</table>\n");
    if entries.is_empty() {
        page.push_str("<p>This folder is empty.</p>\n");
    }
    if is_cut {
        let _ = writeln!(page, "<p>The folder has more files; only {MAX_NAMES} are listed.</p>");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// With three digits at most before the unit, and one behind the point below 10.
fn size(bytes: u64) -> String {
    let mut unit = 1_u64;
    let mut names = ["B", "kB", "MB", "GB", "TB", "PB"].into_iter().peekable();
    let mut name = "B";
    while let Some(next) = names.next() {
        name = next;
        if bytes / unit < 1000 || names.peek().is_none() {
            break;
        }
        unit *= 1000;
    }
    match (bytes / unit, bytes % unit * 10 / unit) {
        (whole @ 0..10, tenths) if unit > 1 => format!("{whole}.{tenths} {name}"),
        (whole, _) => format!("{whole} {name}"),
    }
}

/// Day, month, year, hours and minutes; empty for a time before 1970.
fn changed(seconds: i64) -> String {
    let Ok(seconds) = u64::try_from(seconds) else { return String::new() };
    let Some(at) = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(MAX_SECONDS))) else { return String::new() };
    // "Mon, 23 Nov 2026 20:20:15 GMT" without the day of the week and the seconds.
    httpdate::fmt_http_date(at).get(5..22).unwrap_or_default().to_owned()
}

/// The end of the year 9999, behind which no date is written.
const MAX_SECONDS: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Entry {
        Entry::Folder { name: name.to_owned(), seconds: 1_795_465_215 }
    }

    fn file(name: &str) -> Entry {
        Entry::File { name: name.to_owned(), seconds: 1_795_465_215, bytes: 12_345 }
    }

    #[test]
    fn names_are_text_and_links_are_relative() {
        let page = written("x/\"y", &[folder("a&b"), file("<script>.js"), file("javascript:x")], false);
        assert!(page.contains("<title>/x/&quot;y</title>"), "{page}");
        assert!(page.contains("<a href=\"./a%26b/\"><bdi>a&amp;b</bdi>/</a>"), "{page}");
        assert!(page.contains("<a href=\"./%3Cscript%3E.js\"><bdi>&lt;script&gt;.js</bdi></a>"), "{page}");
        assert!(page.contains("<a href=\"./javascript%3Ax\"><bdi>javascript:x</bdi></a>"), "{page}");
    }

    #[test]
    fn a_line_has_size_and_time() {
        let page = written("", &[file("a")], false);
        assert!(page.contains("<td class=\"size\">12 kB</td><td class=\"time\">23 Nov 2026 20:20</td>"), "{page}");
    }

    #[test]
    fn folders_come_first() {
        let mut entries = [file("a"), folder("c"), folder("b"), file("B")];
        entries.sort();
        assert_eq!(entries, [folder("b"), folder("c"), file("B"), file("a")]);
    }

    #[test]
    fn a_page_says_when_it_has_nothing_or_not_everything() {
        assert!(written("", &[], false).contains("This folder is empty."));
        assert!(written("", &[file("a")], true).contains("only 10000 are listed"));
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_999, "9.9 kB"),
            (10_000, "10 kB"),
            (999_999, "999 kB"),
            (1_500_000, "1.5 MB"),
            (u64::MAX, "18446 PB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn any_time_can_be_written() {
        assert_eq!(changed(-1), "");
        assert_eq!(changed(0), "01 Jan 1970 00:00");
        assert_eq!(changed(i64::MAX), "31 Dec 9999 23:59");
    }
}
