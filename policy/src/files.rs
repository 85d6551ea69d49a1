//! The policy files as bytes: one file, or the YAML files of a directory in the order of their names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::Digest;
use crate::limits::{FILES_MAX, Limit, Limits, TOTAL_BYTES_MAX};

/// One file, or what is in the way of reading it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: Arc<Path>,
    pub(crate) bytes: Result<Vec<u8>, String>,
}

/// All files as they were at one time.
#[derive(Debug)]
pub struct Sources {
    pub(crate) files: Vec<Source>,
    pub(crate) digest: Digest,
}

impl Sources {
    /// Looks at the path, which may have become a directory, a file or nothing since the last time.
    pub fn read(path: &Path, limits: &Limits) -> Self {
        let files = match fs::metadata(path) {
            Err(error) => {
                vec![refused(
                    path,
                    format!("cannot be read: {error}: give a YAML file or a directory of them"),
                )]
            }
            Ok(meta) if meta.is_dir() => match names(path) {
                Ok(names) => all(&names, limits),
                Err(reason) => vec![refused(path, reason)],
            },
            Ok(_) => vec![Source { path: path.into(), bytes: bytes(path, limits.file_bytes) }],
        };
        Self::of(files)
    }

    /// One file that is not on the disk; messages call it by this path.
    pub fn of_text(path: &Path, text: &str) -> Self {
        Self::of(vec![Source { path: path.into(), bytes: Ok(text.into()) }])
    }

    /// What tells whether anything in them has changed, what cannot be read included.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    fn of(files: Vec<Source>) -> Self {
        let digest = files.iter().fold(Digest::EMPTY, |digest, file| {
            let digest = digest.with(file.path.as_os_str().as_encoded_bytes());
            match &file.bytes {
                Ok(bytes) => digest.with(&[1]).with(bytes),
                Err(reason) => digest.with(&[0]).with(reason.as_bytes()),
            }
        });
        Self { files, digest }
    }
}

fn refused(path: &Path, reason: String) -> Source {
    Source { path: path.into(), bytes: Err(reason) }
}

/// The YAML files of a directory. Hidden ones are left out: editors keep their copies there, and a mounted ConfigMap its
/// `..data` and the directories behind it. Directories within are not looked into.
fn names(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("the directory cannot be read: {error}: let this process list it");
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let path = dir.join(&name);
        let yaml = matches!(path.extension().and_then(OsStr::to_str), Some("yaml" | "yml"));
        if yaml && !name.as_encoded_bytes().starts_with(b".") && !path.is_dir() {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(format!("the directory holds more than {FILES_MAX} YAML files: put them together"));
        }
    }
    if found.is_empty() {
        return Err("the directory holds no *.yaml and no *.yml file: add one".into());
    }
    found.sort();
    Ok(found)
}

fn all(paths: &[PathBuf], limits: &Limits) -> Vec<Source> {
    let mut left = TOTAL_BYTES_MAX;
    let mut files = Vec::new();
    for path in paths {
        let bytes = bytes(path, limits.file_bytes);
        let length = bytes.as_ref().map_or(0, Vec::len);
        if length > left {
            files.push(refused(
                path,
                format!("with it the files hold more than {TOTAL_BYTES_MAX} bytes: remove some"),
            ));
            break;
        }
        left -= length;
        files.push(Source { path: path.as_path().into(), bytes });
    }
    files
}

fn bytes(path: &Path, limit: Limit) -> Result<Vec<u8>, String> {
    let unreadable = |error| format!("cannot be read: {error}: let this process read it");
    // A pipe would be waited for without end, so the kind is looked at before the file is opened.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is no regular file: give a YAML file or a directory of them".into());
    }
    let (most, mut bytes) = (limit.most, Vec::new());
    // One byte more than allowed tells a file that is too large from one that just fits.
    let length = File::open(path)
        .and_then(|file| file.take((most as u64).saturating_add(1)).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if length > most {
        return Err(format!("is larger than {most} bytes: {}", limit.remedy("split it")));
    }
    Ok(bytes)
}
