//! `[cache.redis]`: the cache's tier in Redis.

use pilotlight_gateway::{RedisConfig, RedisOptions, is_redis_prefix};

use super::diagnostic::{Code, Diagnostic};
use super::model::{CacheRedis, RedisUrl};
use super::schema::Part;
use super::section::{Field, Section, a_number, a_size, a_time, noted, or_none};

/// Reads `redis` of `[cache]`.
pub(super) fn read(cache: &Section<'_>, found: &mut Vec<Diagnostic>) -> Option<CacheRedis> {
    let section = cache.part("redis", Part::CacheRedis, "in [cache.redis]", found)?;
    let url = match section.field("url") {
        Some(field) => noted(url(&field), found),
        None if section.meant("url") => None,
        None => {
            let message = "[cache.redis] needs a `url`";
            let help = "for example: url = \"redis://localhost\", or \"redis+cluster://10.0.0.1,10.0.0.2\"";
            found.push(Diagnostic::error(Code::MissingKey, cache.field("redis")?.key_at, message).help(help));
            None
        }
    };
    let mut options = RedisOptions::default();
    if let Some(field) = section.field("prefix") {
        options.prefix = noted(prefix(&field), found).map_or(options.prefix, Into::into);
    }
    section.set("budget", a_time(&RedisOptions::BUDGET), &mut options.budget, found);
    section.set("lease", or_none(a_time(&RedisOptions::LEASE)), &mut options.lease, found);
    section.set("queue", a_number(&RedisOptions::MAX_QUEUE), &mut options.max_queue, found);
    section.set("queue_memory", a_size(&RedisOptions::MAX_QUEUE_BYTES), &mut options.max_queue_bytes, found);
    section.set("keep_stale", a_time(&RedisOptions::KEEP_STALE), &mut options.keep_stale, found);
    Some(CacheRedis { url: url?, options })
}

fn url(field: &Field<'_>) -> Result<RedisUrl, Diagnostic> {
    let text = field.string()?;
    match RedisConfig::from_url(text) {
        Ok(_) => Ok(RedisUrl(text.to_owned())),
        Err(why) => Err(Diagnostic::error(Code::BadValue, field.at.clone(), format!("`url`: {why}")).help(
            "for example: url = \"redis+cluster://10.0.0.1,10.0.0.2\"; docs/guide/redis-client.md has all forms",
        )),
    }
}

fn prefix<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    if is_redis_prefix(text) {
        return Ok(text);
    }
    let message = "`prefix` must be 1 to 64 visible ASCII characters, without { and }";
    Err(Diagnostic::error(Code::BadValue, field.at.clone(), message).help("for example: prefix = \"shop\""))
}
