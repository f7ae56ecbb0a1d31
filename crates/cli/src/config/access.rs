//! What the system lets this process do with files.

use std::path::Path;

use rustix::fs::Access;

/// Whether this process may use a file in this way.
pub(super) fn may(path: &Path, access: Access) -> bool {
    rustix::fs::access(path, access).is_ok()
}
