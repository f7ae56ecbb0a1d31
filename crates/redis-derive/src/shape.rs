//! What is derived for: the kinds of types, with their attributes read and checked.

use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Member, Result, Type};

use crate::attributes::{Container, Field as FieldAttributes, Style, Variant as VariantAttributes, refuse};

/// See the module.
pub(crate) enum Shape<'i> {
    /// Fields by name.
    Named(Vec<Field<'i>>),
    /// One value in a type of its own.
    Single(&'i Type, Member),
    /// Fields by place; each has a name to bind it to.
    Row(Vec<(&'i Type, Member)>),
    /// Words.
    Words(Vec<Variant<'i>>),
}

pub(crate) struct Field<'i> {
    pub(crate) ident: &'i Ident,
    pub(crate) ty: &'i Type,
    pub(crate) name: String,
    pub(crate) attributes: FieldAttributes,
}

pub(crate) struct Variant<'i> {
    pub(crate) ident: &'i Ident,
    pub(crate) name: String,
    pub(crate) is_other: bool,
}

impl<'i> Shape<'i> {
    pub(crate) fn of(input: &'i DeriveInput, container: &Container) -> Result<Self> {
        match &input.data {
            Data::Struct(data) => match &data.fields {
                Fields::Named(_) if container.is_array => row(&data.fields),
                Fields::Named(_) => named(&data.fields, container.style),
                Fields::Unnamed(_) => row(&data.fields),
                Fields::Unit => Err(refuse("a struct without fields says nothing")),
            },
            Data::Enum(data) => words(data, container.style),
            Data::Union(_) => Err(refuse("a union cannot be read or sent: use a struct")),
        }
    }
}

fn named(fields: &Fields, style: Style) -> Result<Shape<'_>> {
    let mut found: Vec<Field<'_>> = Vec::new();
    for field in fields {
        let attributes = FieldAttributes::of(&field.attrs)?;
        let Some(ident) = &field.ident else { continue };
        if attributes.is_flat && (attributes.rename.is_some() || attributes.default.is_some() || attributes.is_skipped)
        {
            return Err(Error::new_spanned(
                ident,
                "a field that is flattened has no name of its own: no other attribute fits",
            ));
        }
        let name = attributes.rename.clone().unwrap_or_else(|| style.name(ident));
        let is_named = !attributes.is_flat && !attributes.is_skipped;
        let has_name =
            |other: &Field<'_>| other.name == name && !other.attributes.is_flat && !other.attributes.is_skipped;
        if is_named && found.iter().any(has_name) {
            return Err(Error::new_spanned(ident, format!("another field is called {name:?}, too")));
        }
        found.push(Field { ident, ty: &field.ty, name, attributes });
    }
    Ok(Shape::Named(found))
}

fn row(fields: &Fields) -> Result<Shape<'_>> {
    for field in fields {
        if let Some(attribute) = field.attrs.iter().find(|it| it.path().is_ident("redis")) {
            return Err(Error::new_spanned(attribute, "a field in an array has no name: no attribute fits"));
        }
    }
    let mut row: Vec<_> = fields.iter().zip(fields.members()).map(|(field, member)| (&field.ty, member)).collect();
    match (row.len(), fields) {
        (0, _) => Err(refuse("a struct without fields says nothing")),
        (1, Fields::Unnamed(_)) => {
            let (ty, member) = row.remove(0);
            Ok(Shape::Single(ty, member))
        }
        _ => Ok(Shape::Row(row)),
    }
}

fn words(data: &DataEnum, style: Style) -> Result<Shape<'_>> {
    let mut found: Vec<Variant<'_>> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(variant, "a variant is a word, and has no data: use a struct"));
        }
        let VariantAttributes { rename, is_other } = VariantAttributes::of(&variant.attrs)?;
        let name = rename.unwrap_or_else(|| style.name(&variant.ident));
        if found.iter().any(|other| other.name == name) {
            return Err(Error::new_spanned(variant, format!("another variant is called {name:?}, too")));
        }
        if is_other && found.iter().any(|other| other.is_other) {
            return Err(Error::new_spanned(variant, "only one variant can be for all other words"));
        }
        found.push(Variant { ident: &variant.ident, name, is_other });
    }
    if found.is_empty() {
        return Err(refuse("an enum without variants says nothing"));
    }
    Ok(Shape::Words(found))
}
