//! `lambda` of a service: what a function of AWS Lambda is told.

use std::sync::Arc;

use pilotlight_gateway::{EventFormat, Function, LambdaOptions};
use pilotlight_supervisor::{ServiceSpec, Transport};

use super::diagnostic::{Code, Diagnostic};
use super::readers::choice;
use super::schema::Part;
use super::section::{Field, Section, a_number, a_size};
use super::shown::shown;
use super::value::Rejected;

/// `max_instances` of a function by default.
const MAX_INSTANCES: u32 = 10;
/// `memory_size` by default, in MiB.
const MEMORY_SIZE: u32 = 128;
/// Bytes of a name.
const MAX_NAME: usize = 140;

/// What counts for a function before the rest of its section is read: it has one invocation at a time.
pub(super) fn defaults(spec: &mut ServiceSpec) {
    if spec.transport == Transport::Lambda {
        spec.concurrency = Some(1);
        spec.max_instances = MAX_INSTANCES;
    }
}

/// What cannot be set for a function.
pub(super) fn check(section: &Section<'_>, spec: &ServiceSpec, found: &mut Vec<Diagnostic>) {
    if spec.transport != Transport::Lambda {
        return;
    }
    if let Some(field) = section.field("concurrency").filter(|_| spec.concurrency != Some(1)) {
        let message = "an instance of a function has one invocation at a time, so `concurrency` is 1";
        let help = "take it away; `max_instances` says how many invocations run at once";
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help(help));
    }
    if let Some(field) = section.field("sandbox").filter(|field| field.value.as_str() == Some("strict")) {
        let message = "`sandbox` refuses network sockets, and a function asks for its invocations on one";
        let help = "take `sandbox` away; `user`, `limits` and `cgroup` work for functions";
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help(help));
    }
}

/// Reads the value of `lambda`, and adds to the environment what a function looks for there.
pub(super) fn read(
    section: &Section<'_>,
    spec: Option<&mut ServiceSpec>,
    found: &mut Vec<Diagnostic>,
) -> Option<Arc<LambdaOptions>> {
    let spec = spec.filter(|spec| spec.transport == Transport::Lambda);
    let Some(spec) = spec else {
        if let Some(field) = section.field("lambda") {
            let message = "`lambda` is for functions of AWS Lambda, and this service is none";
            let help = "add transport = \"lambda\", or take `lambda` away";
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        }
        return None;
    };
    let section = section.part("lambda", Part::ServiceLambda, "in the service's lambda", found);
    let section = section.unwrap_or_else(|| Section::empty(0..0));
    let mut options = LambdaOptions::default();
    let mut memory = spec.isolation.cgroup.memory.map_or(MEMORY_SIZE, mebibytes);
    let last_word = spec.argv.last().map(|word| word.to_string_lossy().into_owned());
    let (mut handler, mut name) = (last_word.unwrap_or_default(), spec.name.clone());
    let (mut region, mut account) = ("us-east-1".to_owned(), "000000000000".to_owned());
    section.set("events", events, &mut options.events, found);
    section.set("handler", |field| field.string().map(str::to_owned), &mut handler, found);
    section.set("function_name", a_name, &mut name, found);
    section.set("region", a_name, &mut region, found);
    section.set("account", an_account, &mut account, found);
    section.set("memory_size", a_number(&LambdaOptions::MEMORY_SIZE), &mut memory, found);
    section.set("max_payload", a_size(&LambdaOptions::MAX_PAYLOAD), &mut options.max_payload, found);
    section.set("max_stream", a_size(&LambdaOptions::MAX_STREAM), &mut options.max_stream, found);
    let own = [
        ("AWS_LAMBDA_FUNCTION_NAME", name.clone()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory.to_string()),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".to_owned()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        ("AWS_REGION", region.clone()),
        ("AWS_DEFAULT_REGION", region.clone()),
        ("_HANDLER", handler),
    ];
    let given = std::mem::take(&mut spec.env);
    let is_given = |name: &str| given.iter().any(|(set, _)| set == name);
    let own = own.into_iter().filter(|(name, _)| !is_given(name)).map(|(name, value)| (name.to_owned(), value));
    spec.env = own.chain(given.iter().cloned()).collect();
    options.function = Function { name, account, region };
    Some(Arc::new(options))
}

fn mebibytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX).max(1)
}

fn events(field: &Field<'_>) -> Result<EventFormat, Diagnostic> {
    let name = choice(field, &EventFormat::ALL.map(EventFormat::name))?;
    Ok(EventFormat::ALL.into_iter().find(|format| format.name() == name).unwrap_or_default())
}

fn a_name(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(is_good) {
        return Ok(text.to_owned());
    }
    let wrong = format!("{} is no such name: it has 1 to {MAX_NAME} letters, digits, `-` and `_`", shown(text));
    Err(field.rejected(Rejected::new(wrong)))
}

fn an_account(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    if text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    Err(field.rejected(Rejected::new(format!("{} is not an account: it has 12 digits", shown(text)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!((mebibytes(512 << 20), mebibytes(1), mebibytes(u64::MAX)), (512, 1, u32::MAX));
    }
}
