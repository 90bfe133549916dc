//! One checkpoint's files.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use twox_hash::XxHash64;

use super::{Checkpoint, MANIFEST_FORMAT_VERSION, Manifest, StoreError, failed};

/// A checkpoint's folder is called this and its sequence, in digits that sort.
pub(super) const PREFIX: &str = "checkpoint-";
/// The same while it is being written.
pub(super) const TEMPORARY_PREFIX: &str = "temporary-";

const MANIFEST: &str = "manifest.json";
const MANIFEST_DIGEST: &str = "manifest.digest";
const STATE: &str = "state.safetensors";

/// XXH64 in 16 hexadecimal digits, as bundles have it. It guards against mistakes, not against an adversary.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash64::oneshot(0, bytes))
}

/// Writes a checkpoint beside and renames it; what is there under its name is whole at any moment.
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
            // Of a write that failed before, on a full disk for one.
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

/// Reads a checkpoint and checks that its parts belong together.
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
        match found == expected {
            true => Ok(()),
            false => Err(corrupt(format!(
                "{name} has digest {found}, expected {expected}"
            ))),
        }
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

/// Makes names in the folder last.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
