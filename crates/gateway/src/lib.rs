//! The HTTP gateway: takes requests from clients, answers from the cache, or sends them on to services.
//!
//! The path of a request, file by file: [`listen`] binds, [`worker`] accepts, [`connection`] speaks HTTP/1.1 with the
//! client (with the times of [`client`]), [`exchange`] decides (route, cache, service), [`upstream`] carries it to a
//! service over the pipe or HTTP, [`body`] brings the response back, [`problem`] words what went wrong.

#![forbid(unsafe_code)]

mod accepted;
mod access_log;
mod admin;
mod admission;
mod body;
mod cache_key;
mod certificates;
mod client;
mod client_socket;
mod coherence;
mod compress;
mod conditions;
mod connection;
mod date;
mod deadline;
mod descriptors;
mod downstream;
mod error_pages;
mod exchange;
mod external;
mod field_rules;
mod fields;
mod file_body;
mod file_state;
mod floods;
mod forwarded;
mod gateway;
mod grpc;
mod handshake;
mod handshakes;
mod head;
mod health;
mod http2;
mod internal;
mod issuers;
mod json_choice;
mod json_routes;
mod json_rule;
mod jwks;
mod linger;
mod listen;
mod listen_addr;
mod lookup;
mod metrics;
mod names;
mod net;
mod networks;
mod on_demand;
mod options;
mod outbound;
mod path;
mod peer_address;
mod problem;
mod protocols;
mod proxied;
mod pump;
mod read_ahead;
mod record;
mod redirect;
mod request_body;
mod request_id;
mod response;
mod rewrite;
mod route_changes;
mod routes;
mod schedules;
mod scratch;
mod server_changes;
mod server_control;
mod server_line;
mod server_timing;
mod servers;
mod spawn;
mod spill;
mod strangers;
mod stream_io;
mod target;
mod template;
mod timing;
mod tls_socket;
mod traces;
mod tunnel;
mod upgrades;
mod upstream;
mod websocket;
mod worker;

pub use admin::{
    Admin, AdminError, AdminOptions, Asked, Emptying, KEPT_LOG_BYTES, KEPT_LOG_LINES, LogBook, NotDone, Order,
    SocketFile, hide_credentials,
};
pub use admission::basic::{BasicSpec, UsersError, check_users};
pub use admission::forward::{ForwardAddr, ForwardSpec};
pub use admission::htpasswd::{BadEntry, BadLine};
pub use admission::jwt_spec::{JwtSpec, TokenFrom};
pub use admission::rate::{Period, Rate};
pub use admission::spec::{AdmissionSpec, AllowSpec, LimitBy, LimitSpec, Preflight, RateScope, RateSpec};
pub use conditions::Conditions;
pub use error_pages::{ErrorPage, ErrorPages, ErrorStatus};
pub use field_rules::{FieldDirection, FieldPattern, FieldRuleError, FieldRules, FieldValue};
pub use forwarded::TrustForwarded;
pub use gateway::{Gateway, GatewayError, NewListeners};
pub use internal::InternalError;
pub use issuers::IssuerError;
pub use json_rule::JsonRule;
pub use jwks::{KeySource, KeysAt, KeysFileError, check_authority_file, check_keys};
pub use listen::ListenError;
pub use networks::{Network, Networks, NotANetwork};
pub use options::{
    Abandoned, AccessField, AccessFormat, AccessLogOptions, AmbiguousPaths, BalanceBy, BalanceOptions, CacheSettings,
    CgiOptions, DnsOptions, EVENTS_PATH, External, ExternalAddr, ExternalSpec, Family, GatewayOptions, HealthOptions,
    Inherited, IoUring, IssuerOptions, LambdaOptions, Limits, ListenAddr, NameKind, PlainHttp, RedisTier, Reloading,
    RouteCache, RouteLimit, RouteSpec, RouteTo, SendFolder, ServerName, ServerProtocol, ServerSpec, ServerTiming,
    ServiceTarget, Serving, Settings, SpillSpec, Versions, read_sticky_key,
};
pub use pilotlight_acme::{
    AcmeSettings, AuthoritySettings, Challenges, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Name, NoName,
    Offered, OnDemand, OrderRate, StorageSettings,
};
pub use pilotlight_authority::{PERMITTED, is_permitted};
pub use pilotlight_balance::MAX_SERVERS;
pub use pilotlight_cache::{
    BypassRules, CDN_CACHE_CONTROL, CacheOptions, ERROR_STATUSES, ErrorLifetimes, KeyRules, LanguageOrder, NamePattern,
    NamePatterns, Parameters, PolicyOptions, QueryRules, RouteControl, RouteRules, StatusSet, StoreRules, TagFields,
};
pub use pilotlight_cache_redis::{
    Config as RedisConfig, Options as RedisOptions, is_prefix as is_redis_prefix, write_probe as redis_write_probe,
};
pub use pilotlight_cgi::Protocol as CgiProtocol;
pub use pilotlight_content_coding::{Coding, CompressOptions, MediaRange};
pub use pilotlight_files::{
    FileRule, FilesOptions, Listing, NotAPattern, ScriptOptions, ScriptPattern, is_file_path, keep_private,
};
pub use pilotlight_json_fields::Pattern as JsonPattern;
pub use pilotlight_jwt::{Algorithm as TokenAlgorithm, Expiry as TokenExpiry, KeySet, Rules as TokenRules};
pub use pilotlight_lambda::{EventFormat, Function};
pub use pilotlight_proxy_protocol::Version as ProxyVersion;
pub use pilotlight_traces::{Ratio, RatioError};
pub use redirect::{NotARedirect, Redirect};
pub use rewrite::{NotARewrite, Rewrite};
pub use route_changes::RouteChanges;
pub use schedules::{Missed, ScheduleSpec};
pub use server_control::{Activity, ServerControl, SetError, Wanted};
pub use template::{Placeholder, Template, TemplateError};
pub use traces::{ExportOptions, HeadersFileError, RecordedQuery, TraceOptions, export_header, read_headers_file};
pub use upgrades::{NotAProtocol, Upgrades};
