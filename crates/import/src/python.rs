//! A Python application: a service over the pipe, run by `python3 -m pilotlight.wsgi`.

use crate::document::{Section, Value};
use crate::model::Draft;
use crate::rules::Place;

/// What is known of it while its file is read.
#[derive(Default)]
pub(crate) struct Python {
    pub(crate) service: Section,
    /// `package.module`.
    pub(crate) module: Option<String>,
    /// The name of the application in it.
    pub(crate) callable: Option<String>,
    /// The folder of a virtual environment.
    pub(crate) environment: Option<String>,
    /// Folders that modules are looked for in.
    pub(crate) paths: Vec<String>,
    pub(crate) instances: Option<u64>,
    pub(crate) threads: Option<u64>,
    /// The path below which it lives, without the slash at its end.
    pub(crate) mount: Option<String>,
    /// Modules that a parent imports.
    pub(crate) preload: bool,
    /// Fields of all answers.
    pub(crate) fields: Vec<(String, String)>,
    /// Plain HTTP is sent to TLS.
    pub(crate) redirects: bool,
    /// Places that some requests are refused at.
    pub(crate) closed: Vec<Place>,
    /// In place of `python3 -m pilotlight.wsgi`.
    pub(crate) command: Option<Vec<String>>,
}

impl Python {
    /// Adds the service and the route to it; nothing if no application was named.
    pub(crate) fn finish(mut self, name: &str, draft: &mut Draft) -> Option<String> {
        let program = match &self.environment {
            Some(folder) => format!("{}/bin/python", folder.trim_end_matches('/')),
            None => "python3".to_owned(),
        };
        let module = self.module.take();
        let command = match (self.command.take(), &module) {
            (Some(command), _) => command,
            (None, Some(module)) => {
                let application = match module.contains(':') {
                    true => module.clone(),
                    false => format!("{module}:{}", self.callable.as_deref().unwrap_or("application")),
                };
                let mut words = vec![program, "-m".to_owned(), "pilotlight.wsgi".to_owned(), application];
                if let Some(mount) = &self.mount {
                    words.extend(["--mount".to_owned(), mount.clone()]);
                }
                if let Some(threads) = self.threads {
                    words.extend(["--threads".to_owned(), threads.to_string()]);
                }
                words
            }
            (None, None) => return None,
        };
        let mut service = Section::default();
        service.set("command", Value::List(command));
        if !self.paths.is_empty() {
            self.service.entry("env", "PYTHONPATH", self.paths.join(":"));
        }
        let several = self.instances.is_some_and(|count| count > 1);
        if let Some(count) = self.instances.filter(|_| several) {
            self.service.set("max_instances", Value::Number(count));
        }
        if several || self.threads.is_some() {
            self.service.set("concurrency", Value::Number(self.threads.unwrap_or(1)));
        }
        if let Some(module) = module.filter(|_| self.preload) {
            let module = module.split(':').next().unwrap_or_default().to_owned();
            self.service.set("preload", Value::List(vec![module]));
        }
        service.extend(self.service);
        let name = draft.service_name(name);
        draft.services.push((name.clone(), service));
        let path = self.mount.unwrap_or_else(|| "/".to_owned());
        draft.route(Section::default().with("path", path).with("service", name.clone()));
        Some(name)
    }
}
