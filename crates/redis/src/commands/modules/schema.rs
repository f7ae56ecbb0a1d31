//! The fields of an index of documents.

use crate::command::{Arg, Args, Pairs};

/// The fields of an index, for `ft_create` and `ft_alter`. Of hashes the source is the name of a field, of JSON
/// documents a path; `_as` gives it a name for queries.
///
/// ```
/// # use pilotlight_redis::commands::modules::{Schema, TagField, TextField, VectorField};
/// let schema = Schema::new()
///     .text("title", TextField::new().weight(5.0).sortable())
///     .tag("colour", TagField::new().separator(';'))
///     .numeric("price")
///     .vector("embedding", VectorField::hnsw("FLOAT32", 1536, "COSINE"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Schema<'a>(Vec<Arg<'a>>);

impl<'a> Schema<'a> {
    /// No fields yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A field of text, to be searched word by word.
    #[must_use]
    pub fn text(self, source: impl Into<Arg<'a>>, field: TextField<'a>) -> Self {
        self.add(source, None, "TEXT", field.0)
    }

    /// The same with another name.
    #[must_use]
    pub fn text_as(self, source: impl Into<Arg<'a>>, name: impl Into<Arg<'a>>, field: TextField<'a>) -> Self {
        self.add(source, Some(name.into()), "TEXT", field.0)
    }

    /// A field of tags: words that are found as they are.
    #[must_use]
    pub fn tag(self, source: impl Into<Arg<'a>>, field: TagField<'a>) -> Self {
        self.add(source, None, "TAG", field.0)
    }

    /// The same with another name.
    #[must_use]
    pub fn tag_as(self, source: impl Into<Arg<'a>>, name: impl Into<Arg<'a>>, field: TagField<'a>) -> Self {
        self.add(source, Some(name.into()), "TAG", field.0)
    }

    /// A field of numbers.
    #[must_use]
    pub fn numeric(self, source: impl Into<Arg<'a>>) -> Self {
        self.add(source, None, "NUMERIC", Vec::new())
    }

    /// The same with another name.
    #[must_use]
    pub fn numeric_as(self, source: impl Into<Arg<'a>>, name: impl Into<Arg<'a>>) -> Self {
        self.add(source, Some(name.into()), "NUMERIC", Vec::new())
    }

    /// A field of places, `longitude,latitude`.
    #[must_use]
    pub fn geo(self, source: impl Into<Arg<'a>>) -> Self {
        self.add(source, None, "GEO", Vec::new())
    }

    /// The same with another name.
    #[must_use]
    pub fn geo_as(self, source: impl Into<Arg<'a>>, name: impl Into<Arg<'a>>) -> Self {
        self.add(source, Some(name.into()), "GEO", Vec::new())
    }

    /// A field of vectors.
    #[must_use]
    pub fn vector(self, source: impl Into<Arg<'a>>, field: VectorField<'a>) -> Self {
        self.add(source, None, "VECTOR", field.words())
    }

    /// The same with another name.
    #[must_use]
    pub fn vector_as(self, source: impl Into<Arg<'a>>, name: impl Into<Arg<'a>>, field: VectorField<'a>) -> Self {
        self.add(source, Some(name.into()), "VECTOR", field.words())
    }

    /// A field of any type, or words behind the last one (`NOINDEX`, `SORTABLE` of a number, …).
    #[must_use]
    pub fn words(mut self, words: impl Args<'a>) -> Self {
        words.each(&mut |word| self.0.push(word));
        self
    }

    fn add(
        mut self,
        source: impl Into<Arg<'a>>,
        name: Option<Arg<'a>>,
        kind: &'static str,
        options: Vec<Arg<'a>>,
    ) -> Self {
        self.0.push(source.into());
        if let Some(name) = name {
            self.0.extend([Arg::from("AS"), name]);
        }
        self.0.push(kind.into());
        self.0.extend(options);
        self
    }
}

impl<'a> Args<'a> for Schema<'a> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.0.into_iter().for_each(push);
    }
}

/// Options of a field of text.
///
/// ```
/// use pilotlight_redis::commands::modules::{Schema, TextField};
///
/// let schema = Schema::new().text("title", TextField::new().sortable());
/// ```
#[derive(Debug, Clone, Default)]
pub struct TextField<'a>(Vec<Arg<'a>>);

impl<'a> TextField<'a> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `WEIGHT`: what a word here counts; 1 if it is not given.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.0.extend([Arg::from("WEIGHT"), weight.into()]);
        self
    }

    /// `NOSTEM`: words are found as they are written only.
    #[must_use]
    pub fn nostem(mut self) -> Self {
        self.0.push("NOSTEM".into());
        self
    }

    /// `PHONETIC`: words are found by their sound; `dm:en` is English.
    #[must_use]
    pub fn phonetic(mut self, matcher: impl Into<Arg<'a>>) -> Self {
        self.0.extend([Arg::from("PHONETIC"), matcher.into()]);
        self
    }

    /// `SORTABLE`. Give it last.
    #[must_use]
    pub fn sortable(mut self) -> Self {
        self.0.push("SORTABLE".into());
        self
    }
}

/// Options of a field of tags.
///
/// ```
/// use pilotlight_redis::commands::modules::{Schema, TagField};
///
/// let schema = Schema::new().tag("colours", TagField::new());
/// ```
#[derive(Debug, Clone, Default)]
pub struct TagField<'a>(Vec<Arg<'a>>);

impl TagField<'_> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `SEPARATOR`: what is between tags; a comma if it is not given.
    #[must_use]
    pub fn separator(mut self, separator: char) -> Self {
        self.0.extend([Arg::from("SEPARATOR"), separator.into()]);
        self
    }

    /// `CASESENSITIVE`.
    #[must_use]
    pub fn case_sensitive(mut self) -> Self {
        self.0.push("CASESENSITIVE".into());
        self
    }

    /// `SORTABLE`. Give it last.
    #[must_use]
    pub fn sortable(mut self) -> Self {
        self.0.push("SORTABLE".into());
        self
    }
}

/// Options of a field of vectors.
///
/// ```
/// use pilotlight_redis::commands::modules::{Schema, VectorField};
///
/// let schema = Schema::new().vector("embedding", VectorField::hnsw("FLOAT32", 384, "COSINE"));
/// ```
#[derive(Debug, Clone)]
pub struct VectorField<'a> {
    algorithm: &'static str,
    attributes: Vec<Arg<'a>>,
}

impl<'a> VectorField<'a> {
    /// Compares with every vector: exact, for few of them. `kind`: `FLOAT32`, `FLOAT64`, …; `metric`: `COSINE`, `L2`,
    /// `IP`.
    #[must_use]
    pub fn flat(kind: impl Into<Arg<'a>>, dimensions: u32, metric: impl Into<Arg<'a>>) -> Self {
        Self::of("FLAT", kind.into(), dimensions, metric.into())
    }

    /// A graph of neighbours: nearly exact, for many vectors.
    #[must_use]
    pub fn hnsw(kind: impl Into<Arg<'a>>, dimensions: u32, metric: impl Into<Arg<'a>>) -> Self {
        Self::of("HNSW", kind.into(), dimensions, metric.into())
    }

    /// More attributes: `("M", 40)`, `("EF_CONSTRUCTION", 250)`, …
    #[must_use]
    pub fn attributes(mut self, pairs: impl Pairs<'a>) -> Self {
        pairs.each_pair(&mut |word| self.attributes.push(word));
        self
    }

    fn of(algorithm: &'static str, kind: Arg<'a>, dimensions: u32, metric: Arg<'a>) -> Self {
        let attributes = vec!["TYPE".into(), kind, "DIM".into(), dimensions.into(), "DISTANCE_METRIC".into(), metric];
        Self { algorithm, attributes }
    }

    fn words(self) -> Vec<Arg<'a>> {
        let mut words = vec![self.algorithm.into(), self.attributes.len().into()];
        words.extend(self.attributes);
        words
    }
}
