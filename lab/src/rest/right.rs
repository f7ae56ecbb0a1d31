//! Whether a service answers rightly: a user is read, listed, created, changed and deleted, before anything of it is
//! measured. The load itself looks at statuses only.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::load::ask;

/// A page that no case asks for again and again, and its users.
const PAGE: u64 = 2;
const LIMIT: u64 = 20;
/// A user that is there from the beginning.
const SEEDED: u64 = 1;

/// Asks, and leaves the database as it was.
///
/// # Errors
/// An answer is not what the API promises.
pub(super) fn check(address: SocketAddr) -> anyhow::Result<()> {
    let users = Users { address };
    users.reads().context("wrong answer")?;
    users.writes().context("wrong answer")
}

/// A service.
struct Users {
    address: SocketAddr,
}

impl Users {
    fn reads(&self) -> anyhow::Result<()> {
        let user = self.get(&format!("/users/{SEEDED}"), 200)?;
        ensure!(user["id"] == SEEDED && user["email"].is_string(), "user {SEEDED} is {user}");
        self.is_the_same(SEEDED, &user)?;
        let page = self.get(&format!("/users?page={PAGE}&limit={LIMIT}"), 200)?;
        // The published API calls them `data`.
        let listed = page["users"].as_array().or(page["data"].as_array()).context("a page without users")?;
        let ids: Vec<u64> = listed.iter().filter_map(|user| user["id"].as_u64()).collect();
        let first = (PAGE - 1) * LIMIT + 1;
        ensure!(ids.iter().copied().eq(first..first + LIMIT), "page {PAGE} has the users {ids:?}");
        Ok(())
    }

    fn writes(&self) -> anyhow::Result<()> {
        let new = json!({"name": "Right", "email": "right@test.com", "bio": null});
        let user = self.send("POST", "/users", Some(&new), &[201])?;
        let id = user["id"].as_u64().with_context(|| format!("POST has created {user}"))?;
        has(&user, &new)?;
        self.is_the_same(id, &user)?;
        // It is cached now: what changes it has to remove it there.
        let path = format!("/users/{id}");
        let other = json!({"name": "Righter", "email": "righter@test.com", "bio": "with \"quotes\" and ü"});
        let changed = self.send("PUT", &path, Some(&other), &[200])?;
        has(&changed, &other)?;
        self.is_the_same(id, &changed)?;
        self.send("DELETE", &path, None, &[200, 204])?;
        self.get(&path, 404).map(drop)
    }

    /// From the database, and then from the cache.
    fn is_the_same(&self, id: u64, user: &Value) -> anyhow::Result<()> {
        for _ in 0..2 {
            let read = self.get(&format!("/users/{id}"), 200)?;
            ensure!(read == *user, "user {id} is {read} instead of {user}");
        }
        Ok(())
    }

    fn get(&self, target: &str, status: u16) -> anyhow::Result<Value> {
        self.send("GET", target, None, &[status])
    }

    fn send(&self, method: &str, target: &str, body: Option<&Value>, expected: &[u16]) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = match body.len() {
            0 => String::new(),
            length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
        };
        let request = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n{length}\r\n{body}");
        let (status, content) = ask(self.address, request.as_bytes()).with_context(|| format!("{method} {target}"))?;
        let text = String::from_utf8_lossy(&content);
        ensure!(expected.contains(&status), "{method} {target}: status {status}: {text}");
        if content.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&content).with_context(|| format!("{method} {target}: no JSON: {text}"))
    }
}

/// Whether a user has the fields that were sent.
fn has(user: &Value, sent: &Value) -> anyhow::Result<()> {
    for name in ["name", "email", "bio"] {
        ensure!(user[name] == sent[name], "{name} of {user} is not that of {sent}");
    }
    Ok(())
}
