//! What a key of the file is, and words for what it takes.

/// A key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes, to be read after "must be".
    pub takes: &'static str,
    /// A value as it stands in a file.
    pub example: &'static str,
    /// What other programs call it; only for suggestions.
    pub aliases: &'static [&'static str],
}

pub(super) const fn key(
    name: &'static str,
    takes: &'static str,
    example: &'static str,
    aliases: &'static [&'static str],
) -> Key {
    Key { name, takes, example, aliases }
}

pub(super) const A_SECTION: &str = "a section";
pub(super) const A_SIZE: &str = "a size with its unit";
pub(super) const A_TIME: &str = "a time with its unit";
pub(super) const A_TIME_OR_NONE: &str = "a time with its unit or \"none\"";
pub(super) const A_NUMBER_OR_NONE: &str = "a number or \"none\"";
pub(super) const A_LIST: &str = "a list of strings";
pub(super) const AN_ADDRESS_OR_LIST: &str = "an address or a list of addresses";
pub(super) const A_STRING: &str = "a string";
pub(super) const A_PATH_LIST: &str = "a path or a list of paths";
pub(super) const TRUE_OR_FALSE: &str = "true or false";
