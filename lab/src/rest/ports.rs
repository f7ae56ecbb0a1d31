//! Ports for programs that cannot be told to take any free one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context as _;

/// The ports above this are left alone: a port of Redis is the basis of its cluster bus, 10,000 above it.
const MAX_PORT: u16 = 55_000;

/// A TCP address that is free now. Another program may take it in between; then the start fails, and says so.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    for _ in 0..1000 {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?.local_addr()?;
        if address.port() <= MAX_PORT && TcpListener::bind((Ipv4Addr::LOCALHOST, address.port() + 10_000)).is_ok() {
            return Ok(address);
        }
    }
    anyhow::bail!("no port is free whose fellow 10,000 above is, too")
}
