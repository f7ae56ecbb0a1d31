//! Lists of networks, as `10.0.0.0/8` and `2001:db8::/32`.

use pilotlight_gateway::{Network, Networks, NotANetwork, TrustForwarded};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic};
use super::readers::read_words;
use super::section::{Field, noted};
use super::shown::shown;
use super::value::Rejected;

/// The networks of a list; what is wrong is noted and left out.
pub(super) fn read(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Networks {
    let DeValue::Array(list) = field.value else {
        found.push(field.wrong_type());
        return Networks::default();
    };
    if list.len() > Networks::MAX {
        let message =
            format!("`{}` has {} networks; at most {} are allowed", field.key.name, list.len(), Networks::MAX);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return Networks::default();
    }
    let words = read_words(field, list, found).unwrap_or_default();
    let one = |(word, at): (String, _)| {
        let field = Field { at, ..field.clone() };
        noted(word.parse().map_err(|why| field.rejected(rejected(&word, why))), found)
    };
    words.into_iter().filter_map(one).collect::<Vec<Network>>().into_iter().collect()
}

/// Nobody, everybody, or those in some networks.
pub(super) fn trusted(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> TrustForwarded {
    match field.value {
        DeValue::Array(_) => TrustForwarded::Networks(read(field, found)),
        _ => match noted(field.boolean(), found) {
            Some(true) => TrustForwarded::Everybody,
            Some(false) | None => TrustForwarded::Nobody,
        },
    }
}

fn rejected(word: &str, why: NotANetwork) -> Rejected {
    let help = match why {
        NotANetwork::HostBits { meant } => {
            format!("write \"{meant}\" for the network, or the address without the slash")
        }
        NotANetwork::Bits { max: 32 } => "write it like \"10.0.0.0/8\"".to_owned(),
        NotANetwork::Bits { .. } => "write it like \"2001:db8::/32\"".to_owned(),
        NotANetwork::Address => "write it like \"10.0.0.0/8\", \"2001:db8::/32\" or \"192.0.2.1\"".to_owned(),
    };
    Rejected::help(format!("{}: {why}", shown(word)), help)
}
