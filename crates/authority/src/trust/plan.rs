//! From what there is to what is to be done. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::machine::{Machine, System};

/// The password that every keystore of Java has.
const JAVA_PASSWORD: &str = "changeit";

/// Whether the root is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From now on.
    Trust,
    /// No longer.
    Untrust,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The system's: curl, Python, Go, Ruby, most programs.
    System,
    /// NSS: Firefox, and Chromium on Linux.
    Nss,
    /// Java's keystores.
    Java,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Trust or not.
    pub direction: Direction,
    /// In stores of these kinds.
    pub kinds: Vec<Kind>,
    /// The root, in a file.
    pub root: &'a Path,
    /// The root, as PEM.
    pub certificate: &'a str,
    /// By what the stores know it.
    pub id: &'a str,
    /// A file that gets the system's roots and this one, instead of the system's store.
    pub bundle: Option<&'a Path>,
    /// A keystore of Java, instead of that of the Java that is found.
    pub keystore: Option<&'a Path>,
}

/// What has to be done, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each with what it is for.
    pub steps: Vec<Step>,
    /// What cannot be done, and what helps.
    pub refused: Vec<String>,
    /// What a person may have to do.
    pub notes: Vec<String>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The store, for people.
    pub store: String,
    /// What is done.
    pub action: Action,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A program, with its arguments.
    Run(Vec<OsString>),
    /// The same, for what may not be there.
    RunIfThere(Vec<OsString>),
    /// A file that everybody may read.
    Write {
        /// Where.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// A file with the roots of another one, and one more.
    Bundle {
        /// Where.
        path: PathBuf,
        /// The other one.
        of: PathBuf,
        /// The root.
        text: String,
    },
    /// A file that goes, if it is there.
    Remove(PathBuf),
    /// A folder for its owner alone, if it is not there.
    Folder(PathBuf),
}

impl Plan {
    /// What has to be done on a machine.
    #[must_use]
    pub fn of(wanted: &Wanted<'_>, machine: &Machine) -> Self {
        let mut plan = Self::default();
        for kind in &wanted.kinds {
            match (kind, wanted.bundle) {
                (Kind::System, Some(bundle)) => plan.bundle(wanted, machine, bundle),
                (Kind::System, None) => plan.system(wanted, machine),
                (Kind::Nss, _) => plan.nss(wanted, machine),
                (Kind::Java, _) => plan.java(wanted, machine),
            }
        }
        if wanted.direction == Direction::Trust {
            plan.notes.push(format!("Node reads no store: set NODE_EXTRA_CA_CERTS={}", wanted.root.display()));
        }
        plan
    }

    fn does(&mut self, store: &str, action: Action) {
        self.steps.push(Step { store: store.to_owned(), action });
    }

    fn bundle(&mut self, wanted: &Wanted<'_>, machine: &Machine, path: &Path) {
        let path = path.to_owned();
        match (wanted.direction, &machine.bundle) {
            (Direction::Untrust, _) => self.does("bundle", Action::Remove(path)),
            (Direction::Trust, Some(of)) => {
                let variables = "SSL_CERT_FILE, CURL_CA_BUNDLE and REQUESTS_CA_BUNDLE";
                self.notes.push(format!("programs take the bundle where it is named: {variables}={}", path.display()));
                let text = wanted.certificate.to_owned();
                self.does("bundle", Action::Bundle { path, of: of.clone(), text });
            }
            (Direction::Trust, None) => {
                self.refused.push("bundle: this system has no roots to begin from: install ca-certificates".to_owned());
            }
        }
    }

    fn system(&mut self, wanted: &Wanted<'_>, machine: &Machine) {
        if machine.system == System::Unknown {
            let help = "install ca-certificates or p11-kit, or name a bundle with --bundle";
            self.refused.push(format!("system: no store that Pilotlight knows was found: {help}"));
            return;
        }
        if !machine.is_root {
            let (command, folder) = match wanted.direction {
                Direction::Trust => ("trust", wanted.root.parent()),
                Direction::Untrust => ("untrust", wanted.root.parent()),
            };
            let folder = folder.unwrap_or(Path::new(".")).display();
            self.refused.push(format!(
                "system: this user may not change the system's store: sudo pilotlight {command} --only system --folder '{folder}'"
            ));
            return;
        }
        let name = file_name(wanted);
        let words = |words: &[&std::ffi::OsStr]| words.iter().map(OsString::from).collect::<Vec<_>>();
        match (&machine.system, wanted.direction) {
            (System::Folder { folder, extension, added, .. }, Direction::Trust) => {
                let path = folder.join(format!("{name}.{extension}"));
                self.does("system", Action::Folder(folder.clone()));
                self.does("system", Action::Write { path, text: wanted.certificate.to_owned() });
                self.does("system", Action::Run(added.clone()));
            }
            (System::Folder { folder, extension, removed, .. }, Direction::Untrust) => {
                self.does("system", Action::Remove(folder.join(format!("{name}.{extension}"))));
                self.does("system", Action::Run(removed.clone()));
            }
            (System::P11Kit(trust), Direction::Trust) => {
                let words = words(&[trust.as_os_str(), "anchor".as_ref(), "--store".as_ref(), wanted.root.as_os_str()]);
                self.does("system", Action::Run(words));
            }
            (System::P11Kit(trust), Direction::Untrust) => {
                let words =
                    words(&[trust.as_os_str(), "anchor".as_ref(), "--remove".as_ref(), wanted.root.as_os_str()]);
                self.does("system", Action::RunIfThere(words));
            }
            (System::Keychain(security), Direction::Trust) => {
                let arguments =
                    ["add-trusted-cert", "-d", "-r", "trustRoot", "-k", "/Library/Keychains/System.keychain"];
                let mut all = vec![OsString::from(security)];
                all.extend(arguments.map(OsString::from));
                all.push(wanted.root.into());
                self.does("system", Action::Run(all));
            }
            (System::Keychain(security), Direction::Untrust) => {
                let words = words(&[
                    security.as_os_str(),
                    "remove-trusted-cert".as_ref(),
                    "-d".as_ref(),
                    wanted.root.as_os_str(),
                ]);
                self.does("system", Action::RunIfThere(words));
            }
            (System::Unknown, _) => {}
        }
    }

    /// Firefox's profiles, and the store that Chromium reads on Linux, which is made if it is not there.
    fn nss(&mut self, wanted: &Wanted<'_>, machine: &Machine) {
        let chromium = machine.home.join(".pki/nssdb");
        let reads_nss = cfg!(target_os = "linux");
        if machine.firefox.is_empty() && !reads_nss {
            return;
        }
        let Some(certutil) = &machine.certutil else {
            let help = "install libnss3-tools (nss-tools on Red Hat, nss on macOS)";
            self.refused.push(format!("NSS (Firefox, Chromium): certutil is missing: {help}"));
            return;
        };
        let certutil = certutil.to_string_lossy().into_owned();
        let command = |folder: &Path, arguments: &[&str]| -> Vec<OsString> {
            let database = format!("sql:{}", folder.display());
            let mut all: Vec<OsString> = vec![OsString::from(&certutil), "-d".into(), database.into()];
            all.extend(arguments.iter().map(OsString::from));
            all
        };
        let name = store_name(wanted);
        let root = wanted.root.to_string_lossy();
        let mut stores: Vec<(String, &Path)> = Vec::new();
        if reads_nss && (machine.has_chromium || wanted.direction == Direction::Trust) {
            stores.push(("Chromium".to_owned(), &chromium));
        }
        let label = |path: &Path| {
            format!(
                "Firefox ({})",
                path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            )
        };
        stores.extend(machine.firefox.iter().map(|path| (label(path), path.as_path())));
        for (store, folder) in stores {
            if folder == chromium && !machine.has_chromium {
                self.does(&store, Action::Folder(chromium.clone()));
                self.does(&store, Action::Run(command(folder, &["-N", "--empty-password"])));
            }
            // Otherwise it would be there twice.
            self.does(&store, Action::RunIfThere(command(folder, &["-D", "-n", &name])));
            if wanted.direction == Direction::Trust {
                let arguments = ["-A", "-t", "C,,", "-n", &name, "-i", &root];
                self.does(&store, Action::Run(command(folder, &arguments)));
            }
        }
    }

    fn java(&mut self, wanted: &Wanted<'_>, machine: &Machine) {
        let Some(keytool) = &machine.keytool else { return };
        let store: [OsString; 2] = match wanted.keystore {
            Some(path) => ["-keystore".into(), path.into()],
            None if machine.is_root => ["-cacerts".into(), OsString::new()],
            None => {
                let note = format!(
                    "Java: {} -importcert -noprompt -cacerts -storepass {JAVA_PASSWORD} -alias {} -file '{}' (as root), or --java-keystore FILE with -Djavax.net.ssl.trustStore=FILE -Djavax.net.ssl.trustStorePassword={JAVA_PASSWORD}",
                    keytool.display(),
                    file_name(wanted),
                    wanted.root.display()
                );
                if wanted.direction == Direction::Trust {
                    self.notes.push(note);
                }
                return;
            }
        };
        let command = |arguments: &[&str]| -> Vec<OsString> {
            let mut all: Vec<OsString> = vec![keytool.into()];
            all.extend(arguments.iter().map(OsString::from));
            all.extend(store.iter().filter(|word| !word.is_empty()).cloned());
            all.extend(["-storepass", JAVA_PASSWORD, "-alias", &file_name(wanted)].map(OsString::from));
            all
        };
        self.does("Java", Action::RunIfThere(command(&["-delete"])));
        if wanted.direction == Direction::Trust {
            let mut import = command(&["-importcert", "-noprompt", "-trustcacerts"]);
            import.extend(["-file".into(), OsString::from(wanted.root)]);
            self.does("Java", Action::Run(import));
        }
    }
}

fn file_name(wanted: &Wanted<'_>) -> String {
    format!("pilotlight-{}", wanted.id)
}

fn store_name(wanted: &Wanted<'_>) -> String {
    format!("Pilotlight local authority {}", wanted.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            home: "/home/ada".into(),
            is_root: true,
            system: System::Folder {
                folder: "/usr/local/share/ca-certificates".into(),
                extension: "crt",
                added: vec!["update-ca-certificates".into()],
                removed: vec!["update-ca-certificates".into(), "--fresh".into()],
            },
            bundle: Some("/etc/ssl/certs/ca-certificates.crt".into()),
            certutil: Some("certutil".into()),
            firefox: vec!["/home/ada/.mozilla/firefox/abc.default".into()],
            has_chromium: false,
            keytool: Some("keytool".into()),
        }
    }

    fn wanted(direction: Direction, kinds: &[Kind]) -> Wanted<'static> {
        Wanted {
            direction,
            kinds: kinds.to_vec(),
            root: Path::new("/home/ada/data/root.pem"),
            certificate: "PEM",
            id: "0a1b2c3d",
            bundle: None,
            keystore: None,
        }
    }

    /// Steps as lines.
    fn lines(plan: &Plan) -> Vec<String> {
        let words = |words: &[OsString]| words.join(" ".as_ref()).into_string().unwrap();
        let line = |step: &Step| match &step.action {
            Action::Run(all) => words(all),
            Action::RunIfThere(all) => format!("? {}", words(all)),
            Action::Write { path, text } => format!("write {} {text}", path.display()),
            Action::Bundle { path, of, text } => format!("bundle {} {} {text}", path.display(), of.display()),
            Action::Remove(path) => format!("rm {}", path.display()),
            Action::Folder(path) => format!("mkdir {}", path.display()),
        };
        plan.steps.iter().map(line).collect()
    }

    #[track_caller]
    fn check(wanted: &Wanted<'_>, machine: &Machine, expected: &[&str]) -> Plan {
        let plan = Plan::of(wanted, machine);
        assert_eq!(lines(&plan), expected);
        plan
    }

    #[test]
    fn the_system_s_store() {
        let file = "/usr/local/share/ca-certificates/pilotlight-0a1b2c3d.crt";
        let (write, remove) = (format!("write {file} PEM"), format!("rm {file}"));
        let folder = "mkdir /usr/local/share/ca-certificates";
        let trust = wanted(Direction::Trust, &[Kind::System]);
        check(&trust, &machine(), &[folder, &write, "update-ca-certificates"]);
        let untrust = wanted(Direction::Untrust, &[Kind::System]);
        check(&untrust, &machine(), &[&remove, "update-ca-certificates --fresh"]);
        let p11 = Machine { system: System::P11Kit("trust".into()), ..machine() };
        check(&trust, &p11, &["trust anchor --store /home/ada/data/root.pem"]);
        let user = Machine { is_root: false, ..machine() };
        let refused = check(&trust, &user, &[]).refused;
        assert!(refused[0].contains("sudo pilotlight trust --only system --folder '/home/ada/data'"), "{refused:?}");
        let none = Machine { system: System::Unknown, ..machine() };
        assert_eq!(check(&trust, &none, &[]).refused.len(), 1);
    }

    #[test]
    fn a_bundle_instead_of_the_system_s_store() {
        let bundle = |direction| Wanted { bundle: Some(Path::new("/x/all.pem")), ..wanted(direction, &[Kind::System]) };
        let user = Machine { is_root: false, ..machine() };
        let line = "bundle /x/all.pem /etc/ssl/certs/ca-certificates.crt PEM";
        let plan = check(&bundle(Direction::Trust), &user, &[line]);
        assert!(plan.refused.is_empty() && plan.notes[0].contains("SSL_CERT_FILE"), "{plan:?}");
        check(&bundle(Direction::Untrust), &user, &["rm /x/all.pem"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stores_of_nss() {
        let name = "Pilotlight local authority 0a1b2c3d";
        let (chromium, firefox) = ("sql:/home/ada/.pki/nssdb", "sql:/home/ada/.mozilla/firefox/abc.default");
        let add = |store: &str| format!("certutil -d {store} -A -t C,, -n {name} -i /home/ada/data/root.pem");
        let remove = |store: &str| format!("? certutil -d {store} -D -n {name}");
        let make = format!("certutil -d {chromium} -N --empty-password");
        let trust = wanted(Direction::Trust, &[Kind::Nss]);
        check(
            &trust,
            &machine(),
            &["mkdir /home/ada/.pki/nssdb", &make, &remove(chromium), &add(chromium), &remove(firefox), &add(firefox)],
        );
        check(&wanted(Direction::Untrust, &[Kind::Nss]), &machine(), &[&remove(firefox)]);
        let without = Machine { certutil: None, ..machine() };
        assert!(check(&trust, &without, &[]).refused[0].contains("libnss3-tools"));
    }

    #[test]
    fn stores_of_java() {
        let end = "-storepass changeit -alias pilotlight-0a1b2c3d";
        let delete = format!("? keytool -delete -cacerts {end}");
        let import =
            format!("keytool -importcert -noprompt -trustcacerts -cacerts {end} -file /home/ada/data/root.pem");
        let trust = wanted(Direction::Trust, &[Kind::Java]);
        check(&trust, &machine(), &[&delete, &import]);
        let user = Machine { is_root: false, ..machine() };
        assert!(check(&trust, &user, &[]).notes[0].contains("(as root)"));
        let named = Wanted { keystore: Some(Path::new("/x/store")), ..wanted(Direction::Untrust, &[Kind::Java]) };
        check(&named, &user, &[&format!("? keytool -delete -keystore /x/store {end}")]);
        check(&trust, &Machine { keytool: None, ..machine() }, &[]);
    }
}
