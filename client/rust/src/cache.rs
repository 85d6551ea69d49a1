//! Policies on disk, so that a client that starts while the server is away has the right ones.

use std::{fs, io, io::Read, path::PathBuf};

use panelboard_core::{BreakerName, Policy};
use panelboard_proto::v1;
use prost::Message;

use crate::{dice::Dice, limits::CACHED_BYTES_MAX, wire};

/// A directory with one small file per breaker.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens the directory, and makes it if it is not there.
    pub(crate) fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// What was stored, if it is there and whole. A damaged file is as good as none.
    pub(crate) fn load(&self, name: &BreakerName) -> Option<(Policy, u32)> {
        let file = fs::File::open(self.path(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(CACHED_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() > CACHED_BYTES_MAX {
            return None;
        }
        let status = v1::BreakerStatus::decode(bytes.as_slice()).ok().filter(|s| s.name == name.as_str())?;
        Some((wire::policy(&status)?, status.active_instances.max(1)))
    }

    /// Stores the policy of a status. The file is whole or is the one before.
    pub(crate) fn store(&self, name: &BreakerName, status: &v1::BreakerStatus) -> io::Result<()> {
        let kept = v1::BreakerStatus {
            name: name.as_str().into(),
            active_instances: status.active_instances,
            policy_revision: status.policy_revision,
            policy: status.policy.clone(),
            ..v1::BreakerStatus::default()
        };
        let (path, bytes) = (self.path(name), kept.encode_to_vec());
        if bytes.len() > CACHED_BYTES_MAX {
            return Ok(());
        }
        // Several processes may share the directory: each writes a file of its own, the last one stands.
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&draft, bytes)?;
        fs::rename(&draft, &path)
    }

    /// A name holds slashes and dots; its file's name holds neither, and tells capitals apart on any disk.
    fn path(&self, name: &BreakerName) -> PathBuf {
        let mut file = String::new();
        for c in name.as_str().chars() {
            match c {
                'a'..='z' | '0'..='9' | '-' => file.push(c),
                'A'..='Z' => file.extend(['_', c.to_ascii_lowercase()]),
                '/' => file.push('+'),
                '.' => file.push('='),
                _ => file.push_str("__"),
            }
        }
        // Most disks take 255 bytes. The file says whose it is, so that a clash costs a policy and no more.
        if file.len() > 200 {
            let hash = Dice::named(0, name.as_str()).next();
            file = format!("{}{hash:016x}", &file[..100]);
        }
        self.dir.join(format!("{file}.policy"))
    }
}

#[cfg(test)]
mod tests {
    use panelboard_core::PolicySpec;
    use panelboard_proto::convert::policy_to_wire;

    use super::*;

    fn status(spec: PolicySpec) -> v1::BreakerStatus {
        let policy = Policy::try_new(spec, 7).unwrap();
        v1::BreakerStatus {
            active_instances: 12,
            policy: Some(policy_to_wire(&policy)),
            ..v1::BreakerStatus::default()
        }
    }

    #[test]
    fn what_was_stored_comes_back_under_its_own_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().join("deep/cache")).unwrap();
        let names = ["a/b", "a.b", "a_b", "A/b", "a-b"].map(|name| BreakerName::parse(name).unwrap());
        cache
            .store(&names[0], &status(PolicySpec { owner: "team".into(), ..PolicySpec::default() }))
            .unwrap();
        let (policy, active) = cache.load(&names[0]).unwrap();
        assert_eq!((policy.spec().owner.as_str(), policy.revision(), active), ("team", 7, 12));
        assert!(names[1..].iter().all(|name| cache.load(name).is_none()));
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().to_owned()).unwrap();
        let name = BreakerName::parse("a").unwrap();
        for bytes in [vec![], vec![0xff; 100], vec![0; CACHED_BYTES_MAX + 1]] {
            fs::write(cache.path(&name), bytes).unwrap();
            assert!(cache.load(&name).is_none());
        }
    }
}
