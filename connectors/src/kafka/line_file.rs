//! A file of JSON lines: dead letters, or parked messages.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// A file that whole lines are appended to.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    /// The file may not grow beyond this.
    max_bytes: u64,
    /// Whether anything was appended since the last sync.
    dirty: Option<File>,
}

impl LineFile {
    pub(super) fn new(path: &Path, max_bytes: u64) -> Self {
        Self {
            path: path.to_owned(),
            max_bytes,
            dirty: None,
        }
    }

    /// Creates the file if there is none, to tell early whether it can be written.
    pub(super) fn create(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line. The file is opened each time: somebody may have moved it away to make room.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut file = self.open()?;
        let before = file.metadata()?.len();
        let after = before + line.len() as u64 + 1;
        if after > self.max_bytes {
            let problem = format!(
                "it would have {after} bytes, more than the {} allowed; move it away, or allow more",
                self.max_bytes
            );
            return Err(io::Error::other(problem));
        }
        let mut whole = Vec::with_capacity(line.len() + 2);
        if self.dirty.is_none() && is_torn(&mut file, before)? {
            whole.push(b'\n');
        }
        whole.extend_from_slice(line);
        whole.push(b'\n');
        if let Err(problem) = file.write_all(&whole) {
            // Half a line would spoil the next one. If this fails too, a reader has to skip the line.
            let _ = file.set_len(before);
            return Err(problem);
        }
        self.dirty = Some(file);
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &self.dirty {
            file.sync_data()?;
            self.dirty = None;
        }
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&self.path)
    }
}

/// Whether the last line has no end, because a crash has cut it off. The next line must not become part of it.
fn is_torn(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_crash_cut_off_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parked.jsonl");
        std::fs::write(&path, "whole\nhal").unwrap();
        let mut file = LineFile::new(&path, u64::MAX);
        file.append(b"next").unwrap();
        file.append(b"last").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "whole\nhal\nnext\nlast\n");
    }

    #[test]
    fn a_file_takes_no_line_beyond_its_bound_until_it_is_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parked.jsonl");
        let mut file = LineFile::new(&path, 12);
        file.append(b"hello").unwrap();
        file.append(b"world").unwrap();
        let refused = file.append(b"!").unwrap_err().to_string();
        assert!(refused.contains("14 bytes, more than the 12"), "{refused}");
        file.sync().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello\nworld\n");
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        file.append(b"!").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "!\n");
    }
}
