//! The options of `pilotlight redis cli`: by the names that `redis-cli` has for them, where it has one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args};

use super::instead::{InsteadArgs, misread};
use super::task::{LatencyReport, Question, SnapshotContent, Task};
use crate::connection::{ConnectionArgs, UsageError, seconds};

const EXAMPLES: &str = "Examples:
  pilotlight redis cli                                   a prompt at 127.0.0.1:6379; `help` tells more
  pilotlight redis cli -c -h node1,node2 -p 7000         a prompt at a cluster
  pilotlight redis cli --url redis+sentinel://s1,s2/mymaster GET user:1
  pilotlight redis cli --json HGETALL user:1             {\"name\":\"Ada\"}
  pilotlight redis cli -x SET page < page.html           the last argument from the standard input
  pilotlight redis cli -r -1 -i 2 INFO clients           every two seconds
  pilotlight redis cli --eval script.lua key1 , arg1
  pilotlight redis cli --scan --pattern 'user:*' | head
  pilotlight redis cli -c --bigkeys                      over all shards
  pilotlight redis cli --pipe < commands.resp
  pilotlight redis cli -h cache --rdb dump.rdb           a copy of all its data

Exit codes: 0 done (an error of the server is a reply, too, unless -e), 1 the work failed, 2 usage.";

/// A prompt, or one command: `pilotlight redis cli [OPTIONS] [COMMAND ARGS…]`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_override_self = true, version, disable_version_flag = true)]
pub struct CliArgs {
    /// How replies are written.
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// What is sent.
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// Looks at whole servers.
    #[command(flatten)]
    pub(super) looks: LookArgs,
    /// Which server.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// What is elsewhere.
    #[command(flatten)]
    pub(super) instead: InsteadArgs,
    /// Print version
    #[arg(short = 'v', long, action = ArgAction::Version, help_heading = "Options")]
    version: Option<bool>,
    /// The command and its arguments; without one, commands are read from the terminal or the standard input
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true, help_heading = "Command")]
    pub(super) command: Vec<OsString>,
}

/// How replies are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// The data alone [default: where the output is no terminal]
    #[arg(long, group = "format")]
    pub(super) raw: bool,
    /// With types and quotes, for people [default: on a terminal]
    #[arg(long, group = "format")]
    pub(super) no_raw: bool,
    /// Comma-separated
    #[arg(long, group = "format")]
    pub(super) csv: bool,
    /// JSON, one line for each reply; bytes that are no UTF-8 are replaced
    #[arg(long, group = "format")]
    pub(super) json: bool,
    /// JSON whose strings have escapes for all that is not printable ASCII
    #[arg(long, group = "format")]
    pub(super) quoted_json: bool,
    /// Aligned columns; cells are cut at 120 characters
    #[arg(long, group = "format")]
    pub(super) table: bool,
    /// Between the elements of raw replies [default: line break]
    #[arg(short = 'd', value_name = "TEXT")]
    pub(super) element_delimiter: Option<String>,
    /// After each raw reply [default: line break]
    #[arg(short = 'D', value_name = "TEXT")]
    pub(super) reply_delimiter: Option<String>,
    /// An error of the server goes to the standard error, and the exit code is 1
    #[arg(short = 'e')]
    pub(super) exit_on_error: bool,
    /// Whether to print messages that come unasked, such as invalidations (RESP3): yes or no [default: yes on a
    /// terminal]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(super) show_pushes: Option<bool>,
    /// Tell on the standard error which connections are made and lost, which redirects are followed, and what is tried
    /// again
    #[arg(long)]
    pub(super) verbose: bool,
    /// Do not warn that others may see the password of -a
    #[arg(long)]
    pub(super) no_auth_warning: bool,
    /// RESP2 [default, but for --json, --quoted-json and --table]
    #[arg(short = '2', conflicts_with = "protocol")]
    pub(super) resp2: bool,
    /// RESP3
    #[arg(short = '3', conflicts_with_all = ["protocol", "resp2"])]
    pub(super) resp3: bool,
}

/// What is sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub(super) struct InputArgs {
    /// The number of the database, as --db
    #[arg(short = 'n', value_name = "NUMBER", conflicts_with = "db")]
    pub(super) database: Option<u16>,
    /// The last argument is the standard input
    #[arg(short = 'x', conflicts_with = "stdin_tag")]
    pub(super) stdin_last: bool,
    /// The argument TAG is replaced by the standard input
    #[arg(short = 'X', value_name = "TAG")]
    pub(super) stdin_tag: Option<String>,
    /// Run the command so many times; -1: without end
    #[arg(short = 'r', value_name = "TIMES", default_value_t = 1, allow_negative_numbers = true)]
    pub(super) repeat: i64,
    /// Seconds between repetitions; of --stat and the latency looks, between lines (0.1 is possible)
    #[arg(short = 'i', value_name = "SECONDS", value_parser = seconds)]
    pub(super) interval: Option<Duration>,
    /// Arguments are in quotes, with escapes: '"a\x00b"'
    #[arg(long)]
    pub(super) quoted_input: bool,
    /// Run this Lua script: keys, a comma, arguments
    #[arg(long, value_name = "FILE", group = "task")]
    pub(super) eval: Option<PathBuf>,
    /// Send the standard input, commands in RESP, and count errors and replies
    #[arg(long, group = "task")]
    pub(super) pipe: bool,
    /// With --pipe: seconds to wait for the last reply; 0: without end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(super) pipe_timeout: u64,
    /// Seconds for one command in a cluster, or with ON; elsewhere a command may take as long as it likes
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub(super) timeout: Duration,
    /// A profile of the file ~/.config/pilotlight/redis.toml
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
}

/// Looks at whole servers; in a cluster at all primaries.
#[derive(Debug, Args)]
#[command(next_help_heading = "Looks at whole servers")]
pub(super) struct LookArgs {
    /// All keys, one a line
    #[arg(long, group = "task")]
    pub(super) scan: bool,
    /// With --scan, --bigkeys, --memkeys, --hotkeys: only keys of this glob pattern
    #[arg(long, value_name = "PATTERN")]
    pub(super) pattern: Option<String>,
    /// The same in quotes, with escapes
    #[arg(long, value_name = "PATTERN", conflicts_with = "pattern")]
    pub(super) quoted_pattern: Option<String>,
    /// With --scan: only keys of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<String>,
    /// With --scan and the like: keys looked at for each page [default: 10; 1000 for --bigkeys and the like]
    #[arg(long, value_name = "COUNT")]
    pub(super) count: Option<u64>,
    /// The keys with most elements, by type
    #[arg(long, group = "task")]
    pub(super) bigkeys: bool,
    /// The keys with most memory, by type
    #[arg(long, group = "task")]
    pub(super) memkeys: bool,
    /// --bigkeys, and then --memkeys
    #[arg(long, group = "task")]
    pub(super) keystats: bool,
    /// The same; elements sampled for each key, as with --memkeys-samples
    #[arg(long, value_name = "COUNT", group = "task")]
    pub(super) keystats_samples: Option<u64>,
    /// With --memkeys: elements sampled for each key; 0: all [default: the server's, 5]
    #[arg(long, value_name = "COUNT")]
    pub(super) memkeys_samples: Option<u64>,
    /// The keys that are asked for most; the servers need an LFU policy (maxmemory-policy allkeys-lfu)
    #[arg(long, group = "task")]
    pub(super) hotkeys: bool,
    /// With --bigkeys, --memkeys, --hotkeys: so many keys of each list
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(super) top: usize,
    /// Keys, memory, clients, requests: a line a second
    #[arg(long, group = "task")]
    pub(super) stat: bool,
    /// The time of PING: least, most, mean, until Ctrl-C
    #[arg(long, group = "task")]
    pub(super) latency: bool,
    /// The same, begun anew every 15 seconds (-i)
    #[arg(long, group = "task")]
    pub(super) latency_history: bool,
    /// The distribution of the time of PING, a line a second (-i)
    #[arg(long, group = "task")]
    pub(super) latency_dist: bool,
    /// How long this machine leaves a busy process waiting, measured for so many seconds; no server is asked
    #[arg(long, value_name = "SECONDS", group = "task")]
    pub(super) intrinsic_latency: Option<u64>,
    /// Write the snapshot that the server makes for a replica into this file; -: to the standard output
    #[arg(long, value_name = "FILE", group = "task")]
    pub(super) rdb: Option<PathBuf>,
    /// The same with functions alone (Redis 7.0)
    #[arg(long, value_name = "FILE", group = "task")]
    pub(super) functions_rdb: Option<PathBuf>,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("yes or no".to_owned()),
    }
}

impl CliArgs {
    /// Whether they make sense together: what the parser cannot tell, as all that follows the command is the command's.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        self.instead.check()?;
        let first = self.command.first().map(|word| word.to_string_lossy());
        let (is_cluster, is_tls) = (self.connection.cluster, self.connection.tls.tls);
        if let Some(why) = first.as_ref().and_then(|word| misread(is_cluster, is_tls, word)) {
            return Err(UsageError(why));
        }
        match first {
            Some(word) if word.starts_with('-') => Err(UsageError(format!(
                "{word}: no such option; --help lists them, and options come before the command"
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn task(&self) -> Task<'_> {
        let (input, looks) = (&self.input, &self.looks);
        let snapshots = [(SnapshotContent::Everything, &looks.rdb), (SnapshotContent::Functions, &looks.functions_rdb)];
        if let Some((content, path)) =
            snapshots.into_iter().find_map(|(content, path)| Some((content, path.as_deref()?)))
        {
            return Task::Snapshot(content, path);
        }
        match () {
            () if input.eval.is_some() => Task::Eval(input.eval.as_deref().unwrap_or(Path::new(""))),
            () if input.pipe => Task::Pipe,
            () if looks.scan => Task::Scan,
            () if looks.bigkeys => Task::Keys(Question::Big),
            () if looks.memkeys => Task::Keys(Question::Memory),
            () if looks.keystats || looks.keystats_samples.is_some() => Task::KeyStats,
            () if looks.hotkeys => Task::Keys(Question::Hot),
            () if looks.stat => Task::Stat,
            () if looks.latency => Task::Latency(LatencyReport::Summary),
            () if looks.latency_history => Task::Latency(LatencyReport::History),
            () if looks.latency_dist => Task::Latency(LatencyReport::Distribution),
            () if !self.command.is_empty() => Task::Command,
            () => looks.intrinsic_latency.map_or(Task::Lines, Task::IntrinsicLatency),
        }
    }

    /// The words of the command line.
    pub(super) fn words(&self) -> Vec<Vec<u8>> {
        self.command.iter().map(|word| word.as_bytes().to_vec()).collect()
    }
}
