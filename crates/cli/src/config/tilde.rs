//! `~` in a path: a shell puts the home there, and no file of configuration does.

use super::diagnostic::{Code, Diagnostic};

/// Says of files and folders that are not there because their paths begin with `~` what to write instead.
pub(super) fn explain(text: &str, home: Option<&str>, found: &mut [Diagnostic]) {
    for diagnostic in found.iter_mut().filter(|found| found.code == Code::Missing) {
        let written = diagnostic.span.clone().and_then(|span| text.get(span)).unwrap_or_default();
        let path = written.trim_matches(['"', '\'']);
        let Some(rest) = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            continue;
        };
        let whole = home
            .filter(|home| home.starts_with('/'))
            .map_or("the whole path".to_owned(), |home| format!("\"{}{rest}\"", home.trim_end_matches('/')));
        diagnostic.help = Some(format!("`~` is what a shell makes a home of, and means nothing here: write {whole}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_to_be_written() {
        let text = "files = \"~/www\"\ndir = \"~\"\nother = \"~ada/x\"";
        let at = |word: &str| {
            let start = text.find(word).unwrap_or_default();
            Diagnostic::error(Code::Missing, start..start + word.len(), "it is not there").help("mkdir")
        };
        let mut found = vec![at("\"~/www\""), at("\"~\""), at("\"~ada/x\"")];
        explain(text, Some("/home/ada/"), &mut found);
        let help = |at: usize| found[at].help.clone().unwrap_or_default();
        assert!(
            help(0).ends_with("write \"/home/ada/www\"") && help(1).ends_with("write \"/home/ada\""),
            "{}",
            help(0)
        );
        assert_eq!(help(2), "mkdir");
        explain(text, None, &mut found);
        assert!(found[0].help.clone().unwrap_or_default().ends_with("write the whole path"));
    }
}
