//! Options that `redis-cli` has and this program has not: each is answered with what to use instead.

use std::path::PathBuf;

use clap::Args;

use crate::connection::UsageError;

/// They are not in the help; their answers are.
#[derive(Debug, Args)]
pub(super) struct InsteadArgs {
    #[arg(short = 's', value_name = "PATH", hide = true)]
    pub(super) socket_path: Option<PathBuf>,
    #[arg(short = '4', hide = true)]
    ipv4: bool,
    #[arg(short = '6', hide = true)]
    ipv6: bool,
    #[arg(long, hide = true)]
    ldb: bool,
    #[arg(long, hide = true)]
    ldb_sync_mode: bool,
    #[arg(long, value_name = "KEYS", hide = true)]
    lru_test: Option<String>,
    #[arg(long, alias = "slave", hide = true)]
    replica: bool,
    #[arg(long, value_name = "FOLDER", hide = true)]
    cacertdir: Option<PathBuf>,
    #[arg(long, value_name = "LIST", hide = true)]
    tls_ciphers: Option<String>,
    #[arg(long, value_name = "LIST", hide = true)]
    tls_ciphersuites: Option<String>,
    #[arg(long, value_name = "CURSOR", hide = true)]
    cursor: Option<String>,
    #[arg(long, value_name = "KEY", hide = true)]
    vset_recall: Option<String>,
}

/// What follows `--cluster` in `redis-cli`, and the mode of `pilotlight redis cluster` that does it.
const CLUSTER: [(&str, &str); 12] = [
    ("create", "start` (a cluster on this machine; one of others is made by their deployment)"),
    ("check", "check`"),
    ("info", "info`"),
    ("fix", "check`, which says what is wrong and which command mends it"),
    ("reshard", "reshard`"),
    ("rebalance", "rebalance`"),
    ("add-node", "--help`: nodes are added where they are deployed, by CLUSTER MEET"),
    ("del-node", "reshard`, then CLUSTER FORGET and RESET"),
    ("call", "call`"),
    ("set-timeout", "call config set cluster-node-timeout MILLISECONDS`"),
    ("import", "--help`: data of another server comes by `--rdb`, or MIGRATE"),
    ("backup", "call`, and `pilotlight redis cli --rdb FILE` of each primary"),
];

impl InsteadArgs {
    /// # Errors
    /// One of them is there: what to use instead.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let answers = [
            (self.ipv4, "-4: every address of the host is tried; to have one family only, use --host with an address"),
            (self.ipv6, "-6: every address of the host is tried; to have one family only, use --host with an address"),
            (
                self.ldb,
                "--ldb: a debugger stops the whole server; run the script at a server of your own, with redis.log",
            ),
            (self.ldb_sync_mode, "--ldb-sync-mode: as --ldb; run the script at a server of your own, with redis.log"),
            (self.lru_test.is_some(), "--lru-test: use pilotlight redis bench with a distribution of keys (--help)"),
            (self.replica, "--replica: MONITOR shows commands, --rdb FILE copies the data"),
            (
                self.cacertdir.is_some(),
                "--cacertdir: use --cacert FILE; a file may have many certificates (cat FOLDER/*)",
            ),
            (
                self.tls_ciphers.is_some() || self.tls_ciphersuites.is_some(),
                "--tls-ciphers, --tls-ciphersuites: only suites that are safe are offered; the server chooses among them",
            ),
            (self.cursor.is_some(), "--cursor: a look at all keys begins anew; --pattern and --type make it shorter"),
            (self.vset_recall.is_some(), "--vset-recall: compare VSIM key ELE element with VSIM … TRUTH"),
        ];
        match answers.into_iter().find(|(is_there, _)| *is_there) {
            Some((_, answer)) => Err(UsageError(format!("not here: {answer}"))),
            None => Ok(()),
        }
    }
}

/// What `--cluster`, or `-t`, followed by this word means to `redis-cli`; here it would be a command.
pub(super) fn misread(is_cluster: bool, is_tls: bool, word: &str) -> Option<String> {
    if let Some((_, mode)) = CLUSTER.iter().find(|(name, _)| is_cluster && *name == word) {
        return Some(format!("--cluster is -c here; use `pilotlight redis cluster {mode}"));
    }
    if is_cluster && word == "help" {
        return Some("--cluster is -c here; see `pilotlight redis cluster --help`".to_owned());
    }
    let is_number = word.parse::<f64>().is_ok();
    (is_tls && is_number).then(|| format!("-t is --tls here; the time-out is --connect-timeout {word}"))
}
