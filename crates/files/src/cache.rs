//! What one worker has open: a hot file costs no system call but for a look at it once a second.
//!
//! Bounded in files and in bytes; what was not used for longest goes first. Only what is there is kept, so that nobody
//! fills it with names of his own.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_content_coding::Coding;
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::beneath::Root;
use crate::entity::{Content, Entity};
use crate::options::FilesOptions;

/// How long what was opened counts without another look.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most files that are kept, of all folders together; each with at most three other forms.
const MAX_FILES: usize = 512;
/// Most bytes of small files that are kept.
const MAX_BYTES: usize = 16 << 20;
/// Most files that are kept open, of all folders together: those that are too large to be kept in memory.
const MAX_OPEN: usize = 64;
/// How long a file is kept that nobody asks for: one that was removed takes room on the disk while it is open.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Folders up to which those that no route has any more are not looked for.
const MAX_FOLDERS: usize = 16;

/// A file in all its forms.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) as_it_is: Entity,
    pub(crate) forms: Vec<(Coding, Entity)>,
}

impl Resource {
    /// How many files of it are open.
    fn open(&self) -> usize {
        let forms = self.forms.iter().map(|(_, form)| form);
        forms.chain([&self.as_it_is]).filter(|form| matches!(form.content, Content::Large(_))).count()
    }

    fn weight(&self) -> usize {
        self.as_it_is.weight() + self.forms.iter().map(|(_, form)| form.weight()).sum::<usize>()
    }
}

#[derive(Debug)]
struct Kept {
    resource: Rc<Resource>,
    looked: Instant,
    used: Instant,
}

/// What one worker has open of all folders.
#[derive(Default)]
pub struct FileCache {
    folders: Vec<Folder>,
}

/// What is open of one folder.
pub(crate) struct Folder {
    pub(crate) options: Arc<FilesOptions>,
    root: Option<(Rc<Root>, Instant)>,
    /// Its path without symbolic links, as of that look.
    real_root: Option<(Arc<Path>, Instant)>,
    files: FxHashMap<Box<str>, Kept>,
}

impl FileCache {
    /// What is open of a folder.
    pub(crate) fn folder(&mut self, options: &Arc<FilesOptions>) -> &mut Folder {
        let at = self.folders.iter().position(|folder| Arc::ptr_eq(&folder.options, options));
        let at = at.unwrap_or_else(|| {
            if self.folders.len() >= MAX_FOLDERS {
                // Those of routes that are gone: a reload makes all of them anew.
                self.folders.retain(|folder| Arc::strong_count(&folder.options) > 1);
            }
            self.folders.push(Folder {
                options: Arc::clone(options),
                root: None,
                real_root: None,
                files: FxHashMap::default(),
            });
            self.folders.len() - 1
        });
        &mut self.folders[at]
    }

    /// Lets go of what nobody has asked for lately, and of folders that no route has any more.
    pub fn forget_idle(&mut self, now: Instant) {
        self.folders.retain_mut(|folder| {
            folder.files.retain(|_, kept| now.saturating_duration_since(kept.used) < MAX_IDLE);
            folder.root.take_if(|(_, looked)| now.saturating_duration_since(*looked) >= MAX_IDLE);
            Arc::strong_count(&folder.options) > 1
        });
    }

    /// Makes room within the bounds: what was not used for longest goes, of those that are open if they are too many.
    pub(crate) fn trim(&mut self) {
        loop {
            let all = || self.folders.iter().flat_map(|folder| folder.files.values());
            let has_too_many_open = all().map(|kept| kept.resource.open()).sum::<usize>() > MAX_OPEN;
            let is_full =
                all().count() > MAX_FILES || all().map(|kept| kept.resource.weight()).sum::<usize>() > MAX_BYTES;
            if !has_too_many_open && !is_full {
                return;
            }
            let named = self
                .folders
                .iter()
                .enumerate()
                .flat_map(|(at, folder)| folder.files.iter().map(move |(name, kept)| (at, name, kept)));
            let named = named.filter(|(.., kept)| !has_too_many_open || kept.resource.open() > 0);
            let Some((at, name, _)) = named.min_by_key(|(.., kept)| kept.used) else { return };
            let name = name.clone();
            self.folders[at].files.remove(&name);
        }
    }
}

impl Folder {
    /// The folder itself, opened anew once a second: it may have been replaced.
    pub(crate) fn root(&mut self, now: Instant) -> Result<Rc<Root>, Errno> {
        if let Some((root, looked)) = &self.root
            && now.saturating_duration_since(*looked) < LOOK_EVERY
        {
            return Ok(Rc::clone(root));
        }
        let root = Rc::new(Root::open(Path::new(&self.options.root), &self.options.links)?);
        self.root = Some((Rc::clone(&root), now));
        Ok(root)
    }

    /// Its path without symbolic links, looked up anew once a second.
    pub(crate) fn real_root(&mut self, now: Instant) -> Result<Arc<Path>, Errno> {
        if let Some((root, looked)) = &self.real_root
            && now.saturating_duration_since(*looked) < LOOK_EVERY
        {
            return Ok(Arc::clone(root));
        }
        let real = std::fs::canonicalize(&self.options.root);
        let real: Arc<Path> = real.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?.into();
        self.real_root = Some((Arc::clone(&real), now));
        Ok(real)
    }

    /// What is kept of a file, if it was looked at within the last second.
    pub(crate) fn fresh(&mut self, names: &str, now: Instant) -> Option<Rc<Resource>> {
        let kept = self.files.get_mut(names)?;
        kept.used = now;
        let is_fresh = now.saturating_duration_since(kept.looked) < LOOK_EVERY;
        is_fresh.then(|| Rc::clone(&kept.resource))
    }

    /// What is kept of a file, however old.
    pub(crate) fn known(&self, names: &str) -> Option<Rc<Resource>> {
        self.files.get(names).map(|kept| Rc::clone(&kept.resource))
    }

    /// Keeps a file; whether there is one more than before.
    pub(crate) fn keep(&mut self, names: &str, resource: &Rc<Resource>, now: Instant) -> Growth {
        let kept = Kept { resource: Rc::clone(resource), looked: now, used: now };
        match self.files.get_mut(names) {
            Some(before) => {
                let (new, old) = (&kept.resource, &before.resource);
                let grown = new.weight() > old.weight() || new.open() > old.open();
                *before = kept;
                if grown { Growth::Grown } else { Growth::Same }
            }
            None => {
                self.files.insert(names.into(), kept);
                Growth::Grown
            }
        }
    }

    /// Nothing is there any more.
    pub(crate) fn forget(&mut self, names: &str) {
        self.files.remove(names);
    }
}

/// Whether more is kept than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    Same,
    Grown,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http::{HeaderName, Method};

    use super::*;
    use crate::{Answer, Body, Request, RequestFields};

    struct NoFields;

    impl RequestFields for NoFields {
        fn each(&self, _: &HeaderName, _: &mut dyn FnMut(&[u8])) {}
    }

    fn get(cache: &mut FileCache, options: &Arc<FilesOptions>, path: &str, at: Instant) -> Answer {
        let (method, now) = (&Method::GET, std::time::SystemTime::now());
        let request = Request { method, below: path, path, query: None, fields: &NoFields, compress: None, now, at };
        cache.answer(options, &request).unwrap()
    }

    fn kept(cache: &FileCache) -> (usize, usize) {
        let all = || cache.folders.iter().flat_map(|folder| folder.files.values());
        (all().count(), all().map(|kept| kept.resource.open()).sum())
    }

    #[test]
    fn what_is_kept_is_bounded_and_forgotten() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..MAX_OPEN + 10 {
            fs::write(root.path().join(format!("large{number}")), vec![0; 65 << 10]).unwrap();
        }
        for number in 0..MAX_FILES + 10 {
            fs::write(root.path().join(format!("small{number}")), "small").unwrap();
        }
        let options = Arc::new(FilesOptions::new(root.path()));
        let (mut cache, begun) = (FileCache::default(), Instant::now());
        let behind = |at: Instant, number: usize| at + Duration::from_nanos(number as u64);
        for number in 0..MAX_OPEN + 10 {
            let answer = get(&mut cache, &options, &format!("/large{number}"), behind(begun, number));
            assert!(matches!(answer.body, Body::Segments(_)));
        }
        assert_eq!(kept(&cache), (MAX_OPEN, MAX_OPEN));
        let later = begun + Duration::from_millis(1);
        for number in 0..MAX_FILES + 10 {
            get(&mut cache, &options, &format!("/small{number}"), behind(later, number));
        }
        assert_eq!(kept(&cache), (MAX_FILES, 0), "those that were used last");
        cache.forget_idle(later + MAX_IDLE / 2);
        assert_eq!(kept(&cache).0, MAX_FILES);
        cache.forget_idle(later + MAX_IDLE * 2);
        assert_eq!((kept(&cache).0, cache.folders.len()), (0, 1));
        drop(options);
        cache.forget_idle(later);
        assert_eq!(cache.folders.len(), 0);
    }

    #[test]
    fn within_a_second_nothing_is_looked_at() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "one").unwrap();
        let options = Arc::new(FilesOptions::new(root.path()));
        let (mut cache, begun) = (FileCache::default(), Instant::now());
        let mut check = |at: Instant, expected: &str| {
            let Body::Here(bytes) = get(&mut cache, &options, "/a", at).body else { panic!("it is small") };
            assert_eq!(bytes, expected.as_bytes());
        };
        check(begun, "one");
        fs::write(root.path().join("a"), "two!").unwrap();
        check(begun + LOOK_EVERY / 2, "one");
        check(begun + LOOK_EVERY, "two!");
    }
}
