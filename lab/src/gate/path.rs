//! The hot paths, and how each is counted.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;

use super::checkout::Programs;
use super::users::Users;
use crate::callgrind::{self, Callgrind};
use crate::layers::counted::Counted;
use crate::layers::layer::Layer;
use crate::processes::Program;
use crate::rest::redis::{Redis, Topology};

/// Turns of a loop.
const FEW: u32 = 1000;
const MANY: u32 = 11_000;
/// A loop under callgrind takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Something that is done for every request or command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HotPath {
    /// the client of Redis: slot and bytes of a GET, its reply of 64 bytes decoded
    RespGet,
    /// the pipe's codec: a request and an answer of 200 bytes, encoded and decoded
    FrameCodec,
    /// the client of Redis: a GET of 64 bytes, one at a time, from a server that is not counted
    ClientGet,
    /// the client of Redis: the same, of a hundred callers at once
    ClientMany,
    /// the client of Redis: the same, in pipelines of a hundred
    ClientPipeline,
    /// the gateway: a request that is answered from memory
    Hit,
    /// the gateway: the same, ten requests at once
    HitPipelined,
    /// the gateway: the same, over TLS
    HitTls,
    /// the gateway: the same, over HTTP/2 and TLS
    HitH2,
    /// the gateway: a request that is answered from Redis, which is not counted
    HitRedis,
    /// the gateway: a file of 200 bytes
    File,
    /// the gateway and a Rust service: a request over the pipe
    Pipe,
    /// the gateway and a Rust service: a request over HTTP on a Unix socket
    Http,
    /// the gateway and a Rust service over the pipe: a request whose answer is stored
    Miss,
    /// the users service: a user that is in Redis
    UsersGet,
    /// the users service: a new user, into SQLite
    UsersPost,
    /// `resp-get` with 5 % more work, which tests plant
    #[value(hide = true)]
    Planted,
}

impl HotPath {
    pub(super) const ALL: [Self; 16] = [
        Self::RespGet,
        Self::FrameCodec,
        Self::ClientGet,
        Self::ClientMany,
        Self::ClientPipeline,
        Self::Hit,
        Self::HitPipelined,
        Self::HitTls,
        Self::HitH2,
        Self::HitRedis,
        Self::File,
        Self::Pipe,
        Self::Http,
        Self::Miss,
        Self::UsersGet,
        Self::UsersPost,
    ];

    /// As on the command line and in the baseline.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Instructions of one.
    pub(super) fn count(self, callgrind: &Callgrind, programs: &Programs, scratch: &Path) -> anyhow::Result<f64> {
        let layer = |layer| Counted::new(layer, callgrind.clone(), scratch).of(programs.pilotlight.clone()).each();
        match self {
            Self::Hit => layer(Layer::Hit),
            Self::HitPipelined => layer(Layer::HitPipelined),
            Self::HitTls => layer(Layer::HitTls),
            Self::HitH2 => layer(Layer::HitH2),
            Self::HitRedis => layer(Layer::HitRedis),
            Self::File => layer(Layer::File),
            Self::Pipe => layer(Layer::Pipe),
            Self::Http => layer(Layer::Http),
            Self::Miss => layer(Layer::Miss),
            Self::UsersGet => Users::Get.each(callgrind, programs, scratch),
            Self::UsersPost => Users::Post.each(callgrind, programs, scratch),
            Self::RespGet | Self::FrameCodec | Self::Planted => self.each_turn(None, callgrind, programs, scratch),
            Self::ClientGet | Self::ClientMany | Self::ClientPipeline => {
                let redis = Redis::start(Topology::Standalone)?;
                self.each_turn(Some(&redis), callgrind, programs, scratch)
            }
        }
    }

    fn each_turn(
        self,
        redis: Option<&Redis>,
        callgrind: &Callgrind,
        programs: &Programs,
        scratch: &Path,
    ) -> anyhow::Result<f64> {
        let turns = |times| self.turns(times, redis, callgrind, programs, scratch);
        let (few, many) = (turns(FEW)?, turns(MANY)?);
        ensure!(many > few, "{MANY} turns took no more instructions than {FEW}");
        Ok((many - few) as f64 / f64::from(MANY - FEW))
    }

    fn turns(
        self,
        times: u32,
        redis: Option<&Redis>,
        callgrind: &Callgrind,
        programs: &Programs,
        scratch: &Path,
    ) -> anyhow::Result<u64> {
        let out = scratch.join(format!("callgrind.{}.{times}", self.name()));
        let mut command = callgrind.before(&out);
        command.extend([programs.gate.clone().into(), self.name().into(), times.to_string().into()]);
        command.extend(redis.map(|redis| redis.url().into()));
        let output = scratch.join(format!("{}.output", self.name()));
        let program = Program { name: self.name(), command, dir: scratch.to_owned(), output };
        program.start()?.ended_within(LIMIT)?;
        callgrind::total(&out)
    }
}
