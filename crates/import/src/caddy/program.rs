//! `php_fastcgi`: a folder of scripts with a front controller.

use crate::directive::Directive;
use crate::program::{Program, Protocol, Site};
use crate::rules::{Place, Target, name_of};

use super::level::{Done, Level};
use super::reader::Reader;
use super::words::upstream;

/// What the block of `php_fastcgi` says.
struct Php {
    root: String,
    index: Vec<String>,
    fallback: Option<String>,
    params: Vec<(String, String)>,
}

impl Reader {
    pub(super) fn php(
        &mut self,
        directive: &Directive,
        args: &[String],
        hosts: &[Option<String>],
        place: &Place,
        level: &mut Level,
    ) -> Done {
        let url = args.first().map_or(Err("it names no server"), |text| upstream(text, false));
        let address = match url {
            Ok(url) => url.strip_prefix("http://").unwrap_or(&url).to_owned(),
            Err(why) => {
                self.lost(hosts, place, level);
                return Done::NotMapped(why.to_owned());
            }
        };
        for other in args.iter().skip(1) {
            let option = format!("php_fastcgi … {other}");
            self.note(
                directive.line,
                &option,
                Done::NotMapped("only the first server is taken over: `url` may be a list, add it there".to_owned()),
            );
        }
        let mut php = Php {
            root: level.root.clone().unwrap_or_else(|| ".".to_owned()),
            index: vec!["index.php".to_owned()],
            fallback: Some("index.php".to_owned()),
            params: Vec::new(),
        };
        for one in directive.children() {
            let done = match of_php(one, &mut php, level) {
                Some(done) => done,
                None => {
                    self.of_proxy(one, level, &address);
                    continue;
                }
            };
            self.note(one.line, &one.label(), done);
        }
        let Php { root, index, fallback, params } = php;
        let site = Site { root, index, fallback, run: None };
        let program = Program { protocol: Protocol::FastCgi, address, params, site: Some(site) };
        let service = self.draft.program(&name_of(&program.address), &program);
        self.emit(hosts, place, level, &Target::Service(service));
        Done::Mapped("service, cgi".to_owned())
    }
}

/// What stands in the block of `php_fastcgi`; none: it is for every proxy.
fn of_php(one: &Directive, php: &mut Php, level: &mut Level) -> Option<Done> {
    let value = one.arg(0);
    Some(match one.name.as_str() {
        "root" if value.contains('{') => Done::NotMapped("a folder is named by its path".to_owned()),
        "root" => {
            php.root = value.trim_end_matches('/').to_owned();
            Done::Mapped("cgi.root".to_owned())
        }
        "env" if one.arg(1).contains('{') => Done::NotMapped("a variable of `cgi.params` has a fixed value".to_owned()),
        "env" if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !value.is_empty() => {
            php.params.push((value.to_owned(), one.arg(1).to_owned()));
            Done::Mapped(format!("cgi.params.{value}"))
        }
        "index" if value == "off" => {
            (php.index, php.fallback) = (Vec::new(), None);
            Done::Mapped("cgi.index".to_owned())
        }
        "index" if value.ends_with(".php") && !value.contains(['{', '/']) => {
            (php.index, php.fallback) = (vec![value.to_owned()], Some(value.to_owned()));
            Done::Mapped("cgi.index, cgi.fallback".to_owned())
        }
        "try_files" => try_files(one, php),
        "split" if one.args == [".php"] => Done::NotNeeded("that is so without a word"),
        "split" => Done::NotMapped("`cgi.suffix` is one end of names".to_owned()),
        "resolve_root_symlink" => Done::NotNeeded("scripts are told their folder without symbolic links"),
        "capture_stderr" => Done::NotNeeded("what a program writes to its standard error is in the log"),
        "dial_timeout" | "write_timeout" => Done::NotNeeded("the gateway keeps connections to services itself"),
        "read_timeout" => level.timeout("response_body_timeout", value),
        _ => return None,
    })
}

/// `try_files {path} {path}/index.php index.php`, as it is without a word, or `=404` at its end.
fn try_files(one: &Directive, php: &mut Php) -> Done {
    let is_usual = |word: &String| word.starts_with("{path}");
    let (last, others) = one.args.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
    let file = last.trim_start_matches('/');
    let is_script = file.ends_with(".php") && !file.contains('{');
    php.fallback = is_script.then(|| file.to_owned());
    match others.iter().all(is_usual) && (is_script || last.starts_with('=') || last.starts_with("{path}")) {
        true => Done::Mapped("cgi.fallback".to_owned()),
        false => Done::NotMapped("the script, the file and the index of the path are looked for, no others".to_owned()),
    }
}
