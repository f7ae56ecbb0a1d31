//! `#[derive(FromReply)]`.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{DeriveInput, GenericParam, Generics, Member, Path, Result, Type, parse_quote};

use crate::attributes::{Container, Default};
use crate::shape::{Field, Shape, Variant};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::of(&input.attrs)?;
    let (krate, ident) = (&container.krate, &input.ident);
    let shape = Shape::of(input, &container)?;
    let generics = bounded(&input.generics, krate);
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let body = match &shape {
        Shape::Named(_) => read_fields(),
        Shape::Single(ty, member) => single(ty, member),
        Shape::Row(row) => of_row(row),
        Shape::Words(words) => of_words(words),
    };
    let fields = match &shape {
        Shape::Named(fields) => from_fields(input, &generics, fields),
        _ => TokenStream::new(),
    };
    Ok(quote! {
        const _: () = {
            use #krate::reply::derive as __redis;
            #fields
            #[automatically_derived]
            impl #impl_generics __redis::FromReply for #ident #type_generics #bounds {
                #body
            }
        };
    })
}

/// Each parameter is read from a reply, too.
fn bounded(generics: &Generics, krate: &Path) -> Generics {
    let mut generics = generics.clone();
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(#krate::FromReply));
        }
    }
    generics
}

fn read_fields() -> TokenStream {
    quote! {
        fn from_reply(value: __redis::Value) -> ::core::result::Result<Self, __redis::ReplyError> {
            __redis::read(value, &mut __redis::Spare::default())
        }

        fn from_reply_and_spare(
            value: __redis::Value,
            spare: &mut __redis::Spare,
        ) -> ::core::result::Result<Self, __redis::ReplyError> {
            __redis::read(value, spare)
        }

        fn is_nothing(value: &__redis::Value) -> bool {
            __redis::is_empty(value)
        }
    }
}

fn single(ty: &Type, member: &Member) -> TokenStream {
    quote! {
        fn from_reply(value: __redis::Value) -> ::core::result::Result<Self, __redis::ReplyError> {
            ::core::result::Result::Ok(Self { #member: <#ty as __redis::FromReply>::from_reply(value)? })
        }

        fn is_nothing(value: &__redis::Value) -> bool {
            <#ty as __redis::FromReply>::is_nothing(value)
        }

        fn missing() -> ::core::option::Option<Self> {
            ::core::option::Option::Some(Self { #member: <#ty as __redis::FromReply>::missing()? })
        }
    }
}

/// As a tuple: so a flat array is read as well.
fn of_row(row: &[(&Type, Member)]) -> TokenStream {
    let names: Vec<_> = (0..row.len()).map(|index| format_ident!("field_{index}")).collect();
    let types: Vec<_> = row.iter().map(|(ty, _)| ty).collect();
    let members: Vec<_> = row.iter().map(|(_, member)| member).collect();
    quote! {
        fn from_reply(value: __redis::Value) -> ::core::result::Result<Self, __redis::ReplyError> {
            let (#(#names,)*) = <(#(#types,)*) as __redis::FromReply>::from_reply(value)?;
            ::core::result::Result::Ok(Self { #(#members: #names),* })
        }

        fn from_elements(
            elements: ::std::vec::Vec<__redis::Value>,
        ) -> ::core::result::Result<::std::vec::Vec<Self>, __redis::ReplyError> {
            let rows = <(#(#types,)*) as __redis::FromReply>::from_elements(elements)?;
            ::core::result::Result::Ok(
                rows.into_iter().map(|(#(#names,)*)| Self { #(#members: #names),* }).collect()
            )
        }
    }
}

fn of_words(words: &[Variant<'_>]) -> TokenStream {
    let arms = words.iter().map(|Variant { ident, name, .. }| {
        let bytes = Literal::byte_string(name.as_bytes());
        quote!(#bytes => ::core::result::Result::Ok(Self::#ident))
    });
    let rest = match words.iter().find(|word| word.is_other) {
        Some(Variant { ident, .. }) => quote!(::core::result::Result::Ok(Self::#ident)),
        None => {
            let known: Vec<_> = words.iter().map(|word| format!("`{}`", word.name)).collect();
            let expected = match known.as_slice() {
                [only] => only.clone(),
                known => format!("one of {}", known.join(", ")),
            };
            quote!(::core::result::Result::Err(__redis::another_word(#expected)))
        }
    };
    quote! {
        fn from_reply(value: __redis::Value) -> ::core::result::Result<Self, __redis::ReplyError> {
            let word = __redis::word(value)?;
            match &word[..] {
                #(#arms,)*
                _ => #rest,
            }
        }
    }
}

/// The fields as they come, and what they are together.
fn from_fields(input: &DeriveInput, generics: &Generics, fields: &[Field<'_>]) -> TokenStream {
    let (ident, slots) = (&input.ident, format_ident!("{}Slots", input.ident));
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let read: Vec<_> = fields.iter().filter(|field| !field.attributes.is_skipped).collect();
    let idents: Vec<_> = read.iter().map(|field| field.ident).collect();
    let types = read.iter().map(|Field { ty, attributes, .. }| match attributes.is_flat {
        true => quote!(<#ty as __redis::FromFields>::Slots),
        false => quote!(::core::option::Option<#ty>),
    });
    let arms = read.iter().filter(|field| !field.attributes.is_flat).map(|field| {
        let (name, ident) = (Literal::byte_string(field.name.as_bytes()), field.ident);
        let what = what(input, field);
        quote! {
            #name => {
                slots.#ident = ::core::option::Option::Some(__redis::field(value, #what)?);
                ::core::result::Result::Ok(::core::option::Option::None)
            }
        }
    });
    let flat = read.iter().filter(|field| field.attributes.is_flat).map(|Field { ident, ty, .. }| {
        quote! {
            let ::core::option::Option::Some(value) =
                <#ty as __redis::FromFields>::place(&mut slots.#ident, name, value)?
            else {
                return ::core::result::Result::Ok(::core::option::Option::None);
            };
        }
    });
    let finished = fields.iter().map(|field| {
        let (ident, value) = (field.ident, finished(input, field));
        quote!(#ident: #value)
    });
    quote! {
        #[doc(hidden)]
        #[allow(unreachable_pub, missing_docs)]
        pub struct #slots #impl_generics #bounds {
            #(#idents: #types,)*
        }

        #[automatically_derived]
        impl #impl_generics ::core::default::Default for #slots #type_generics #bounds {
            fn default() -> Self {
                Self { #(#idents: ::core::default::Default::default(),)* }
            }
        }

        #[automatically_derived]
        impl #impl_generics __redis::FromFields for #ident #type_generics #bounds {
            type Slots = #slots #type_generics;

            fn place(
                slots: &mut Self::Slots,
                name: &__redis::Bytes,
                value: __redis::Value,
            ) -> ::core::result::Result<::core::option::Option<__redis::Value>, __redis::ReplyError> {
                match &name[..] {
                    #(#arms)*
                    _ => {
                        #(#flat)*
                        ::core::result::Result::Ok(::core::option::Option::Some(value))
                    }
                }
            }

            fn finish(slots: Self::Slots) -> ::core::result::Result<Self, __redis::ReplyError> {
                ::core::result::Result::Ok(Self { #(#finished,)* })
            }
        }
    }
}

fn finished(input: &DeriveInput, field: &Field<'_>) -> TokenStream {
    let (ident, ty, attributes) = (field.ident, field.ty, &field.attributes);
    if attributes.is_skipped {
        return match &attributes.default {
            Some(Default::Function(function)) => quote!(#function()),
            _ => quote!(<#ty as ::core::default::Default>::default()),
        };
    }
    if attributes.is_flat {
        return quote!(<#ty as __redis::FromFields>::finish(slots.#ident)?);
    }
    match &attributes.default {
        Some(Default::OfType) => quote!(slots.#ident.unwrap_or_default()),
        Some(Default::Function(function)) => quote!(slots.#ident.unwrap_or_else(#function)),
        None => {
            let what = what(input, field);
            quote!(match slots.#ident {
                ::core::option::Option::Some(value) => value,
                ::core::option::Option::None => __redis::missing(#what)?,
            })
        }
    }
}

/// How errors call a field.
fn what(input: &DeriveInput, field: &Field<'_>) -> String {
    let ty = field.ty.to_token_stream().to_string().replace(' ', "");
    format!("field `{}` of {}, of type {ty}", field.name, input.ident)
}
