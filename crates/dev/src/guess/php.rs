//! PHP: its own server, which reads the files of each request anew.

use std::path::Path;

use super::{Follows, Guess, Look, Over, Process};
use crate::machine::Machine;

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let has = |path: &str| folder.join(path).is_file();
    let (because, line) = if has("artisan") {
        ("artisan", "php artisan serve --host=127.0.0.1 --port=$PORT --no-reload".to_owned())
    } else {
        let root = ["public", "web", "."].into_iter().find(|root| has(&format!("{root}/index.php")))?;
        let (because, router) =
            if root == "." { ("index.php", String::new()) } else { (root, format!(" {root}/index.php")) };
        (because, format!("php -S 127.0.0.1:$PORT -t {root}{router}"))
    };
    let process = Process { follows: Follows::Itself, ..Process::shell(&line, Over::Port) };
    Some(Ok(Guess::of("PHP project", because, process)))
}
