//! `[groups.NAME]`, and the services that share the budget of one.

use std::sync::Arc;

use pilotlight_supervisor::{GroupShare, GroupSpec, ServiceSpec};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic, Span};
use super::readers::check_name;
use super::schema::{self, Part};
use super::section::{Field, Section, a_number, a_size, a_time, noted, type_name};
use super::shown::{printable, shown};
use super::value::{HumanSize, HumanTime, nearest};

/// The groups of a file.
#[derive(Default)]
pub(super) struct Groups {
    complete: Vec<Arc<GroupSpec>>,
    /// The names of all, with the place of each.
    declared: Vec<(String, Span)>,
}

pub(super) fn read_all(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) -> Groups {
    let mut groups = Groups::default();
    let Some(field) = field else { return groups };
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type().help("write [groups.NAME] for each group, NAME being its name"));
        return groups;
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    if entries.len() > schema::MAX_GROUPS {
        let message = format!("the file has {} groups; at most {} are allowed", entries.len(), schema::MAX_GROUPS);
        found.push(Diagnostic::error(Code::OutOfRange, entries[schema::MAX_GROUPS].0.span(), message));
        entries.truncate(schema::MAX_GROUPS);
    }
    for (name, value) in entries {
        groups.declared.push((name.get_ref().to_string(), name.span()));
        groups.complete.extend(read(name, value, found).map(Arc::new));
    }
    groups
}

fn read<'a>(
    name: &Spanned<std::borrow::Cow<'_, str>>,
    value: &'a Spanned<DeValue<'a>>,
    found: &mut Vec<Diagnostic>,
) -> Option<GroupSpec> {
    let (at, name) = (name.span(), name.get_ref().as_ref());
    let good_name = noted(check_name(name, "group", &at), found).is_some();
    let Some(table) = value.get_ref().as_table() else {
        let message = format!("the group {} must be a section, not {}", shown(name), type_name(value.get_ref()));
        let help = format!("write [groups.{}] and its keys below it", printable(name));
        found.push(Diagnostic::error(Code::WrongType, value.span(), message).help(help));
        return None;
    };
    let section = Section::read(Part::Group, &format!("in [groups.{}]", printable(name)), value.span(), table, found);
    let mut spec = GroupSpec::new(name);
    section.set("max_running", a_number(&GroupSpec::MAX_RUNNING), &mut spec.max_running, found);
    section.set("memory", a_size(&GroupSpec::MEMORY), &mut spec.memory, found);
    section.set("grace", a_time(&GroupSpec::GRACE), &mut spec.grace, found);
    if !section.mentions("max_running") && !section.mentions("memory") {
        let message = format!("the group {} has no budget, so nothing is shared", shown(name));
        found.push(
            Diagnostic::error(Code::MissingKey, at, message)
                .help("add max_running = 1, or memory = \"20GiB\", or both"),
        );
        return None;
    }
    good_name.then_some(spec)
}

impl Groups {
    /// The place of a service in its group.
    pub(super) fn share(
        &self,
        section: &Section<'_>,
        spec: &ServiceSpec,
        found: &mut Vec<Diagnostic>,
    ) -> Option<GroupShare> {
        let Some(field) = section.field("in_group") else {
            if let Some(field) = section.field("group_memory").filter(|_| !section.mentions("in_group")) {
                let message = "`group_memory` has no effect: the service is in no group";
                let help = "add in_group = \"NAME\", or take it away";
                found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
            }
            return None;
        };
        let mut memory = None;
        section.set("group_memory", a_size(&GroupSpec::MEMORY), &mut memory, found);
        let group = noted(self.named(&field), found)??;
        let memory = memory.or(spec.isolation.cgroup.memory);
        check(section, &field, &group, memory, spec, found);
        Some(GroupShare { memory: memory.unwrap_or_default(), group })
    }

    /// `None` for one of which something else is wrong.
    fn named(&self, field: &Field<'_>) -> Result<Option<Arc<GroupSpec>>, Diagnostic> {
        let name = field.string()?;
        let group = self.complete.iter().find(|group| group.name == name);
        let is_declared = self.declared.iter().any(|(declared, _)| declared == name);
        if group.is_some() || is_declared {
            return Ok(group.cloned());
        }
        let unknown =
            Diagnostic::error(Code::UnknownService, field.at.clone(), format!("there is no group {}", shown(name)));
        Err(match nearest(name, self.declared.iter().map(|(name, _)| name.as_str())) {
            Some(near) => unknown.help(format!("did you mean {}?", shown(near))),
            None => unknown.help(format!("add [groups.{}] with max_running = 1", printable(name))),
        })
    }

    /// Groups that no service is in.
    pub(super) fn unused<'a>(&self, services: impl Iterator<Item = &'a ServiceSpec>, found: &mut Vec<Diagnostic>) {
        let used: Vec<&str> = services.filter_map(|spec| Some(spec.group.as_ref()?.group.name.as_str())).collect();
        for (name, at) in self.declared.iter().filter(|(name, _)| !used.contains(&name.as_str())) {
            if !self.complete.iter().any(|group| group.name == *name) {
                continue;
            }
            let message = format!("no service is in the group {}", shown(name));
            let help = format!("write in_group = \"{}\" in its services, or take the group away", printable(name));
            found.push(Diagnostic::warning(Code::Unused, at.clone(), message).help(help));
        }
    }
}

fn check(
    section: &Section<'_>,
    field: &Field<'_>,
    group: &GroupSpec,
    memory: Option<u64>,
    spec: &ServiceSpec,
    found: &mut Vec<Diagnostic>,
) {
    let name = shown(&group.name);
    match (group.memory, memory) {
        (Some(_), None) if !section.mentions("group_memory") && !section.mentions("cgroup") => {
            let message = format!("the group {name} shares memory, and nothing says how much an instance takes");
            found.push(
                Diagnostic::error(Code::Conflict, field.at.clone(), message)
                    .help("add group_memory = \"8GiB\", or cgroup = { memory = \"8GiB\" }, which is a limit as well"),
            );
        }
        (Some(budget), Some(memory)) if memory > budget => {
            let message = format!(
                "an instance takes {}, and the group {name} has {}: it could never start",
                HumanSize(memory),
                HumanSize(budget)
            );
            let at = section.field("group_memory").map_or(field.at.clone(), |field| field.at);
            found.push(Diagnostic::error(Code::Conflict, at, message).help("lower the one, or raise the other"));
        }
        (None, Some(_)) => {
            if let Some(field) = section.field("group_memory") {
                let message = format!("`group_memory` has no effect: the group {name} has no `memory`");
                let help = format!("add memory to [groups.{}], or take it away", printable(&group.name));
                found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
            }
        }
        _ => {}
    }
    if let Some(preload) = section.field("preload") {
        let message = format!("`preload` keeps a process that would stay when an instance makes room in {name}");
        found.push(
            Diagnostic::error(Code::Conflict, preload.key_at, message)
                .related(field.key_at.clone(), "`in_group` is")
                .help("take one of the two away"),
        );
    }
    if group.grace >= spec.queue.timeout {
        let message = format!(
            "requests wait for {} at most (`queue.timeout`), and a busy instance of the group {name} is left alone for {} (`grace`): they may wait in vain",
            HumanTime(spec.queue.timeout),
            HumanTime(group.grace)
        );
        found.push(
            Diagnostic::warning(Code::Conflict, field.at.clone(), message)
                .help("raise `queue.timeout` above `grace`, `drain_timeout` and the time of a start together"),
        );
    }
}
