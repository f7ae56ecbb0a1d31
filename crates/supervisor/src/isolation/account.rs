//! Users and groups by name. From `/etc/passwd` and `/etc/group` alone: users of a directory service are given by
//! number.

use rustix::process::{Gid, Uid};
use std::fs;

/// Whom an instance runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    /// The groups that list the user, without `gid`.
    pub(crate) groups: Vec<Gid>,
    pub(crate) home: Option<String>,
    pub(crate) name: Option<String>,
}

/// The account of a user and a group, names or numbers; `None` if neither is given.
pub(crate) fn resolve(user: Option<&str>, group: Option<&str>) -> Result<Option<Account>, String> {
    if user.is_none() && group.is_none() {
        return Ok(None);
    }
    let read = |file: &str| fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"));
    let (passwd, groups) = (read("/etc/passwd")?, read("/etc/group")?);
    account(user, group, &passwd, &groups).map(Some)
}

fn account(user: Option<&str>, group: Option<&str>, passwd: &str, groups: &str) -> Result<Account, String> {
    let entry = user.map(|user| find_user(user, passwd)).transpose()?;
    let gid = group.map(|group| find_group(group, groups)).transpose()?;
    let Some((uid, entry)) = entry else {
        let gid = gid.ok_or("neither user nor group is given")?;
        return Ok(Account { uid: rustix::process::getuid(), gid, groups: Vec::new(), home: None, name: None });
    };
    let Some(entry) = entry else {
        let gid =
            gid.ok_or_else(|| format!("user {} is not in /etc/passwd; give its `group` as well", uid.as_raw()))?;
        return Ok(Account { uid, gid, groups: Vec::new(), home: None, name: None });
    };
    let gid = gid.unwrap_or(entry.gid);
    let mut listed: Vec<Gid> = members(entry.name, groups).filter(|listed| *listed != gid).collect();
    if entry.gid != gid {
        listed.push(entry.gid);
    }
    Ok(Account { uid, gid, groups: listed, home: Some(entry.home.to_owned()), name: Some(entry.name.to_owned()) })
}

struct User<'a> {
    name: &'a str,
    gid: Gid,
    home: &'a str,
}

fn find_user<'a>(user: &str, passwd: &'a str) -> Result<(Uid, Option<User<'a>>), String> {
    let number: Option<u32> = user.parse().ok();
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { continue };
        let (Ok(uid), Ok(gid)) = (uid.parse::<u32>(), gid.parse::<u32>()) else { continue };
        if name == user || number == Some(uid) {
            return Ok((Uid::from_raw(uid), Some(User { name, gid: Gid::from_raw(gid), home })));
        }
    }
    match number {
        Some(uid) if uid != u32::MAX => Ok((Uid::from_raw(uid), None)),
        _ => Err(format!(
            "there is no user `{user}` in /etc/passwd; create it (useradd --system {user}), or give its number"
        )),
    }
}

fn find_group(group: &str, groups: &str) -> Result<Gid, String> {
    if let Some(gid) = group.parse::<u32>().ok().filter(|gid| *gid != u32::MAX) {
        return Ok(Gid::from_raw(gid));
    }
    let found = entries(groups).find(|(name, _, _)| *name == group).map(|(_, gid, _)| gid);
    found.ok_or_else(|| {
        format!("there is no group `{group}` in /etc/group; create it (groupadd --system {group}), or give its number")
    })
}

fn members<'a>(user: &'a str, groups: &'a str) -> impl Iterator<Item = Gid> + 'a {
    entries(groups).filter(move |(_, _, listed)| listed.split(',').any(|member| member == user)).map(|(_, gid, _)| gid)
}

fn entries(groups: &str) -> impl Iterator<Item = (&str, Gid, &str)> {
    groups.lines().filter_map(|line| {
        let mut fields = line.splitn(4, ':');
        let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?.parse().ok()?);
        Some((name, Gid::from_raw(gid), fields.next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken line\nshop:x:990:980::/srv/shop:/usr/sbin/nologin\n";
    const GROUPS: &str = "root:x:0:\nshop:x:980:\nmedia:x:44:other,shop\nadm:x:4:shop,other\n";

    #[track_caller]
    fn check(user: Option<&str>, group: Option<&str>, expected: Result<(u32, u32, &[u32]), &str>) {
        let got = account(user, group, PASSWD, GROUPS);
        let got = got.map(|account| {
            let groups: Vec<u32> = account.groups.iter().map(|gid| gid.as_raw()).collect();
            (account.uid.as_raw(), account.gid.as_raw(), groups)
        });
        match (got, expected) {
            (Ok(got), Ok((uid, gid, groups))) => assert_eq!(got, (uid, gid, groups.to_vec())),
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{got}"),
            (got, expected) => panic!("{got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn names_and_numbers() {
        check(Some("shop"), None, Ok((990, 980, &[44, 4])));
        check(Some("990"), None, Ok((990, 980, &[44, 4])));
        check(Some("shop"), Some("media"), Ok((990, 44, &[4, 980])));
        check(Some("shop"), Some("7"), Ok((990, 7, &[44, 4, 980])));
        check(Some("1234"), Some("7"), Ok((1234, 7, &[])));
        check(Some("1234"), None, Err("give its `group` as well"));
        check(Some("nosuch"), None, Err("useradd --system nosuch"));
        check(Some("shop"), Some("nosuch"), Err("groupadd --system nosuch"));
        check(Some("4294967295"), Some("0"), Err("there is no user"));
    }
}
