//! Whether the addresses of the file can be listened on, and by whom they are taken.

use super::finding::{Area, Finding};
use crate::config::{Config, listener_findings};
use crate::port_owner::{Owner, owner};

/// Looks at each address. `pid`: the gateway of this file, which has them by right.
pub(super) fn look(config: &Config, pid: Option<u64>) -> Vec<Finding> {
    let found = listener_findings(config);
    found.into_iter().map(|one| verdict(&one.shown, one.wrong, owner(&one.address), pid)).collect()
}

/// `wrong`: what is wrong with the address, and what to do.
fn verdict(shown: &str, wrong: Option<(String, String)>, owner: Option<Owner>, own: Option<u64>) -> Finding {
    let Some((fact, remedy)) = wrong else {
        return Area::Listeners.ok(format!("{shown} is free"));
    };
    match owner {
        Some(owner) if Some(owner.pid) == own => {
            Area::Listeners.ok(format!("{shown} is taken by the gateway itself (pid {})", owner.pid))
        }
        Some(Owner { pid, name }) => {
            let remedy = format!("stop it (`kill {pid}`), or choose another port in `listen`");
            Area::Listeners.problem(format!("{shown} is taken by {name} (pid {pid})"), remedy)
        }
        None if own.is_some() && fact.contains("in use") => {
            Area::Listeners.ok(format!("{shown} is taken, as it should be while the gateway runs"))
        }
        None => Area::Listeners.problem(fact, remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_taken_port_names_who_has_it() {
        let wrong = || Some(("x is in use by another program".to_owned(), "choose".to_owned()));
        let owner = || Some(Owner { pid: 7, name: "python3".to_owned() });
        assert_eq!(verdict("x", None, None, None), Area::Listeners.ok("x is free"));
        let taken = verdict("x", wrong(), owner(), None);
        assert_eq!((taken.level, taken.fact.as_str()), (Level::Problem, "x is taken by python3 (pid 7)"));
        assert_eq!(verdict("x", wrong(), owner(), Some(7)).level, Level::Ok);
        assert_eq!(verdict("x", wrong(), owner(), Some(8)).level, Level::Problem);
        assert_eq!(verdict("x", wrong(), None, Some(8)).level, Level::Ok);
        assert_eq!(
            verdict("x", wrong(), None, None),
            Area::Listeners.problem("x is in use by another program", "choose")
        );
    }
}
