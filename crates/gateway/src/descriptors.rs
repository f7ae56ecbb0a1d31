//! What to do when a process, or the system, has as many files open as it may.

use std::io;

use rustix::io::Errno;

/// What an operator can do about an error, as the end of a message; empty for errors of other kinds.
pub(crate) fn hint(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            let limit = limit.map_or_else(String::new, |limit| format!(", {limit}"));
            format!(
                "; this process has as many files and connections open as it may{limit}: raise LimitNOFILE= of its unit \
                 or `ulimit -n`, or lower `limits.connections`"
            )
        }
        Some(Errno::NFILE) => "; the system has as many files open as it may: raise fs.file-max (sysctl)".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_has_a_remedy_and_other_errors_none() {
        let of = |errno: Errno| hint(&io::Error::from(errno));
        assert!(of(Errno::MFILE).contains("LimitNOFILE=") && of(Errno::NFILE).contains("fs.file-max"));
        assert_eq!(of(Errno::CONNREFUSED), "");
    }
}
