//! One table of files and the whole report that each must give: `cases/*.txt`.
//!
//! ```text
//! == what the case is about
//! the file
//! --
//! the report, or `valid`
//! ```
//!
//! After a deliberate change of a message, `UPDATE_EXPECTED=1 cargo test -p pilotlight --test it` writes the
//! reports anew; read the difference before you commit it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pilotlight_cli::config::{Style, parse};

struct Case {
    name: String,
    text: String,
    expected: String,
}

#[test]
fn every_file_gives_its_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/config/cases");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut count = 0;
    let mut wrong = String::new();
    for file in &files {
        let cases = cases(&fs::read_to_string(file).unwrap());
        let mut written = String::new();
        for Case { name, text, expected } in &cases {
            count += 1;
            let got = report(text);
            write!(written, "== {name}\n{text}--\n{got}\n").unwrap();
            if got != *expected && !update {
                writeln!(wrong, "{}: {name}\n--- expected\n{expected}--- got\n{got}", file.display()).unwrap();
            }
        }
        if update {
            fs::write(file, written).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 100, "only {count} cases were found");
}

fn report(text: &str) -> String {
    let report = match parse(text, Path::new("pilotlight.toml")) {
        Ok(loaded) if loaded.warnings.diagnostics().is_empty() => return "valid\n".to_owned(),
        Ok(loaded) => loaded.warnings,
        Err(report) => report,
    };
    report.render(Style::Plain)
}

fn cases(file: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for part in format!("\n{file}").split("\n== ").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap();
        let (text, expected) = rest.split_once("\n--\n").map_or((rest, ""), |(text, expected)| (text, expected));
        let text = format!("{text}\n");
        let expected = format!("{}\n", expected.trim_end());
        cases.push(Case { name: name.to_owned(), text, expected });
    }
    cases
}
