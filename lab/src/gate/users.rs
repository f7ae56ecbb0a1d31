//! The users service alone over HTTP, with SQLite and Redis: two of its requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::checkout::Programs;
use crate::callgrind::{self, Callgrind};
use crate::layers::counted::{FEW, MANY};
use crate::load::{self, Load, Requests, get};
use crate::processes::{Held, Program};
use crate::rest::case::Case;
use crate::rest::redis::{Redis, Topology};
use crate::{cores, rest};

/// Its one thread is on this core, so that it has no more than one.
const CORE: usize = 0;
const LIMIT: Duration = Duration::from_secs(120);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// A user that Redis has.
    Get,
    /// A new one.
    Post,
}

impl Users {
    /// Instructions of one.
    pub(super) fn each(self, callgrind: &Callgrind, programs: &Programs, dir: &Path) -> anyhow::Result<f64> {
        let variants = rest::variant::Programs { users: programs.users.clone(), peers: PathBuf::new() };
        let seed = rest::variant::seed(&variants, dir)?;
        let count = |requests: u32| -> anyhow::Result<u64> {
            let redis = Redis::start(Topology::Standalone)?;
            // A database is written anew, as the one before has users already.
            let db = dir.join("users.db");
            fs::copy(&seed, &db).with_context(|| format!("cannot write {}", db.display()))?;
            let out = dir.join("callgrind.users");
            let mut command = callgrind.before(&out);
            command.push(programs.users.clone().into());
            command.extend(["--db".into(), db.clone().into(), "--redis".into(), redis.url().into()]);
            command.extend(["--listen".into(), "127.0.0.1:0".into()]);
            let output = dir.join("output");
            let users = Program { name: "users".into(), command, dir: dir.to_owned(), output };
            let mut held = cores::on(Some(CORE), || users.start())??;
            self.ask(&mut held, requests)?;
            held.end(LIMIT)?;
            for more in ["users.db", "users.db-wal", "users.db-shm"] {
                let _ = fs::remove_file(dir.join(more)); // Error: it is not there.
            }
            callgrind::total(&out)
        };
        let (few, many) = (count(FEW)?, count(MANY)?);
        ensure!(many > few, "{MANY} requests took no more instructions than {FEW}");
        Ok((many - few) as f64 / f64::from(MANY - FEW))
    }

    fn ask(self, held: &mut Held, requests: u32) -> anyhow::Result<()> {
        let address = held.listening(LIMIT)?;
        let (mut left, mut post) = (requests, Case::Post.requests(1, "gate"));
        let next = move |out: &mut Vec<u8>| {
            let more = left > 0;
            left = left.saturating_sub(1);
            match self {
                _ if !more => {}
                Self::Get => out.extend_from_slice(&get("/users/42")),
                Self::Post => {
                    post(out);
                }
            }
            more
        };
        let load = Load { to: address.into(), connections: 1, pace: load::Pace::Closed { depth: 1 }, duration: LIMIT };
        let outcome = load::run(&load, Requests::Each(Box::new(next)))?;
        let wanted = if self == Self::Post { 201 } else { 200 };
        ensure!(outcome.statuses.keys().eq(&[wanted]), "answers of status {:?} instead of {wanted}", outcome.statuses);
        Ok(())
    }
}
