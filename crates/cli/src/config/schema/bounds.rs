//! Bounds of the file itself.

/// `listen` when the file gives none.
pub const LISTEN: &str = "127.0.0.1:8080";
/// Most services in a file.
pub const MAX_SERVICES: usize = 4096;
/// Most groups in a file.
pub const MAX_GROUPS: usize = 256;
/// Most routes in a file.
pub const MAX_ROUTES: usize = 16_384;
/// Most bytes of a service's name.
pub const MAX_NAME: usize = 64;
/// Most arguments of a command, the program included.
pub const MAX_ARGUMENTS: usize = 1024;
/// Most environment variables of a service.
pub const MAX_ENV: usize = 1024;
/// Most bytes of a route's path.
pub const MAX_PATH: usize = 1024;
/// Modules in a service's `preload`.
pub const MAX_PRELOAD: usize = 256;
/// Most files in `env_file`, and most paths in `sandbox_read` and `sandbox_write`.
pub const MAX_ISOLATION_PATHS: usize = 64;
/// Most files in `secrets`.
pub const MAX_SECRETS: usize = 64;
/// Most entries of a list in `[routes.cache]`.
pub const MAX_CACHE_NAMES: usize = 64;
