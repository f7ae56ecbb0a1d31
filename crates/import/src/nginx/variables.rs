//! `${NAME}` of templates, which `envsubst` fills in before nginx reads them. Variables of nginx are in small letters.

use crate::directive::Directive;
use crate::origin::{Origin, placeholder};

/// Puts the values of variables of the environment in their places; those without one go to `unset`.
pub(super) fn fill(directives: &mut [Directive], origin: Origin<'_>, unset: &mut Vec<(usize, String)>) {
    for directive in directives {
        for word in directive.args.iter_mut().filter(|word| word.contains("${")) {
            *word = filled(word, origin, &mut |name| unset.push((directive.line, name.to_owned())));
        }
        fill(directive.block.as_deref_mut().unwrap_or_default(), origin, unset);
    }
}

fn filled(word: &str, origin: Origin<'_>, unset: &mut dyn FnMut(&str)) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        let is_ours = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        match name.is_empty() || !name.chars().all(is_ours) {
            true => filled.extend(["${", name, "}"]),
            false => match origin.value(name) {
                Some(value) => filled.push_str(&value),
                None => {
                    unset(name);
                    filled.push_str(&placeholder(name));
                }
            },
        }
        rest = behind;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_templates_and_no_others() {
        let variable = |name: &str| (name == "HOST").then(|| "shop.example".to_owned());
        let origin = Origin { variable: Some(&variable), ..Origin::default() };
        let mut names = Vec::new();
        for (text, expected) in [
            ("${HOST}", "shop.example"),
            ("www.${DOMAIN}", "www.domain.invalid"),
            ("${host}$request_uri", "${host}$request_uri"),
            ("$HOST", "$HOST"),
        ] {
            assert_eq!(filled(text, origin, &mut |name| names.push(name.to_owned())), expected, "{text}");
        }
        assert_eq!(names, ["DOMAIN"]);
    }
}
