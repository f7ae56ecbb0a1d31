//! Certificates by ACME (RFC 8555): which names need one and when, orders, challenges, and where all of it is kept.
//!
//! ```text
//!  names of routes ──▶ Agenda (pure): what to do now ──▶ Driver ──▶ Authority ──▶ a CA, by HTTPS
//!  clock, chance ────▶                ◀── how it went ──   │  │
//!                                                         │  └──▶ Storage: a folder, or Redis
//!  listeners ◀── Answers (HTTP-01), Certificates ─────────┘
//! ```
//!
//! [`Agenda`], [`Name`] and what is in `backoff`, `renewal` and `demand` name no socket, file or clock. It owns no
//! listener: their owner answers HTTP-01 by [`Answers`], and serves what [`Certificates`] receives.
//!
//! Invariant: gateways with one storage place one order for a name: the holder of the lease reads the storage first,
//! and gives it back only after he has stored what he got. (`order`)
//!
//! Invariant: a certificate that is there is shown until there is another one, whatever the authorities do. (`driver`)

mod agenda;
mod ask;
mod authority;
mod backoff;
mod certificate;
mod challenge;
mod demand;
mod driver;
mod error;
mod handle;
mod https;
mod name;
mod on_demand;
mod options;
mod order;
mod renewal;
mod show;
mod storage;
mod stored;

pub use agenda::{
    Agenda, Changed, Demand, Issuer, LastError, MAX_NAMES, MAX_ON_DEMAND, MAX_ORDERS, NameState, Permission, Work,
};
pub use backoff::Failure;
pub use certificate::{CertificateError, Facts, MAX_PAIR, Pair, RenewalId};
pub use challenge::{Answer, Answers, PATH, Token};
pub use driver::{Driver, StartError};
pub use error::OrderError;
pub use handle::{Acme, CommandError, OnDemandStatus, OnItsWay, Status};
pub use name::{Name, NoName, Reach, names_of};
pub use options::{
    AcmeSettings, AuthoritySettings, Challenges, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Offered,
    OnDemand, OrderRate, StorageSettings,
};
pub use renewal::{Suggestion, Window};
pub use show::{Certificates, Shown};
pub use storage::{Folder, Item, Lease, Pending, RedisStorage, Storage, StorageError};
