//! Variables of the environment, which Caddy puts into the text before it reads it.

use crate::origin::{Origin, placeholder};

/// A text with the values of its variables, and those that have none, with their lines.
pub(super) fn filled(text: &str, origin: Origin<'_>) -> (String, Vec<(usize, String)>) {
    let mut unset = Vec::new();
    let lines = text.lines().enumerate().map(|(at, line)| match line.trim_start().starts_with('#') {
        true => line.to_owned(),
        false => line_filled(line, origin, &mut |name| unset.push((at + 1, name.to_owned()))),
    });
    let filled = lines.collect::<Vec<_>>().join("\n");
    (filled, unset)
}

/// `{$NAME:value}` is the value that it has without the variable, `{env.NAME}` is read when Caddy runs.
fn line_filled(line: &str, origin: Origin<'_>, unset: &mut dyn FnMut(&str)) -> String {
    let mut filled = String::new();
    let mut rest = line;
    while let Some((start, mark)) = [("{$"), "{env."].iter().filter_map(|mark| Some((rest.find(mark)?, mark))).min() {
        let (before, after) = rest.split_at(start);
        filled.push_str(before);
        let Some((variable, behind)) = after[mark.len()..].split_once('}') else {
            filled.push_str(mark);
            rest = &after[mark.len()..];
            continue;
        };
        rest = behind;
        let (name, default) = match variable.split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (variable, None),
        };
        match origin.value(name).or(default.map(str::to_owned)) {
            Some(value) => filled.push_str(&value),
            None => {
                unset(name);
                filled.push_str(&placeholder(name));
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_their_values_or_are_marked() {
        let variable = |name: &str| match name {
            "SITE" => Some("shop.example, www.shop.example".to_owned()),
            "API_TOKEN" => Some("s3cret".to_owned()),
            _ => None,
        };
        let origin = Origin { variable: Some(&variable), ..Origin::default() };
        for (text, expected, unset) in [
            ("{$SITE} {", "shop.example, www.shop.example {", &[][..]),
            ("{$DOMAIN} {", "domain.invalid {", &["DOMAIN"]),
            ("{$DOMAIN:a.example} {", "a.example {", &[]),
            ("email {env.ACME_EMAIL}", "email acme-email.invalid", &["ACME_EMAIL"]),
            ("header X {$API_TOKEN}", "header X api-token.invalid", &["API_TOKEN"]),
            ("# {$DOMAIN}", "# {$DOMAIN}", &[]),
            ("a {$B", "a {$B", &[]),
            ("{http.request.host} {$A}{$B:}", "{http.request.host} a.invalid", &["A"]),
        ] {
            let (filled, found) = filled(text, origin);
            let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!((filled.as_str(), names.as_slice()), (expected, unset), "{text}");
        }
    }
}
