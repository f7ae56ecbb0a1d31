//! Pipe/1: frames, sessions, connections and the Rust service SDK.
