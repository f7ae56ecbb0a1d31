//! Starts, watches and stops services.
