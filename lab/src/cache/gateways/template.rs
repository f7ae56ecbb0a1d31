//! Configurations with `{{name}}` where values go. A line `# What it does. WHERE` begins one and says whose advice it
//! follows; behind a setting, ` # ` and a few words say why it is set.

use std::ffi::OsString;

use anyhow::bail;

const USER: &str = "{{user}}";
const REASON: &str = " # ";

/// The text with values in it. A line about the user stays away where there is no value for it.
///
/// # Errors
/// A value is missing.
pub(crate) fn fill(template: &str, values: &[(&str, String)]) -> anyhow::Result<String> {
    let about_user = values.iter().any(|(name, _)| *name == "user");
    let lines = template.lines().filter(|line| about_user || !line.contains(USER));
    let mut text = lines.flat_map(|line| [line, "\n"]).collect::<String>();
    for (name, value) in values {
        text = text.replace(&format!("{{{{{name}}}}}"), value);
    }
    if let Some(at) = text.find("{{") {
        bail!("there is no value for {}", text[at..].lines().next().unwrap_or_default());
    }
    Ok(text)
}

/// The words of a file with arguments, one option a line.
///
/// # Errors
/// A value is missing.
pub(super) fn arguments(template: &str, values: &[(&str, String)]) -> anyhow::Result<Vec<OsString>> {
    let lines = template.lines().filter(|line| !line.starts_with('#'));
    let words = lines.flat_map(|line| setting(line).0.split_whitespace());
    // Values may have spaces in them.
    words.map(|word| Ok(fill(word, values)?.trim_end().into())).collect()
}

/// For the report: where the advice is from, then each setting that has a reason: `worker_processes 1 (one core)`.
pub(crate) fn settings(template: &str) -> Vec<String> {
    let source = template.lines().next().and_then(|line| line.strip_prefix("# ")?.split_once(". "));
    let source = source.map(|(_, source)| format!("as in {source}"));
    let reasons = template.lines().skip(1).map(setting).filter_map(|(setting, reason)| {
        let setting = setting.trim_matches([';', ' ']);
        Some(format!("{setting} ({})", reason?))
    });
    source.into_iter().chain(reasons).collect()
}

fn setting(line: &str) -> (&str, Option<&str>) {
    match line.split_once(REASON) {
        Some((setting, reason)) => (setting.trim(), Some(reason.trim())),
        None => (line.trim(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "# Does it. manual, 4\nuser {{user}};\nworkers 1; # one core\nlisten {{port}};\n";

    fn port() -> (&'static str, String) {
        ("port", "80".into())
    }

    #[test]
    fn values_are_filled_in() {
        let root = ("user", "root".into());
        let head = "# Does it. manual, 4\n";
        let filled = fill(TEMPLATE, &[port(), root]).expect("whole");
        assert_eq!(filled, format!("{head}user root;\nworkers 1; # one core\nlisten 80;\n"));
        assert_eq!(fill(TEMPLATE, &[port()]).expect("whole"), format!("{head}workers 1; # one core\nlisten 80;\n"));
        let missing = fill(TEMPLATE, &[]).expect_err("no port").to_string();
        assert!(missing.contains("{{port}}"), "{missing}");
    }

    #[test]
    fn settings_have_their_reasons() {
        assert_eq!(settings(TEMPLATE), ["as in manual, 4", "workers 1 (one core)"]);
    }

    #[test]
    fn arguments_are_words() {
        let dir = ("dir", "/a b".to_owned());
        let found = arguments("# What. where\n-F\n-n {{dir}}/v # why\n", &[dir]).expect("whole");
        assert_eq!(found, ["-F", "-n", "/a b/v"]);
    }
}
