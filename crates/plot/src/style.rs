//! The style sheets of pictures.

/// Colours, as variables: light, dark by the reader's system, and either by `data-theme` of the page. Each is readable
/// on `--surface` (4.5 : 1 for texts, 3 : 1 for shapes), and the ones of curves differ without hue by their dashes.
pub const THEME: &str = include_str!("theme.css");

/// How the parts of a picture look, by the variables of [`THEME`].
pub const RULES: &str = include_str!("rules.css");
