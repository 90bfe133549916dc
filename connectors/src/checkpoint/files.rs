//! Writes and reads the files of one checkpoint.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use ostar_bundle::{DESCRIPTION_FILE, SMALL_FILE, TENSOR_FILE, read_file};

use super::{Checkpoint, Manifest, StoreError, digest, failed, read_manifest};

/// Prefix of a checkpoint's folder; its sequence number follows, padded so that names sort.
pub(super) const PREFIX: &str = "checkpoint-";
/// Prefix of the folder while it is being written.
pub(super) const TEMPORARY_PREFIX: &str = "temporary-";

const MANIFEST: &str = "manifest.json";
const MANIFEST_DIGEST: &str = "manifest.digest";
const STATE: &str = "state.safetensors";
/// Most bytes of a state: the weights several times, with what the optimiser knows of each, and the rows of the window.
const MOST_STATE: u64 = 4 * TENSOR_FILE;

/// Writes a checkpoint to a temporary folder, syncs and renames it: a folder with the final name is complete.
pub(super) fn write(
    folder: &Path,
    sequence: u64,
    manifest: &Manifest,
    state: &[u8],
) -> Result<PathBuf, StoreError> {
    let manifest = manifest.clone().sealed(state).to_bytes();
    let temporary = folder.join(format!("{TEMPORARY_PREFIX}{sequence:08}"));
    let path = folder.join(format!("{PREFIX}{sequence:08}"));
    let written = || -> io::Result<()> {
        if temporary.exists() {
            // Left by a write that failed, for example on a full disk.
            fs::remove_dir_all(&temporary)?;
        }
        fs::create_dir(&temporary)?;
        write_synced(&temporary.join(STATE), state)?;
        write_synced(&temporary.join(MANIFEST), &manifest)?;
        let manifest_digest = digest(&manifest) + "\n";
        write_synced(&temporary.join(MANIFEST_DIGEST), manifest_digest.as_bytes())?;
        sync_folder(&temporary)?;
        fs::rename(&temporary, &path)?;
        sync_folder(folder)
    };
    written().map_err(|source| failed("write", &path, source))?;
    Ok(path)
}

/// Replaces a small file durably: a reader sees the old or the new content.
pub(super) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = folder.join(format!("{name}.new"));
    if temporary.exists() {
        fs::remove_file(&temporary)?;
    }
    write_synced(&temporary, bytes)?;
    fs::rename(&temporary, folder.join(name))?;
    sync_folder(folder)
}

/// Reads a checkpoint and compares the digests.
pub(super) fn read(path: &Path) -> Result<Checkpoint, StoreError> {
    let manifest = manifest(path)?;
    let state = content(path, STATE, MOST_STATE)?;
    check(path, STATE, &state, &manifest.state.digest)?;
    let (length, expected) = (state.len(), manifest.state.length);
    if length != expected {
        let problem = format!("{STATE} has {length} bytes, expected {expected}");
        return Err(corrupt(path, problem));
    }
    Ok(Checkpoint {
        manifest,
        state,
        path: path.into(),
    })
}

/// Reads a checkpoint's manifest and compares its digest.
pub(super) fn manifest(path: &Path) -> Result<Manifest, StoreError> {
    let bytes = content(path, MANIFEST, DESCRIPTION_FILE)?;
    let expected = content(path, MANIFEST_DIGEST, SMALL_FILE)?;
    let expected = String::from_utf8_lossy(&expected);
    check(path, MANIFEST, &bytes, expected.trim_end())?;
    // The bytes have the digest that was written with them: what cannot be read is not damage.
    read_manifest(&bytes).map_err(|problem| StoreError::Foreign {
        path: path.into(),
        problem,
    })
}

fn content(path: &Path, name: &str, most: u64) -> Result<Vec<u8>, StoreError> {
    let file = path.join(name);
    read_file(&file, most).map_err(|problem| match problem.kind() {
        io::ErrorKind::NotFound => corrupt(path, format!("{name} is missing")),
        _ => StoreError::Unreadable {
            path: file,
            problem,
        },
    })
}

fn check(path: &Path, name: &str, bytes: &[u8], expected: &str) -> Result<(), StoreError> {
    let found = digest(bytes);
    if found != expected {
        let problem = format!("{name} has digest {found}, expected {expected}");
        return Err(corrupt(path, problem));
    }
    Ok(())
}

fn corrupt(path: &Path, problem: String) -> StoreError {
    StoreError::Corrupt {
        path: path.into(),
        problem,
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes created and renamed entries of the folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
