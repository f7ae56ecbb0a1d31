//! The arguments of a program: `WORKLOAD key=value…`.
use crate::Workload;
use std::collections::HashMap;
use std::process;
use std::str::FromStr;
use std::time::Duration;

/// What to do, for how long, and where. Keys that this does not know are the program's own: see [`Options::tuning`].
#[derive(Clone)]
pub struct Options {
    pub workload: Workload,
    pub measured: Duration,
    pub warm_up: Duration,
    /// The ports of the cluster's nodes on 127.0.0.1.
    pub ports: Vec<u16>,
    tuning: HashMap<String, String>,
}

impl Options {
    /// Reads the arguments of this process; ends it with status 2 if they make no sense.
    pub fn parse() -> Self {
        Self::from_words(std::env::args().skip(1)).unwrap_or_else(|problem| {
            eprintln!("{problem}\nusage: WORKLOAD ports=P,P… [secs=S] [warm=S] [key=value…]");
            process::exit(2);
        })
    }

    fn from_words(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let workload = Workload::named(&words.next().ok_or("no workload")?)?;
        let mut tuning = HashMap::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("not key=value: {word}"))?;
            tuning.insert(key.to_owned(), value.to_owned());
        }
        let ports = tuning.remove("ports").ok_or("no ports")?;
        let ports = ports.split(',').map(|port| number("ports", port)).collect::<Result<_, _>>()?;
        let mut seconds = |key: &str| match tuning.remove(key) {
            Some(text) => number(key, &text).map(Duration::from_secs_f64),
            None => Ok(Duration::from_secs(1)),
        };
        Ok(Self { workload, measured: seconds("secs")?, warm_up: seconds("warm")?, ports, tuning })
    }

    /// A setting of one client, such as `wave=128`.
    pub fn tuning(&self, key: &str) -> Option<&str> {
        self.tuning.get(key).map(String::as_str)
    }

    /// A setting that is a number.
    pub fn tuned_number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.tuning(key).map(|text| number(key, text).unwrap_or_else(|problem| panic!("{problem}")))
    }

    /// `host:port` of each node.
    pub fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }
}

fn number<T: FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{key}: not a number: {text}"))
}
