//! PHP: its own server, which reads the files of each request anew.

use std::path::Path;

use super::model::{Follows, Guess, Look, Over, Process};
use crate::machine::Machine;

/// Laravel, which has a `package.json` for its assets.
pub(super) fn laravel(folder: &Path, _: &dyn Machine) -> Look {
    if !folder.join("artisan").is_file() {
        return None;
    }
    let guess = of("artisan", "php artisan serve --host=127.0.0.1 --port=$PORT --no-reload");
    let assets = folder.join("package.json").is_file();
    Some(Ok(if assets {
        guess.note("the script `dev` of package.json, for its assets, is yours to start")
    } else {
        guess
    }))
}

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let has = |path: &str| folder.join(path).is_file();
    let root = ["public", "web", "."].into_iter().find(|root| has(&format!("{root}/index.php")))?;
    let (because, router) =
        if root == "." { ("index.php", String::new()) } else { (root, format!(" {root}/index.php")) };
    Some(Ok(of(because, &format!("php -S 127.0.0.1:$PORT -t {root}{router}"))))
}

fn of(because: &str, line: &str) -> Guess {
    let process = Process { follows: Follows::Itself, ..Process::shell(line, Over::Port) };
    Guess::of("PHP project", because, process)
}
