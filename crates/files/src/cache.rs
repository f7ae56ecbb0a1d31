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
use crate::entity::Entity;
use crate::options::FilesOptions;

/// How long what was opened counts without another look.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most files that are kept, of all folders together; each with at most three other forms.
const MAX_FILES: usize = 512;
/// Most bytes of small files that are kept.
const MAX_BYTES: usize = 16 << 20;
/// Folders up to which those that no route has any more are not looked for.
const MAX_FOLDERS: usize = 16;

/// A file in all its forms.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) as_it_is: Entity,
    pub(crate) forms: Vec<(Coding, Entity)>,
}

impl Resource {
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
            self.folders.push(Folder { options: Arc::clone(options), root: None, files: FxHashMap::default() });
            self.folders.len() - 1
        });
        &mut self.folders[at]
    }

    /// Makes room within the bounds.
    pub(crate) fn trim(&mut self) {
        let count = |folders: &[Folder]| folders.iter().map(|folder| folder.files.len()).sum::<usize>();
        let weight = |folders: &[Folder]| {
            folders.iter().flat_map(|folder| folder.files.values()).map(|kept| kept.resource.weight()).sum::<usize>()
        };
        while count(&self.folders) > MAX_FILES || weight(&self.folders) > MAX_BYTES {
            let all = self
                .folders
                .iter()
                .enumerate()
                .flat_map(|(at, folder)| folder.files.iter().map(move |(name, kept)| (kept.used, at, name)));
            let Some((_, at, name)) = all.min_by_key(|(used, ..)| *used) else { return };
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
        let root = Rc::new(Root::open(Path::new(&self.options.root))?);
        self.root = Some((Rc::clone(&root), now));
        Ok(root)
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
                let grown = kept.resource.weight() > before.resource.weight();
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
