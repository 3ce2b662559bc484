//! A set of files that is complete before any of it takes its place.

use std::fs;
use std::path::{Path, PathBuf};

use super::atomic::temporary_name;
use crate::error;
use crate::error::{Error, Result};

/// A directory beside the final places, on the same file system. It disappears with this value unless files are left in it.
pub struct Staging {
    directory: PathBuf,
    keep: bool,
}

impl Staging {
    /// A new, empty staging directory inside `directory`, which must exist.
    pub fn inside(directory: &Path) -> Result<Staging> {
        let made = temporary_name(|name| {
            let staging = directory.join(name);
            fs::create_dir(&staging).map(|()| staging)
        });
        let staging = made.map_err(|cause| Error::file("write in", directory, &cause))?;
        Ok(Staging {
            directory: staging,
            keep: false,
        })
    }

    /// Refuses places where no file can go because a directory is there.
    pub fn refuse_directories(places: &[PathBuf]) -> Result<()> {
        match places.iter().find(|place| place.is_dir()) {
            Some(taken) => Err(error!(
                Io,
                "cannot write {}: a directory has that name",
                taken.display()
            )
            .hint("choose another output or move the directory away")),
            None => Ok(()),
        }
    }

    /// The staging directory itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the staging directory, with all that is in it, the one at `place`, where nothing must be.
    pub fn become_directory(mut self, place: &Path) -> Result<()> {
        super::atomic::sync_directory(&self.directory.join("any"))?;
        fs::rename(&self.directory, place).map_err(|cause| {
            error!(
                Io,
                "cannot move the finished directory to {}: {cause}",
                place.display()
            )
        })?;
        self.keep = true;
        super::atomic::sync_directory(place)
    }

    /// Where to write the file that will end up at `place`.
    pub fn path(&self, place: &Path) -> PathBuf {
        self.directory.join(place.file_name().unwrap_or_default())
    }

    /// Moves the files for all `places` there, one after the other, replacing what is there.
    ///
    /// Each rename is atomic, the whole is not: a reader may see the first files new and the last ones old. Callers put
    /// the file that describes the others last. When a rename fails, the finished files that have not moved stay in the
    /// staging directory, and the error says where: nothing that was computed is lost.
    pub fn publish(mut self, places: &[PathBuf]) -> Result<()> {
        Self::refuse_directories(places)?;
        for place in places {
            if let Err(cause) = fs::rename(self.path(place), place) {
                self.keep = true;
                return Err(error!(
                    Io,
                    "cannot move the finished file to {}: {cause}",
                    place.display()
                )
                .hint(format!(
                    "the finished files are in {}; move them by hand",
                    self.directory.display()
                )));
            }
        }
        match places.first() {
            Some(place) => super::atomic::sync_directory(place),
            None => Ok(()),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing can be done about a failure, and an error that brought us here matters more.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_set_replaces_an_older_one_and_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["a", "b"].map(|name| folder.path().join(name));
        fs::write(&places[0], "old").unwrap();
        let staging = Staging::inside(folder.path()).unwrap();
        for place in &places {
            fs::write(staging.path(place), "new").unwrap();
        }
        assert_eq!(fs::read(&places[0]).unwrap(), b"old");
        staging.publish(&places).unwrap();
        assert_eq!(fs::read(&places[0]).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a", "b"]);
    }

    #[test]
    fn what_a_killed_process_of_the_same_id_left_is_in_nobody_s_way() {
        let folder = tempfile::tempdir().unwrap();
        // In a container every run may have the same process id.
        for count in 0..200 {
            let left = format!(".amv-{}-{count}.tmp", std::process::id());
            fs::create_dir(folder.path().join(left)).unwrap();
        }
        let place = folder.path().join("a");
        let staging = Staging::inside(folder.path()).unwrap();
        fs::write(staging.path(&place), "new").unwrap();
        staging.publish(std::slice::from_ref(&place)).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"new");
    }

    #[test]
    fn a_set_given_up_leaves_the_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        fs::write(&place, "old").unwrap();
        let staging = Staging::inside(folder.path()).unwrap();
        fs::write(staging.path(&place), "half").unwrap();
        drop(staging);
        assert_eq!(fs::read(&place).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_failed_move_names_where_the_finished_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["a", "gone/b"].map(|name| folder.path().join(name));
        let staging = Staging::inside(folder.path()).unwrap();
        for place in &places {
            fs::write(staging.path(place), "new").unwrap();
        }
        let kept = staging.path(&places[1]);
        let error = staging.publish(&places).unwrap_err();
        let hint = error.hint.unwrap();
        assert!(hint.contains(&*kept.parent().unwrap().to_string_lossy()));
        assert_eq!(fs::read(kept).unwrap(), b"new");
    }

    #[test]
    fn a_place_taken_by_a_directory_is_found_before_anything_moves() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["a", "b"].map(|name| folder.path().join(name));
        fs::create_dir(&places[1]).unwrap();
        let staging = Staging::inside(folder.path()).unwrap();
        for place in &places {
            fs::write(staging.path(place), "new").unwrap();
        }
        staging.publish(&places).unwrap_err();
        assert_eq!(names(folder.path()), ["b"]);
    }
}
