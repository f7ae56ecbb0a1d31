//! Java and Kotlin, built by Maven or Gradle: Spring Boot and Quarkus say their port by an argument.

use std::path::Path;

use super::model::{Follows, Guess, Look, NoGuess, Over, Process, text};
use crate::machine::Machine;

/// Seconds that the first build may take, with all that it depends on.
const BUILD_S: u32 = 600;
const SPRING: &str = "--server.port=$PORT --server.address=127.0.0.1";
const QUARKUS: &str = "-Dquarkus.http.port=$PORT -Dquarkus.http.host=127.0.0.1";

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let name = ["pom.xml", "build.gradle.kts", "build.gradle"].into_iter().find(|name| folder.join(name).is_file())?;
    let manifest = text(&folder.join(name))?;
    let is_maven = name == "pom.xml";
    let (wrapper, usual) = if is_maven { ("mvnw", "mvn") } else { ("gradlew", "gradle") };
    let program = if folder.join(wrapper).is_file() { format!("./{wrapper}") } else { usual.to_owned() };
    let (line, follows) = match (manifest.contains("quarkus"), manifest.contains("spring-boot"), is_maven) {
        (true, _, true) => (format!("{program} -q quarkus:dev {QUARKUS}"), Follows::Itself),
        (true, _, false) => (format!("{program} -q quarkusDev {QUARKUS}"), Follows::Itself),
        (_, true, true) => {
            (format!("{program} -q spring-boot:run -Dspring-boot.run.arguments=\"{SPRING}\""), Follows::Restart)
        }
        (_, _, false) if manifest.contains("org.springframework.boot") => {
            (format!("{program} -q bootRun --args=\"{SPRING}\""), Follows::Restart)
        }
        _ => {
            let why =
                format!("{name} says neither Spring Boot nor Quarkus; say what to run: pilotlight dev -- COMMAND");
            return Some(Err(NoGuess::Unclear { kind: "Java project", why }));
        }
    };
    let process = Process { follows, start_timeout_s: BUILD_S, ..Process::shell(&line, Over::Port) };
    Some(Ok(Guess::of("Java project", name, process)))
}
