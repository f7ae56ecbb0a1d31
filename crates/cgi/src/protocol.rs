//! The three protocols.

/// What a program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// FastCGI, as `php-fpm` and `php-cgi` do.
    FastCgi,
    /// SCGI.
    Scgi,
    /// The protocol of uWSGI.
    Uwsgi,
}

impl Protocol {
    /// As the configuration has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FastCgi => "fastcgi",
            Self::Scgi => "scgi",
            Self::Uwsgi => "uwsgi",
        }
    }
}
