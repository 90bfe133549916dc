//! Writes and reads the files of one checkpoint.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use twox_hash::XxHash64;

use super::{Checkpoint, MANIFEST_FORMAT_VERSION, Manifest, StoreError, failed};

/// Prefix of a checkpoint's folder; its sequence number follows, padded so that names sort.
pub(super) const PREFIX: &str = "checkpoint-";
/// Prefix of the folder while it is being written.
pub(super) const TEMPORARY_PREFIX: &str = "temporary-";

const MANIFEST: &str = "manifest.json";
const MANIFEST_DIGEST: &str = "manifest.digest";
const STATE: &str = "state.safetensors";

/// XXH64 in 16 hexadecimal digits, as for bundles. Detects damage, not tampering.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash64::oneshot(0, bytes))
}

/// Writes a checkpoint to a temporary folder, syncs and renames it: a folder with the final name is complete.
pub(super) fn write(
    folder: &Path,
    sequence: u64,
    manifest: &Manifest,
    state: &[u8],
) -> Result<PathBuf, StoreError> {
    let manifest = Manifest {
        format_version: MANIFEST_FORMAT_VERSION,
        created_at_ms: now_ms(),
        state_digest: digest(state),
        ..manifest.clone()
    }
    .to_bytes();
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

/// Reads a checkpoint and compares the digests.
pub(super) fn read(path: &Path) -> Result<Checkpoint, StoreError> {
    let corrupt = |problem| StoreError::Corrupt {
        path: path.into(),
        problem,
    };
    let content = |name: &str| {
        let file = path.join(name);
        fs::read(&file).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => corrupt(format!("{name} is missing")),
            _ => failed("read", &file, source),
        })
    };
    let check = |name: &str, bytes: &[u8], expected: &str| {
        let found = digest(bytes);
        if found != expected {
            return Err(corrupt(format!(
                "{name} has digest {found}, expected {expected}"
            )));
        }
        Ok(())
    };
    let bytes = content(MANIFEST)?;
    let expected = content(MANIFEST_DIGEST)?;
    check(
        MANIFEST,
        &bytes,
        String::from_utf8_lossy(&expected).trim_end(),
    )?;
    let manifest = Manifest::from_bytes(path, &bytes)?;
    let state = content(STATE)?;
    check(STATE, &state, &manifest.state_digest)?;
    Ok(Checkpoint {
        manifest,
        state,
        path: path.into(),
    })
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes created and renamed entries of the folder durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
