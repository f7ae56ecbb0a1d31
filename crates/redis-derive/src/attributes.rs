//! `#[redis(…)]`: what it may say, and where.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Ident, LitStr, Path, Result};

/// Of the type.
pub(crate) struct Container {
    pub(crate) krate: Path,
    pub(crate) is_array: bool,
    pub(crate) style: Style,
}

/// Of a field.
#[derive(Default)]
pub(crate) struct Field {
    pub(crate) rename: Option<String>,
    pub(crate) default: Option<Default>,
    pub(crate) is_skipped: bool,
    pub(crate) is_flat: bool,
}

/// What a missing field is.
pub(crate) enum Default {
    OfType,
    Function(Path),
}

/// Of a variant.
#[derive(Default)]
pub(crate) struct Variant {
    pub(crate) rename: Option<String>,
    pub(crate) is_other: bool,
}

/// How names are written.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    AsIs,
    Lower,
    Upper,
    Camel,
    Pascal,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

const STYLES: [(&str, Style); 8] = [
    ("lowercase", Style::Lower),
    ("UPPERCASE", Style::Upper),
    ("camelCase", Style::Camel),
    ("PascalCase", Style::Pascal),
    ("snake_case", Style::Snake),
    ("SCREAMING_SNAKE_CASE", Style::ScreamingSnake),
    ("kebab-case", Style::Kebab),
    ("SCREAMING-KEBAB-CASE", Style::ScreamingKebab),
];

impl Container {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let krate = syn::parse_str("::pilotlight_redis")?;
        let mut container = Self { krate, is_array: false, style: Style::AsIs };
        each(attributes, |meta| {
            if meta.path.is_ident("array") {
                container.is_array = true;
            } else if meta.path.is_ident("rename_all") {
                container.style = style(&meta.value()?.parse()?)?;
            } else if meta.path.is_ident("crate") {
                container.krate = meta.value()?.parse::<LitStr>()?.parse()?;
            } else {
                return Err(unknown(&meta, "of a type: `array`, `rename_all = \"…\"`, `crate = \"…\"`"));
            }
            Ok(())
        })?;
        Ok(container)
    }
}

impl Field {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut field = Self::default();
        each(attributes, |meta| {
            if meta.path.is_ident("rename") {
                field.rename = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("default") {
                field.default = Some(match meta.input.peek(syn::Token![=]) {
                    true => Default::Function(meta.value()?.parse::<LitStr>()?.parse()?),
                    false => Default::OfType,
                });
            } else if meta.path.is_ident("skip") {
                field.is_skipped = true;
            } else if meta.path.is_ident("flatten") {
                field.is_flat = true;
            } else {
                return Err(unknown(&meta, "of a field: `rename = \"…\"`, `default`, `skip`, `flatten`"));
            }
            Ok(())
        })?;
        Ok(field)
    }
}

impl Variant {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut variant = Self::default();
        each(attributes, |meta| {
            if meta.path.is_ident("rename") {
                variant.rename = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("other") {
                variant.is_other = true;
            } else {
                return Err(unknown(&meta, "of a variant: `rename = \"…\"`, `other`"));
            }
            Ok(())
        })?;
        Ok(variant)
    }
}

fn each(attributes: &[Attribute], mut read: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    attributes.iter().filter(|it| it.path().is_ident("redis")).try_for_each(|it| it.parse_nested_meta(&mut read))
}

fn unknown(meta: &ParseNestedMeta<'_>, known: &str) -> Error {
    meta.error(format!("there is no such attribute {known}"))
}

fn style(text: &LitStr) -> Result<Style> {
    let name = text.value();
    if let Some((_, style)) = STYLES.iter().find(|(known, _)| *known == name) {
        return Ok(*style);
    }
    let known = STYLES.map(|(name, _)| format!("\"{name}\"")).join(", ");
    Err(Error::new(text.span(), format!("there is no such style: {known}")))
}

impl Style {
    /// The name of a field or variant on the wire.
    pub(crate) fn name(self, ident: &Ident) -> String {
        let name = ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        let words = words(name);
        match self {
            Self::AsIs => name.to_owned(),
            Self::Lower => words.concat(),
            Self::Upper => words.concat().to_uppercase(),
            Self::Snake => words.join("_"),
            Self::ScreamingSnake => words.join("_").to_uppercase(),
            Self::Kebab => words.join("-"),
            Self::ScreamingKebab => words.join("-").to_uppercase(),
            Self::Pascal => words.iter().map(|word| capital(word)).collect(),
            Self::Camel => {
                let capitals = words.iter().skip(1).map(|word| capital(word));
                words.first().cloned().into_iter().chain(capitals).collect()
            }
        }
    }
}

/// In lower case: `full_name` and `FullName` are the same two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        let is_new = letter == '_' || letter.is_uppercase();
        if is_new && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// An error at the type itself.
pub(crate) fn refuse(what: &str) -> Error {
    Error::new(Span::call_site(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(style: &str, expected: [&str; 2]) {
        let style = STYLES.iter().find(|(name, _)| *name == style).unwrap().1;
        let names = ["full_name", "FullName"].map(|name| style.name(&Ident::new(name, Span::call_site())));
        assert_eq!(names, expected.map(str::to_owned));
    }

    #[test]
    fn names_have_styles() {
        check("lowercase", ["fullname"; 2]);
        check("UPPERCASE", ["FULLNAME"; 2]);
        check("camelCase", ["fullName"; 2]);
        check("PascalCase", ["FullName"; 2]);
        check("snake_case", ["full_name"; 2]);
        check("SCREAMING_SNAKE_CASE", ["FULL_NAME"; 2]);
        check("kebab-case", ["full-name"; 2]);
        check("SCREAMING-KEBAB-CASE", ["FULL-NAME"; 2]);
    }
}
