//! The services of other languages and the SDKs that they need, as files of a folder of the run. They are part of the
//! binary, and lie there as in the repository, so that a service finds its SDK.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// Paths in the repository, and contents.
        const FILES: &[(&str, &str)] = &[$(($path, include_str!(concat!("../../../", $path)))),*];
    };
}

files![
    "lab/lambda/node/app.mjs",
    "lab/lambda/python/app.py",
    "lab/peers/gateways/activate.py",
    "lab/peers/http/pipe/flask_app.py",
    "lab/peers/http/pipe/heavy.py",
    "lab/peers/http/pipe/imports.py",
    "lab/peers/http/pipe/late.py",
    "lab/peers/http/pipe/service.js",
    "lab/peers/http/pipe/service.py",
    "lab/peers/http/services/asgi.py",
    "lab/peers/http/services/bare_asgi.py",
    "lab/peers/http/services/chunks.py",
    "lab/peers/http/services/fastcgi.py",
    "lab/peers/http/services/granian_wsgi.py",
    "lab/peers/http/services/gunicorn_wsgi.py",
    "lab/peers/http/services/http.js",
    "lab/peers/http/services/httpserver.py",
    "lab/peers/http/services/hypercorn_asgi.py",
    "lab/peers/http/services/wsgi.py",
    "sdk/node/index.js",
    "sdk/node/lib/connection.js",
    "sdk/node/lib/exchange.js",
    "sdk/node/lib/fetch.js",
    "sdk/node/lib/http.js",
    "sdk/node/lib/light.js",
    "sdk/node/lib/upgrade.js",
    "sdk/node/package.json",
    "sdk/python/pilotlight/__init__.py",
    "sdk/python/pilotlight/__main__.py",
    "sdk/python/pilotlight/_app.py",
    "sdk/python/pilotlight/_core.py",
    "sdk/python/pilotlight/_exchange.py",
    "sdk/python/pilotlight/_fast.py",
    "sdk/python/pilotlight/_fast_asgi.py",
    "sdk/python/pilotlight/_loop.py",
    "sdk/python/pilotlight/_pipe.py",
    "sdk/python/pilotlight/_request.py",
    "sdk/python/pilotlight/_rfc6455.py",
    "sdk/python/pilotlight/_scope.py",
    "sdk/python/pilotlight/_switch.py",
    "sdk/python/pilotlight/_upgrade.py",
    "sdk/python/pilotlight/_wire.py",
    "sdk/python/pilotlight/asgi.py",
    "sdk/python/pilotlight/websocket.py",
    "sdk/python/pilotlight/wsgi.py",
    "sdk/python/pilotlight/zygote.py",
    "tests/e2e/stdio_program.py",
];

/// Writes all of them below `folder`.
///
/// # Errors
/// The system refuses.
pub(crate) fn unpack(folder: &Path) -> anyhow::Result<()> {
    for (path, content) in FILES {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that an SDK gets must be embedded as well, or services of an installed binary would not start.
    #[test]
    fn no_file_of_the_sdks_is_missing() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (folder, ending) in [("sdk/python/pilotlight", "py"), ("sdk/node/lib", "js")] {
            for entry in fs::read_dir(root.join(folder)).expect("the SDK is there").flatten() {
                let name = entry.file_name().into_string().expect("UTF-8");
                let path = format!("{folder}/{name}");
                if name.ends_with(&format!(".{ending}")) {
                    assert!(FILES.iter().any(|(known, _)| *known == path), "{path} is not embedded");
                }
            }
        }
    }

    #[test]
    fn files_lie_as_in_the_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        unpack(folder.path()).expect("written");
        assert!(folder.path().join("sdk/python/pilotlight/__init__.py").is_file());
        assert!(folder.path().join("lab/peers/http/pipe/service.py").is_file());
    }
}
