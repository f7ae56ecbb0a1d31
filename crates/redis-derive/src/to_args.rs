//! `#[derive(ToArgs)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, GenericParam, Generics, Lifetime, Member, Path, Result, Type, parse_quote};

use crate::attributes::Container;
use crate::shape::{Field, Shape, Variant};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::of(&input.attrs)?;
    let krate = &container.krate;
    let shape = Shape::of(input, &container)?;
    let lent = lent(&input.generics, krate);
    let impls = match &shape {
        Shape::Named(fields) => pairs(input, &lent, fields),
        Shape::Single(ty, member) => single(input, &lent, ty, member),
        Shape::Row(row) => values(input, &lent, row),
        Shape::Words(words) => of_words(input, words),
    };
    Ok(quote! {
        const _: () = {
            use #krate::command::{Arg as __Arg, Args as __Args, Element as __Element, Pairs as __Pairs};
            #impls
        };
    })
}

/// With the lifetime of the loan, and what is lent of each parameter an argument.
fn lent(generics: &Generics, krate: &Path) -> Generics {
    let mut lent = generics.clone();
    let lifetime: Lifetime = parse_quote!('__lent);
    for parameter in &generics.params {
        let bounds = lent.make_where_clause();
        match parameter {
            GenericParam::Type(parameter) => {
                let ident = &parameter.ident;
                bounds.predicates.push(parse_quote!(#ident: #lifetime));
                bounds.predicates.push(parse_quote!(&#lifetime #ident: ::core::convert::Into<#krate::Arg<#lifetime>>));
            }
            GenericParam::Lifetime(parameter) => {
                let inner = &parameter.lifetime;
                bounds.predicates.push(parse_quote!(#inner: #lifetime));
            }
            GenericParam::Const(_) => {}
        }
    }
    lent.params.insert(0, parse_quote!(#lifetime));
    lent
}

/// Names and values.
fn pairs(input: &DeriveInput, lent: &Generics, fields: &[Field<'_>]) -> TokenStream {
    let (ident, (_, type_generics, _)) = (&input.ident, input.generics.split_for_impl());
    let (impl_generics, _, bounds) = lent.split_for_impl();
    let pushed = fields.iter().filter(|field| !field.attributes.is_skipped).map(|field| {
        let (ident, name) = (field.ident, &field.name);
        if field.attributes.is_flat {
            return quote!(__Pairs::each_pair(&self.#ident, push););
        }
        let push = quote! {
            push(__Arg::from(#name));
            push(::core::convert::Into::into(value));
        };
        match is_option(field.ty) {
            true => quote!(if let ::core::option::Option::Some(value) = &self.#ident { #push }),
            false => quote!({ let value = &self.#ident; #push }),
        }
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics __Pairs<'__lent> for &'__lent #ident #type_generics #bounds {
            fn each_pair(self, push: &mut dyn ::core::ops::FnMut(__Arg<'__lent>)) {
                #(#pushed)*
            }
        }

        #[automatically_derived]
        impl #impl_generics __Args<'__lent> for &'__lent #ident #type_generics #bounds {
            fn each(self, push: &mut dyn ::core::ops::FnMut(__Arg<'__lent>)) {
                __Pairs::each_pair(self, push);
            }
        }
    }
}

/// A value is sent as what is in it.
fn single(input: &DeriveInput, lent: &Generics, ty: &Type, member: &Member) -> TokenStream {
    let (ident, (_, type_generics, _)) = (&input.ident, input.generics.split_for_impl());
    let (impl_generics, _, bounds) = lent.split_for_impl();
    let mut given = lent.clone();
    given.make_where_clause().predicates.push(parse_quote!(#ty: ::core::convert::Into<__Arg<'__lent>>));
    let (_, _, given_bounds) = given.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics ::core::convert::From<&'__lent #ident #type_generics> for __Arg<'__lent> #bounds {
            fn from(value: &'__lent #ident #type_generics) -> Self {
                ::core::convert::Into::into(&value.#member)
            }
        }

        #[automatically_derived]
        impl #impl_generics ::core::convert::From<#ident #type_generics> for __Arg<'__lent> #given_bounds {
            fn from(value: #ident #type_generics) -> Self {
                ::core::convert::Into::into(value.#member)
            }
        }

        #[automatically_derived]
        impl #impl_generics __Element<'__lent> for &'__lent #ident #type_generics #bounds {}

        #[automatically_derived]
        impl #impl_generics __Element<'__lent> for #ident #type_generics #given_bounds {}

        #[automatically_derived]
        impl #impl_generics __Args<'__lent> for &'__lent #ident #type_generics #bounds {
            fn each(self, push: &mut dyn ::core::ops::FnMut(__Arg<'__lent>)) {
                push(__Arg::from(self));
            }
        }

        #[automatically_derived]
        impl #impl_generics __Args<'__lent> for #ident #type_generics #given_bounds {
            fn each(self, push: &mut dyn ::core::ops::FnMut(__Arg<'__lent>)) {
                push(__Arg::from(self));
            }
        }
    }
}

/// Values without names.
fn values(input: &DeriveInput, lent: &Generics, row: &[(&Type, Member)]) -> TokenStream {
    let (ident, (_, type_generics, _)) = (&input.ident, input.generics.split_for_impl());
    let (impl_generics, _, bounds) = lent.split_for_impl();
    let members = row.iter().map(|(_, member)| member);
    quote! {
        #[automatically_derived]
        impl #impl_generics __Args<'__lent> for &'__lent #ident #type_generics #bounds {
            fn each(self, push: &mut dyn ::core::ops::FnMut(__Arg<'__lent>)) {
                #(push(::core::convert::Into::into(&self.#members));)*
            }
        }
    }
}

fn of_words(input: &DeriveInput, words: &[Variant<'_>]) -> TokenStream {
    let ident = &input.ident;
    let (idents, names): (Vec<_>, Vec<_>) = words.iter().map(|word| (word.ident, &word.name)).unzip();
    let each_form = [quote!(#ident), quote!(&#ident)].map(|form| {
        quote! {
            #[automatically_derived]
            impl ::core::convert::From<#form> for __Arg<'_> {
                fn from(value: #form) -> Self {
                    __Arg::from(match value {
                        #(#ident::#idents => #names,)*
                    })
                }
            }

            #[automatically_derived]
            impl<'__lent> __Element<'__lent> for #form {}

            #[automatically_derived]
            impl<'__lent> __Args<'__lent> for #form {
                fn each(self, push: &mut dyn ::core::ops::FnMut(__Arg<'__lent>)) {
                    push(__Arg::from(self));
                }
            }
        }
    });
    quote!(#(#each_form)*)
}

/// By its name, as nothing else can be known here.
fn is_option(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == "Option"),
        Type::Group(group) => is_option(&group.elem),
        _ => false,
    }
}
