//! A set of files that is complete before any of it takes its place.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::atomic::temporary_name;
use crate::error;
use crate::error::{Error, Result};
use crate::format::fault;
use crate::format::leftovers::claim;

/// A directory beside the final places, on the same file system. It disappears with this value.
pub struct Staging {
    directory: PathBuf,
    keep: bool,
    /// Tells others that it is in use.
    _lock: File,
}

impl Staging {
    /// A new, empty staging directory inside `directory`, which must exist.
    pub fn inside(directory: &Path) -> Result<Staging> {
        let made = temporary_name(|name| {
            let staging = directory.join(name);
            fs::create_dir(&staging)?;
            Ok(claim(&staging)?.map(|lock| (staging, lock)))
        });
        let (staging, lock) = made.map_err(|cause| Error::file("write in", directory, &cause))?;
        Ok(Staging {
            directory: staging,
            keep: false,
            _lock: lock,
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
    /// When one cannot be moved, those that were are taken back: the older set is as it was. Each move is atomic where the
    /// file system can rename onto a file, the whole is not: a process that is killed between two moves leaves the first
    /// files new and the last ones old. Callers put the file that describes the others last.
    pub fn publish(self, places: &[PathBuf]) -> Result<()> {
        Self::refuse_directories(places)?;
        let older = self.directory.join("older");
        fs::create_dir(&older).map_err(|cause| Error::file("make", &older, &cause))?;
        fault::point("before the files of a set take their places");
        for (index, place) in places.iter().enumerate() {
            if let Err(cause) = replace(&self.path(place), place, &kept(&older, place)) {
                for place in places[..index].iter().rev() {
                    take_back(place, &kept(&older, place));
                }
                return Err(error!(
                    Io,
                    "cannot move the finished file to {}: {cause}",
                    place.display()
                )
                .hint("nothing was changed; choose another output"));
            }
            fault::point("between two files of a set");
        }
        match places.first() {
            Some(place) => super::atomic::sync_directory(place),
            None => Ok(()),
        }
    }
}

fn kept(older: &Path, place: &Path) -> PathBuf {
    older.join(place.file_name().unwrap_or_default())
}

/// Moves `new` to `place`; what was there stays as `old`. After an error `place` is as it was.
fn replace(new: &Path, place: &Path, old: &Path) -> io::Result<()> {
    // With a second name the older file is never absent; not every file system has those.
    let had = fs::hard_link(place, old).or_else(|_| fs::rename(place, old));
    let moved = fs::rename(new, place);
    if moved.is_ok() || had.is_err() {
        return moved;
    }
    // Some shared storage cannot rename onto a file that is there.
    let _ = fs::remove_file(place);
    let moved = fs::rename(new, place);
    if moved.is_err() {
        take_back(place, old);
    }
    moved
}

/// Puts `old`, or nothing where nothing was, back to `place`.
fn take_back(place: &Path, old: &Path) {
    // Nothing more can be done about a failure, and the error that brought us here matters more.
    let _ = match fs::symlink_metadata(old) {
        Ok(_) => fs::rename(old, place),
        Err(_) => fs::remove_file(place),
    };
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
    fn a_failed_move_takes_the_others_back() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["a", "b", "gone/c"].map(|name| folder.path().join(name));
        fs::write(&places[0], "old").unwrap();
        let staging = Staging::inside(folder.path()).unwrap();
        for place in &places {
            fs::write(staging.path(place), "new").unwrap();
        }
        let error = staging.publish(&places).unwrap_err();
        assert!(error.message.contains("gone/c"), "{error}");
        assert_eq!(fs::read(&places[0]).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn where_nothing_can_be_renamed_onto_a_file_it_is_moved_away_first() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        // Onto a directory no file can be renamed, and it has no second name either.
        fs::create_dir(place("place")).unwrap();
        fs::write(place("new"), "new").unwrap();
        replace(&place("new"), &place("place"), &place("old")).unwrap();
        assert_eq!(names(folder.path()), ["old", "place"]);
        assert_eq!(fs::read(place("place")).unwrap(), b"new");
        // When the new file cannot be moved at all, the older one comes back.
        replace(&place("absent"), &place("place"), &place("older")).unwrap_err();
        assert_eq!(fs::read(place("place")).unwrap(), b"new");
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
