//! Lets the linker pack the binary's relocations (`DT_RELR`), where the system's libraries understand that.
//!
//! The loader reads and applies 17,000 of them in each start, of the gateway and of its helper, and 0.4 MB of such
//! tables would then be part of what each of them holds. Packed they are 10 KB. glibc understands them from 2.36 on,
//! and a program that needs them says so, as it does of every other symbol of the library that it was linked with.

use std::process::Command;
use std::{env, fs};

/// The version that glibc defines if it understands packed relocations.
const UNDERSTOOD: &[u8] = b"GLIBC_ABI_DT_RELR";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && libc_understands() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the library that the binary will be linked with does. Unknown is no: it costs some memory and nothing else.
fn libc_understands() -> bool {
    let linker = match env::var_os("RUSTC_LINKER") {
        Some(linker) => linker,
        None if env::var_os("HOST") == env::var_os("TARGET") => "cc".into(),
        None => return false,
    };
    let Ok(asked) = Command::new(linker).arg("-print-file-name=libc.so.6").output() else { return false };
    let library = String::from_utf8_lossy(&asked.stdout);
    fs::read(library.trim()).is_ok_and(|library| library.windows(UNDERSTOOD.len()).any(|bytes| bytes == UNDERSTOOD))
}
