//! Appends dead letters to a file as JSON lines.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::outputs::{DeadLetter, OutputError};

/// The file `dead_letters.file`, open for appending.
pub(super) struct DeadLetterFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Whether anything was appended since the last sync.
    dirty: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    reason: &'a str,
    detail: &'a str,
    /// Bytes of the whole payload; the line may have only its beginning.
    size: usize,
    /// In Base64.
    key: Option<String>,
    /// In Base64, cut to `dead_letters.max_bytes`.
    payload: String,
}

impl DeadLetterFile {
    pub(super) fn open(path: &Path) -> Result<Self, OutputError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|problem| failed(path, problem))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            dirty: false,
        })
    }

    pub(super) fn append(
        &mut self,
        topic: &str,
        letter: &DeadLetter<'_>,
        kept: &[u8],
    ) -> Result<(), OutputError> {
        let line = Line {
            topic,
            partition: letter.partition,
            offset: letter.offset,
            reason: letter.reason,
            detail: letter.detail,
            size: letter.size,
            key: letter.key.map(|key| STANDARD.encode(key)),
            payload: STANDARD.encode(kept),
        };
        self.dirty = true;
        serde_json::to_writer(&mut self.file, &line)
            .map_err(io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(|problem| failed(&self.path, problem))
    }

    pub(super) fn sync(&mut self) -> Result<(), OutputError> {
        if !self.dirty {
            return Ok(());
        }
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_data())
            .map_err(|problem| failed(&self.path, problem))?;
        self.dirty = false;
        Ok(())
    }
}

fn failed(path: &Path, problem: io::Error) -> OutputError {
    OutputError::File {
        path: path.display().to_string(),
        problem,
    }
}
