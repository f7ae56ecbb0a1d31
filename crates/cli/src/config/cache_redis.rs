//! `[cache.redis]`: the cache's tier in Redis.

use pilotlight_gateway::{RedisConfig, is_redis_prefix};
use toml::de::DeTable;

use super::diagnostic::{Code, Diagnostic};
use super::model::{CacheRedis, RedisUrl};
use super::schema::{self, Part};
use super::section::{Field, Section, noted};

/// Reads `redis` of the value of `cache`.
pub(super) fn read(cache: Option<&Field<'_>>, found: &mut Vec<Diagnostic>) -> Option<CacheRedis> {
    let table = cache?.value.as_table()?;
    let (key, value) = table.iter().find(|(name, _)| name.get_ref() == "redis")?;
    let known = Part::Cache.keys().iter().find(|known| known.name == "redis")?;
    let field = Field { key: known, key_at: key.span(), at: value.span(), value: value.get_ref() };
    let table: &DeTable<'_> = noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found)?;
    let section = Section::read(Part::CacheRedis, "in [cache.redis]", field.at.clone(), table, found);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let url = match section.field("url") {
        Some(field) => noted(url(&field), found),
        None if section.meant("url") => None,
        None => {
            let message = "[cache.redis] needs a `url`";
            let help = "for example: url = \"redis://localhost\", or \"redis+cluster://10.0.0.1,10.0.0.2\"";
            found.push(Diagnostic::error(Code::MissingKey, field.key_at, message).help(help));
            None
        }
    };
    let prefix = section
        .field("prefix")
        .map_or_else(|| Some(schema::CACHE_REDIS_PREFIX.to_owned()), |field| noted(prefix(&field), found));
    let budget = section.time("budget", &schema::CACHE_REDIS_BUDGET, found);
    let default = Some(schema::CACHE_REDIS_LEASE.default);
    let lease = section.time_or_none("lease", &schema::CACHE_REDIS_LEASE, default, found);
    let queue = count(section.number("queue", &schema::CACHE_REDIS_QUEUE, found));
    let queue_memory = count(section.size("queue_memory", &schema::CACHE_REDIS_QUEUE_MEMORY, found));
    let keep_stale = section.time("keep_stale", &schema::CACHE_REDIS_KEEP_STALE, found);
    Some(CacheRedis { url: url?, prefix: prefix?, budget, lease, queue, queue_memory, keep_stale })
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

fn prefix(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    if is_redis_prefix(text) {
        return Ok(text.to_owned());
    }
    let message = "`prefix` must be 1 to 64 visible ASCII characters, without { and }";
    Err(Diagnostic::error(Code::BadValue, field.at.clone(), message).help("for example: prefix = \"shop\""))
}
