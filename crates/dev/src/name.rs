//! The name of a project in URLs.

use std::path::Path;

/// Bytes of a label of the domain name system (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// The folder's name as a label of a host name (RFC 1123 §2.1): letters in lower case, digits, and single hyphens for
/// everything else; `app` if nothing is left of it.
#[must_use]
pub fn label(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut label = String::new();
    for character in name.chars() {
        if character.is_ascii_alphanumeric() {
            label.push(character.to_ascii_lowercase());
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
    }
    label.truncate(MAX_LABEL);
    let label = label.trim_end_matches('-');
    if label.is_empty() { "app".to_owned() } else { label.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_labels() {
        for (folder, expected) in [
            ("/home/me/shop", "shop"),
            ("/home/me/My Shop (old)", "my-shop-old"),
            ("/srv/shop.example.org", "shop-example-org"),
            ("/srv/__x__", "x"),
            ("/srv/日本", "app"),
            ("/", "app"),
        ] {
            assert_eq!(label(Path::new(folder)), expected);
        }
        assert_eq!(label(Path::new(&format!("/{}-{}", "a".repeat(62), "b"))), "a".repeat(62));
    }
}
