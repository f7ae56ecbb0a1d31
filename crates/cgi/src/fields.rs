//! Fields of HTTP as variables (RFC 3875 §4.1.18).
//!
//! `X-User` and `X_User` would be one variable, so a client could say in the second what a proxy has said in the first:
//! names with `_` are left out. So is `Proxy`, whose variable `HTTP_PROXY` many programs take for the proxy that they
//! are to use themselves ("httpoxy", CVE-2016-5385 and its kin). What programs are told in variables of their own
//! (`Content-Type`, `Content-Length`) is none of `HTTP_*`.

use std::ops::Range;

use crate::variables::Variables;

/// The fields of one request, those of one name joined.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    all: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    /// As the variable has it, without `HTTP_`.
    name: Range<usize>,
    value: Range<usize>,
}

impl Fields {
    /// None so far.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(1024), all: Vec::with_capacity(24) }
    }

    /// Adds a field, with its value in pieces.
    pub fn add(&mut self, name: &[u8], value: &[&[u8]]) {
        let crosses = !name.is_empty() && !name.contains(&b'_') && !name.eq_ignore_ascii_case(b"proxy");
        if !crosses {
            return;
        }
        let begin = self.bytes.len();
        self.bytes.extend(name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        let name = begin..self.bytes.len();
        let before = self.all.iter().position(|field| self.bytes[field.name.clone()] == self.bytes[name.clone()]);
        let at = self.bytes.len();
        if let Some(before) = before {
            // RFC 9110 §5.2; RFC 6265 §5.4 for cookies.
            let separator: &[u8] = if &self.bytes[name] == b"COOKIE" { b"; " } else { b", " };
            self.bytes.extend_from_within(self.all[before].value.clone());
            self.bytes.extend_from_slice(separator);
            value.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
            self.all[before].value = at..self.bytes.len();
            return;
        }
        value.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.all.push(Field { name, value: at..self.bytes.len() });
    }

    /// Puts them among the variables.
    pub fn put(&self, variables: &mut Variables) {
        let mut name = b"HTTP_".to_vec();
        for field in &self.all {
            let value = &self.bytes[field.value.clone()];
            match &self.bytes[field.name.clone()] {
                b"CONTENT_TYPE" => variables.put(b"CONTENT_TYPE", &[value]),
                b"CONTENT_LENGTH" => {} // said by who knows how much is sent
                own => {
                    name.truncate(5);
                    name.extend_from_slice(own);
                    variables.put(&name, &[value]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::{KeepConnection, Protocol};

    #[track_caller]
    fn check(fields: &[(&str, &str)], expected: &str) {
        let (mut all, mut variables) = (Fields::new(), Variables::new(Protocol::Scgi, None));
        fields.iter().for_each(|(name, value)| all.add(name.as_bytes(), &[value.as_bytes()]));
        all.put(&mut variables);
        let mut out = BytesMut::new();
        variables.finish(&mut out, KeepConnection::No).unwrap();
        let text = String::from_utf8(out.to_vec()).unwrap();
        let (_, own) = text.split_once("SCGI\x001\0").unwrap();
        let mut parts = own.strip_suffix("\0,").unwrap().split('\0');
        let mut found = Vec::new();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            found.push(format!("{name}={value}"));
        }
        assert_eq!(found.join("|"), expected);
    }

    #[test]
    fn names_and_values() {
        check(&[("accept", "*/*"), ("X-Two-Words", "a b")], "HTTP_ACCEPT=*/*|HTTP_X_TWO_WORDS=a b");
        check(&[("content-type", "text/plain"), ("content-length", "4")], "CONTENT_TYPE=text/plain");
        check(&[("x-a", "1"), ("x-b", ""), ("X-A", "2"), ("x-a", "3")], "HTTP_X_A=1, 2, 3|HTTP_X_B=");
        check(&[("cookie", "a=1"), ("cookie", "b=2")], "HTTP_COOKIE=a=1; b=2");
    }

    #[test]
    fn what_a_client_must_not_say() {
        check(&[("proxy", "http://evil"), ("Proxy", "http://evil"), ("x-ok", "1")], "HTTP_X_OK=1");
        check(&[("x_user", "root"), ("x-user", "me"), ("content_type", "x")], "HTTP_X_USER=me");
    }
}
