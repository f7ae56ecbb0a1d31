//! One section of the file: its known keys, each read as what the schema says it takes. Everything else is reported.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic, Span};
use super::hints::suggestion;
use super::retired::RETIRED;
use super::schema::{Key, Part};
use super::shown::shown;
use super::value::{self, HumanSize, HumanTime, Rejected};

/// A section whose unknown keys have been reported.
#[derive(Debug)]
pub(super) struct Section<'a> {
    fields: Vec<Field<'a>>,
    /// Keys that unknown ones were probably meant to be.
    meant: Vec<&'static str>,
    /// Its heading, or its braces.
    pub(super) at: Span,
}

/// A known key of a section, with its value.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    pub(super) key: &'static Key,
    pub(super) key_at: Span,
    pub(super) at: Span,
    pub(super) value: &'a DeValue<'a>,
}

/// A whole number that is not negative.
pub(super) trait Number: Copy + PartialOrd + std::fmt::Display + TryFrom<i128> + TryInto<u64> {}

impl<T: Copy + PartialOrd + std::fmt::Display + TryFrom<i128> + TryInto<u64>> Number for T {}

fn as_u64(number: impl Number) -> u64 {
    number.try_into().unwrap_or_default()
}

impl<'a> Section<'a> {
    /// Reads a section; `place` says where it is ("in [limits]").
    pub(super) fn read(part: Part, place: &str, at: Span, table: &'a DeTable<'a>, found: &mut Vec<Diagnostic>) -> Self {
        let mut section = Section { fields: Vec::with_capacity(table.len()), meant: Vec::new(), at };
        for (name, value) in table {
            let word = name.get_ref().as_ref();
            if let Some(key) = part.keys().iter().find(|key| key.name == word) {
                section.fields.push(Field { key, key_at: name.span(), at: value.span(), value: value.get_ref() });
                continue;
            }
            if let Some(retired) = RETIRED.iter().find(|key| key.part == part && key.name == word) {
                let message = format!("{} has no effect any more: {}", shown(word), retired.why);
                found.push(Diagnostic::warning(Code::NoEffect, name.span(), message).help("remove it"));
                continue;
            }
            let (meant, help) = suggestion(word, value.get_ref(), part);
            section.meant.extend(meant);
            let message = format!("unknown key {} {place}", shown(word));
            found.push(Diagnostic::error(Code::UnknownKey, name.span(), message).help(help));
        }
        section
    }

    /// One whose keys are no words of the schema, so that its reader has to find out what they are.
    pub(super) fn empty(at: Span) -> Self {
        Section { fields: Vec::new(), meant: Vec::new(), at }
    }

    /// A key that its reader has found.
    pub(super) fn push(&mut self, field: Field<'a>) {
        self.fields.push(field);
    }

    /// Whether an unknown key was probably meant to be this one.
    pub(super) fn meant(&self, name: &str) -> bool {
        self.meant.contains(&name)
    }

    /// Whether the key is there, if only misspelt.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.meant(name) || self.fields.iter().any(|field| field.key.name == name)
    }

    /// A part of the section that is a table of its own; `place` says where it is.
    pub(super) fn part(&self, name: &str, part: Part, place: &str, found: &mut Vec<Diagnostic>) -> Option<Section<'a>> {
        let field = self.field(name)?;
        let table = noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found)?;
        Some(Section::read(part, place, field.at, table, found))
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.meant.is_empty()
    }

    pub(super) fn field(&self, name: &str) -> Option<Field<'a>> {
        self.fields.iter().find(|field| field.key.name == name).cloned()
    }

    /// Reads a value into its place. What the file does not say, or says wrongly, stays there as it is.
    pub(super) fn set<T, P: From<T>>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'a>) -> Result<T, Diagnostic>,
        into: &mut P,
        found: &mut Vec<Diagnostic>,
    ) {
        if let Some(value) = self.field(name).and_then(|field| noted(read(&field), found)) {
            *into = value.into();
        }
    }
}

/// Reads a number, for [`Section::set`].
pub(super) fn a_number<T: Number>(range: &RangeInclusive<T>) -> impl Fn(&Field<'_>) -> Result<T, Diagnostic> {
    |field| field.number(range)
}

/// Reads a size with its unit.
pub(super) fn a_size<T: Number>(range: &RangeInclusive<T>) -> impl Fn(&Field<'_>) -> Result<T, Diagnostic> {
    |field| field.size(range)
}

/// Reads a time with its unit.
pub(super) fn a_time(range: &RangeInclusive<Duration>) -> impl Fn(&Field<'_>) -> Result<Duration, Diagnostic> {
    |field| field.time(range)
}

/// Reads what `read` does, or "none".
pub(super) fn or_none<T>(
    read: impl Fn(&Field<'_>) -> Result<T, Diagnostic>,
) -> impl Fn(&Field<'_>) -> Result<Option<T>, Diagnostic> {
    move |field| if field.is_none() { Ok(None) } else { read(field).map(Some) }
}

impl<'a> Field<'a> {
    pub(super) fn string(&self) -> Result<&'a str, Diagnostic> {
        self.value.as_str().ok_or_else(|| self.wrong_type())
    }

    pub(super) fn boolean(&self) -> Result<bool, Diagnostic> {
        self.value.as_bool().ok_or_else(|| match self.value.as_str() {
            Some(text @ ("true" | "false")) => {
                self.wrong_type().help(format!("write it without quotes: {} = {text}", self.key.name))
            }
            _ => self.wrong_type(),
        })
    }

    pub(super) fn number<T: Number>(&self, range: &RangeInclusive<T>) -> Result<T, Diagnostic> {
        let Some(number) = self.value.as_integer() else {
            let quoted = self.value.as_str().filter(|text| text.parse::<u64>().is_ok());
            let help = quoted.map(|text| format!("write it without quotes: {} = {text}", self.key.name));
            return Err(self.wrong_type().maybe_help(help));
        };
        let parsed = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX);
        let is_below = parsed < i128::from(as_u64(*range.start()));
        let number_in_range = T::try_from(parsed).ok().filter(|number| range.contains(number));
        number_in_range.ok_or_else(|| self.out_of_range(number.as_str(), is_below, range))
    }

    pub(super) fn time(&self, range: &RangeInclusive<Duration>) -> Result<Duration, Diagnostic> {
        let text = self.text_with_unit(|text| value::time(text).err())?;
        self.must_have_limit(text, &HumanTime(*range.end()))?;
        let time = value::time(text).map_err(|wrong| self.rejected(wrong))?;
        if range.contains(&time) {
            return Ok(time);
        }
        let shown = HumanTime(*range.start())..=HumanTime(*range.end());
        let wrong = self.out_of_range(text, time < *range.start(), &shown);
        Err(wrong.maybe_help(self.none_for_zero(time.is_zero())))
    }

    pub(super) fn size<T: Number>(&self, range: &RangeInclusive<T>) -> Result<T, Diagnostic> {
        let shown = HumanSize(as_u64(*range.start()))..=HumanSize(as_u64(*range.end()));
        let text = self.text_with_unit(|text| value::size(text).err())?;
        self.must_have_limit(text, shown.end())?;
        let size = value::size(text).map_err(|wrong| self.rejected(wrong))?;
        T::try_from(i128::from(size)).ok().filter(|size| range.contains(size)).ok_or_else(|| {
            let wrong = self.out_of_range(text, size < shown.start().0, &shown);
            wrong.maybe_help(self.none_for_zero(size == 0))
        })
    }

    /// Whether the file says that there is no limit.
    fn is_none(&self) -> bool {
        self.value.as_str() == Some("none")
    }

    /// The text of a time or a size; a number without quotes is reported with what `reject` says about it.
    fn text_with_unit(&self, reject: impl Fn(&str) -> Option<Rejected>) -> Result<&'a str, Diagnostic> {
        let bare = match self.value {
            DeValue::Integer(number) if number.as_str().starts_with('-') => None,
            DeValue::Integer(number) if number.radix() == 10 && number.as_str() != "0" => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            DeValue::Integer(_) => return Err(self.wrong_type().maybe_help(self.none_for_zero(true))),
            _ => None,
        };
        let help = bare.and_then(reject).and_then(|wrong| wrong.help);
        self.value.as_str().ok_or_else(|| self.wrong_type().maybe_help(help))
    }

    fn must_have_limit(&self, text: &str, max: &dyn std::fmt::Display) -> Result<(), Diagnostic> {
        if text != "none" {
            return Ok(());
        }
        let message = format!("`{}` cannot be without a limit", self.key.name);
        let help = match self.key.takes.contains("false") {
            true => format!("to switch it off write {} = false", self.key.name),
            false => format!("write {max} or less"),
        };
        Err(Diagnostic::error(Code::BadValue, self.at.clone(), message).help(help))
    }

    fn none_for_zero(&self, is_zero: bool) -> Option<String> {
        (is_zero && self.key.takes.contains("\"none\"")).then(|| match self.key.name {
            // What is not limited by them is not done at all.
            "max_heuristic" | "stale_if_error" => format!("to switch it off write {} = \"none\"", self.key.name),
            name => format!("for no limit write {name} = \"none\""),
        })
    }

    pub(super) fn wrong_type(&self) -> Diagnostic {
        let message = format!("`{}` must be {}, not {}", self.key.name, self.key.takes, type_name(self.value));
        Diagnostic::error(Code::WrongType, self.at.clone(), message).help(self.example())
    }

    pub(super) fn rejected(&self, wrong: Rejected) -> Diagnostic {
        let message = format!("`{}`: {}", self.key.name, wrong.reason);
        Diagnostic::error(Code::BadValue, self.at.clone(), message).help(self.example()).maybe_help(wrong.help)
    }

    pub(super) fn out_of_range<T: std::fmt::Display>(
        &self,
        value: &str,
        is_below: bool,
        range: &RangeInclusive<T>,
    ) -> Diagnostic {
        let (min, max) = (range.start(), range.end());
        let message = format!("`{}` is {value}; it must be from {min} to {max}", self.key.name);
        let help = if is_below { format!("write {min} or more") } else { format!("write {max} or less") };
        Diagnostic::error(Code::OutOfRange, self.at.clone(), message).help(help)
    }

    fn example(&self) -> String {
        if self.key.example.starts_with('[') && self.key.takes.contains("section") {
            format!("for example: {}", self.key.example)
        } else {
            format!("for example: {} = {}", self.key.name, self.key.example)
        }
    }
}

/// Takes the value, or notes what is wrong.
pub(super) fn noted<T>(result: Result<T, Diagnostic>, found: &mut Vec<Diagnostic>) -> Option<T> {
    result.map_err(|diagnostic| found.push(diagnostic)).ok()
}

/// The name of a value's type with its article.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(array) if !array.is_empty() && array.iter().all(|item| item.get_ref().is_table()) => {
            "a list of sections"
        }
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}
