//! The checkpoints of one run: a directory of `step-000123/`, of which the newest complete one counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Checkpoint, Contents, write};
use crate::error;
use crate::error::{Error, Result};
use crate::format::safetensors::Tensors;
use crate::format::{Staging, fault};

const PREFIX: &str = "step-";

/// The directory that holds the checkpoints of a run; it need not exist yet.
pub struct Checkpoints {
    directory: PathBuf,
}

impl Checkpoints {
    pub fn new(directory: PathBuf) -> Checkpoints {
        Checkpoints { directory }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the checkpoint of `step` is or would be.
    pub fn at(&self, step: usize) -> PathBuf {
        self.directory.join(format!("{PREFIX}{step:06}"))
    }

    /// Whether `checkpoint` is one of these.
    pub fn hold(&self, checkpoint: &Checkpoint) -> bool {
        let place = |path: &Path| path.canonicalize().ok();
        let parent = place(&checkpoint.directory).and_then(|path| Some(path.parent()?.to_owned()));
        parent.is_some() && parent == place(&self.directory)
    }

    /// The steps of those that have a manifest, in order; whether they are whole is not looked at.
    pub fn steps(&self) -> BTreeSet<usize> {
        let mut steps = self.all();
        steps.retain(|step| Checkpoint::is_at(&self.at(*step)));
        steps
    }

    fn all(&self) -> BTreeSet<usize> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                name.to_str()?.strip_prefix(PREFIX)?.parse().ok()
            })
            .collect()
    }

    /// The newest complete checkpoint; `damaged` is told what is wrong with each newer one.
    pub fn newest(&self, mut damaged: impl FnMut(&Error)) -> Option<Checkpoint> {
        self.all().into_iter().rev().find_map(|step| {
            Checkpoint::read(&self.at(step))
                .inspect_err(|error| damaged(error))
                .ok()
        })
    }

    /// Writes the checkpoint of `contents.progress.step` and then keeps the `keep` newest and that of step `best`.
    ///
    /// It is written beside its place, flushed and renamed, so that it is complete or absent whenever the process ends.
    /// Those of later steps, from before the run went back to an earlier one, are removed. Errors: those of the file
    /// system and of `tensors`; the checkpoints that were there are then left alone.
    pub fn write(
        &self,
        contents: &Contents,
        tensors: &Tensors,
        keep: usize,
        best: Option<usize>,
    ) -> Result<PathBuf> {
        fs::create_dir_all(&self.directory)
            .map_err(|cause| Error::file("make", &self.directory, &cause))?;
        let step = contents.progress.step;
        let place = self.at(step);
        fault::point("before a checkpoint");
        let staging = Staging::inside(&self.directory)?;
        write(staging.directory(), contents, tensors)?;
        // Only a damaged one can have the name, or one that a rewound run computes again.
        self.remove(step)?;
        fault::point("before a checkpoint takes its place");
        staging.become_directory(&place)?;
        fault::point("after a checkpoint took its place");
        for old in surplus(&self.all(), step, keep, best) {
            self.remove(old)?;
            fault::point("after an old checkpoint was removed");
        }
        Ok(place)
    }

    /// Removes all of them.
    pub fn clear(&self) -> Result<()> {
        self.all()
            .into_iter()
            .try_for_each(|step| self.remove(step))
    }

    /// Moves the checkpoint out of the way before its files go, so that it is never half there.
    fn remove(&self, step: usize) -> Result<()> {
        let place = self.at(step);
        if fs::symlink_metadata(&place).is_err() {
            return Ok(());
        }
        let staging = Staging::inside(&self.directory)?;
        fs::rename(&place, staging.path(&place))
            .map_err(|cause| error!(Io, "cannot remove {}: {cause}", place.display()))?;
        fault::point("while an old checkpoint is removed");
        Ok(())
    }
}

/// The steps to remove once `step` has been written.
fn surplus(steps: &BTreeSet<usize>, step: usize, keep: usize, best: Option<usize>) -> Vec<usize> {
    let later = steps.iter().filter(|&&other| other > step);
    let earlier = steps.iter().rev().filter(|&&other| other <= step);
    let old = earlier.skip(keep).filter(|&&other| Some(other) != best);
    later.chain(old).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Progress;

    fn contents(step: usize) -> Contents {
        let progress = Progress {
            step,
            ..Progress::default()
        };
        Contents {
            progress,
            total_steps: 9,
            updates: 1,
            run: [("lr".to_owned(), "0.1".to_owned())].into(),
        }
    }

    fn save(checkpoints: &Checkpoints, step: usize, best: Option<usize>) {
        let values = [step as f32, -0.5, f32::MIN_POSITIVE];
        checkpoints
            .write(
                &contents(step),
                &|each| each("a", &[3].into(), &values),
                2,
                best,
            )
            .unwrap();
    }

    fn desk() -> (tempfile::TempDir, Checkpoints) {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(folder.path().join("checkpoints"));
        (folder, checkpoints)
    }

    fn newest(checkpoints: &Checkpoints) -> (Option<usize>, Vec<String>) {
        let mut damaged = Vec::new();
        let found = checkpoints.newest(|error| damaged.push(error.message.clone()));
        (found.map(|found| found.contents.progress.step), damaged)
    }

    #[test]
    fn what_is_written_comes_back() {
        let (_folder, checkpoints) = desk();
        assert_eq!(newest(&checkpoints), (None, vec![]));
        save(&checkpoints, 7, None);
        let found = checkpoints.newest(|_| ()).unwrap();
        assert_eq!(found.contents, contents(7));
        let values = found.tensors.weight("a").unwrap().to_f32().unwrap();
        assert_eq!(values, [7.0, -0.5, f32::MIN_POSITIVE]);
        assert!(checkpoints.directory().join("step-000007").is_dir());
    }

    #[test]
    fn the_newest_are_kept_and_the_best() {
        let (_folder, checkpoints) = desk();
        for step in [2, 4, 6, 8] {
            save(&checkpoints, step, Some(2));
        }
        assert_eq!(checkpoints.steps(), [2, 6, 8].into());
        // A run that went back to an earlier step has given up the later ones.
        save(&checkpoints, 5, None);
        assert_eq!(checkpoints.steps(), [2, 5].into());
        checkpoints.clear().unwrap();
        assert!(checkpoints.directory().read_dir().unwrap().next().is_none());
    }

    #[test]
    fn a_damaged_or_partial_newest_one_is_passed_over_and_named() {
        let damages: [&dyn Fn(&Path); 5] = [
            &|dir| fs::remove_file(dir.join("manifest.json")).unwrap(),
            &|dir| fs::remove_file(dir.join("state.safetensors")).unwrap(),
            &|dir| {
                let path = dir.join("state.safetensors");
                let mut content = fs::read(&path).unwrap();
                *content.last_mut().unwrap() ^= 1;
                fs::write(path, content).unwrap();
            },
            &|dir| {
                let path = dir.join("state.safetensors");
                let content = fs::read(&path).unwrap();
                fs::write(path, &content[..content.len() - 4]).unwrap();
            },
            &|dir| {
                let path = dir.join("manifest.json");
                let content = fs::read(&path).unwrap();
                fs::write(path, &content[..content.len() / 2]).unwrap();
            },
        ];
        for damage in damages {
            let (_folder, checkpoints) = desk();
            save(&checkpoints, 3, None);
            save(&checkpoints, 4, None);
            damage(&checkpoints.at(4));
            let (step, damaged) = newest(&checkpoints);
            assert_eq!(step, Some(3));
            assert!(
                damaged.len() == 1 && damaged[0].contains("step-000004"),
                "{damaged:?}"
            );
            // It gives way to a whole one of the same step.
            save(&checkpoints, 4, None);
            assert_eq!(newest(&checkpoints), (Some(4), vec![]));
        }
    }

    #[test]
    fn a_checkpoint_of_a_later_version_is_refused_by_its_version() {
        let (_folder, checkpoints) = desk();
        save(&checkpoints, 3, None);
        let path = checkpoints.at(3).join("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        let later = text.replace("\"format_version\": 1", "\"format_version\": 2");
        fs::write(&path, later).unwrap();
        assert!(newest(&checkpoints).1[0].contains("version 2; this version of amv-train reads"));
    }

    #[test]
    fn a_failed_save_leaves_the_older_ones() {
        let (_folder, checkpoints) = desk();
        save(&checkpoints, 3, None);
        let failed = checkpoints.write(
            &contents(4),
            &|_| Err(error!(NonFinite, "not finite")),
            1,
            None,
        );
        assert!(failed.is_err());
        assert_eq!(newest(&checkpoints), (Some(3), vec![]));
        assert_eq!(checkpoints.directory().read_dir().unwrap().count(), 1);
    }
}
