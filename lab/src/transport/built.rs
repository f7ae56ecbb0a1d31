//! Services in languages whose programs are compiled: those of `lab/peers/languages/build.sh`. A language that is not
//! built is named with what to call.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::services::{Language, Runtime, SDK, Server, Service, Socket};
use crate::experiment::model::Skipped;
use crate::processes;

/// What stands for the language's folder in the words of a command.
const FOLDER: &str = "{folder}";

/// How the services of a language are started.
struct Programs {
    language: Language,
    /// The name of its folder, and its argument of `build.sh`.
    name: &'static str,
    /// What executes them; `None`: nothing, they are programs.
    interpreter: Option<&'static str>,
    pipe: &'static [&'static str],
    others: &'static [Other],
}

/// A server that is usual in the language.
struct Other {
    name: &'static str,
    socket: Socket,
    /// The folder of the scripts, if it runs some by FastCGI.
    scripts: Option<&'static str>,
    command: &'static [&'static str],
    /// The program that has to be there, if it does not come with the language, and what installs it.
    needs: Option<(&'static str, &'static str)>,
}

const JAVA: &str = "-XX:+UseSerialGC";
const PROGRAMS: [Programs; 8] = [
    Programs {
        language: Language::C,
        name: "c",
        interpreter: None,
        pipe: &["{folder}/pipe"],
        others: &[Other {
            name: "FastCGI, libfcgi",
            socket: Socket::FastCgi,
            scripts: None,
            command: &["{folder}/fastcgi"],
            needs: None,
        }],
    },
    Programs {
        language: Language::DotNet,
        name: "dotnet",
        interpreter: Some("mono"),
        pipe: &["{folder}/Bench.exe"],
        others: &[Other {
            name: "HttpListener",
            socket: Socket::Port,
            scripts: None,
            command: &["{folder}/Bench.exe"],
            needs: None,
        }],
    },
    Programs {
        language: Language::CoreClr,
        name: "coreclr",
        interpreter: Some("dotnet"),
        pipe: &["{folder}/Service.dll"],
        others: &[Other {
            name: "Kestrel",
            socket: Socket::Inherited,
            scripts: None,
            command: &["{folder}/Service.dll"],
            needs: None,
        }],
    },
    Programs {
        language: Language::Go,
        name: "go",
        interpreter: None,
        pipe: &["/usr/bin/env", "BENCH_SERVICE=1", "{folder}/service"],
        others: &[Other {
            name: "net/http",
            socket: Socket::Inherited,
            scripts: None,
            command: &["/usr/bin/env", "BENCH_SERVICE=1", "{folder}/service"],
            needs: None,
        }],
    },
    Programs {
        language: Language::Haskell,
        name: "haskell",
        interpreter: None,
        pipe: &["{folder}/service"],
        others: &[Other {
            name: "Warp",
            socket: Socket::Inherited,
            scripts: None,
            command: &["{folder}/service"],
            needs: None,
        }],
    },
    Programs {
        language: Language::Java,
        name: "java",
        interpreter: Some("java"),
        pipe: &[JAVA, "-cp", "{folder}/demo.jar", "Bench", "handler"],
        others: &[Other {
            name: "HttpServer",
            socket: Socket::Port,
            scripts: None,
            command: &[JAVA, "-cp", "{folder}/demo.jar", "Bench"],
            needs: None,
        }],
    },
    Programs {
        language: Language::Php,
        name: "php",
        interpreter: Some("php"),
        pipe: &["{folder}/bench/service.php"],
        others: &[Other {
            name: "FastCGI, php-cgi",
            socket: Socket::FastCgi,
            scripts: Some("{folder}/bench/public"),
            command: &["php-cgi"],
            needs: Some(("php-cgi", "apt install php-cgi")),
        }],
    },
    Programs {
        language: Language::Ruby,
        name: "ruby",
        interpreter: Some("ruby"),
        pipe: &["{folder}/exe/pilotlight-rackup", "{folder}/bench/config.ru"],
        others: &[Other {
            name: "Puma",
            socket: Socket::Inherited,
            scripts: None,
            command: &[
                "sh",
                "-c",
                "export LISTEN_PID=$$; exec \"$@\"", // or it would not look at LISTEN_FDS
                "sh",
                "puma",
                "-q",
                "-e",
                "production",
                "-t",
                "8:8",
                "--bind-to-activated-sockets",
                "only",
                "{folder}/bench/config.ru",
            ],
            needs: Some(("puma", "apt install puma")),
        }],
    },
];

/// The service of a language that is built, if it is, below `peers`.
///
/// # Errors
/// It is not; what to call.
pub(super) fn find(language: Language, peers: &Path) -> Result<(Service, Vec<Skipped>), Skipped> {
    let what = || format!("{} services", language.title());
    let Some(programs) = PROGRAMS.iter().find(|programs| programs.language == language) else {
        return Err(Skipped::new(&what(), "the lab has none", "ask for another language"));
    };
    let folder = peers.join("languages/target").join(programs.name);
    let Ok(version) = fs::read_to_string(folder.join("version")) else {
        let install = format!("lab/peers/languages/build.sh {}", programs.name);
        return Err(Skipped::new(&what(), &format!("{} is not built", folder.display()), &install));
    };
    let interpreter = match programs.interpreter.map(|name| (name, processes::find_program(name))) {
        Some((name, None)) => {
            return Err(Skipped::new(&what(), &format!("{name} is not installed"), "scripts/setup.sh release"));
        }
        Some((_, found)) => found,
        None => None,
    };
    let mut skipped = Vec::new();
    let mut http = Vec::new();
    for other in programs.others {
        match other.needs.filter(|(program, _)| processes::find_program(program).is_none()) {
            Some((program, install)) => {
                let what = format!("{} over HTTP with {}", language.title(), other.name);
                skipped.push(Skipped::new(&what, &format!("{program} is not installed"), install));
            }
            None => {
                let interpreter = interpreter.as_deref().filter(|_| other.needs.is_none());
                let command = command(other.command, interpreter, &folder);
                let scripts = other.scripts.map(|path| PathBuf::from(in_folder(path, &folder)));
                http.push(Server { name: other.name, socket: other.socket, scripts, command });
            }
        }
    }
    let command = command(programs.pipe, interpreter.as_deref(), &folder);
    let pipe = Server { name: SDK, socket: Socket::Inherited, scripts: None, command };
    let program = interpreter.unwrap_or_else(|| PathBuf::from(&pipe.command[pipe.command.len() - 1]));
    let runtime = Runtime { program, version: version.trim_end().to_owned() };
    Ok((Service { language, runtime, pipe, http }, skipped))
}

fn command(words: &[&str], interpreter: Option<&Path>, folder: &Path) -> Vec<OsString> {
    let first = interpreter.map(|program| program.as_os_str().to_owned());
    first.into_iter().chain(words.iter().map(|word| in_folder(word, folder))).collect()
}

fn in_folder(word: &str, folder: &Path) -> OsString {
    let Some(rest) = word.strip_prefix(FOLDER) else { return word.into() };
    let mut path = folder.as_os_str().to_owned();
    path.push(rest);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_is_named_with_what_to_call() {
        let folder = tempfile::tempdir().expect("a folder");
        for programs in &PROGRAMS {
            let skipped = find(programs.language, folder.path()).expect_err("it is not there");
            assert_eq!(skipped.install, format!("lab/peers/languages/build.sh {}", programs.name));
        }
    }

    #[test]
    fn words_name_the_folder() {
        let words = command(&["-cp", "{folder}/demo.jar", "Bench"], Some(Path::new("/usr/bin/java")), Path::new("/x"));
        assert_eq!(words, ["/usr/bin/java", "-cp", "/x/demo.jar", "Bench"]);
    }
}
