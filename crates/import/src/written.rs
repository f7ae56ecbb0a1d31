//! The text of a `pilotlight.toml`.

use crate::document::{Section, keys};
use crate::model::{Became, Draft};

impl Draft {
    /// The file, with what is not in it as comments at its beginning; `source` names what it was made of.
    #[must_use]
    pub fn to_toml(&self, source: &str) -> String {
        let mut text = format!("# Made of {} by `pilotlight import`.\n", comment(source));
        let missing: Vec<String> = self
            .options()
            .iter()
            .filter_map(|noted| match &noted.became {
                Became::NotMapped(why) => {
                    Some(format!("#   line {}: {}: {}\n", noted.line, comment(&noted.option), comment(why)))
                }
                Became::Mapped(_) | Became::NotNeeded(_) => None,
            })
            .collect();
        if !missing.is_empty() {
            text.push_str("# What could not be mapped:\n");
            text.extend(missing);
        }
        text.push('\n');
        text.push_str(&keys(&self.top));
        for (name, section) in &self.others {
            text.push_str(&format!("\n[{name}]\n{}", keys(section)));
        }
        if self.limits != Section::default() {
            text.push_str(&format!("\n[limits]\n{}", keys(&self.limits)));
        }
        for (name, section) in &self.services {
            text.push_str(&format!("\n[services.{name}]\n{}", keys(section)));
        }
        for route in &self.routes {
            text.push_str(&format!("\n[[routes]]\n{}", keys(&route.section)));
        }
        text
    }
}

/// One line without characters that a comment may not have.
fn comment(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
