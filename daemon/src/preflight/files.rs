//! Files: is the bundle sound, can checkpoints and lines be written?

use std::{fs, io, net::TcpListener, path::Path};

use ostar_bundle::Bundle;
use ostar_connectors::checkpoint::{Checkpoint, CheckpointStore};

use super::Findings;
use crate::config::Config;

/// A file that is written to see whether that can be done.
const TRIAL: &str = ".ostard-check";

pub(super) fn bundle(config: &Config, findings: &mut Findings) -> Option<Bundle> {
    let folder = config.bundle_folder().display();
    match Bundle::load(config.bundle_folder()) {
        Ok(bundle) => {
            let name = &bundle.description().name;
            let text = format!("{folder}: model {name:?} of {} classes", bundle.classes());
            findings.good("bundle.path", text);
            if let Err(unknown) = config.metrics.chosen(bundle.description()) {
                findings.problem("metrics.classes", unknown.hint);
            }
            Some(bundle)
        }
        Err(error) => {
            findings.problem("bundle.path", format!("{folder}: {error}"));
            None
        }
    }
}

/// Looks at the folder without creating it; returns its newest checkpoint.
pub(super) fn checkpoints(config: &Config, findings: &mut Findings) -> Option<Checkpoint> {
    let key = "checkpoints.folder";
    let folder = config.checkpoint_folder()?;
    let shown = folder.display();
    if let Err(error) = try_to_write(folder) {
        findings.problem(key, format!("{shown} cannot be written: {error}"));
        return None;
    }
    if !folder.exists() {
        findings.good(
            key,
            format!("{shown} does not exist yet and can be created"),
        );
        return None;
    }
    let opened = CheckpointStore::open(folder, config.checkpoints.keep);
    let looked = opened.and_then(|store| Ok((store.newest()?, store.list()?)));
    match looked {
        Ok((newest, listed)) => {
            for problem in listed.into_iter().filter_map(|entry| entry.manifest.err()) {
                findings.warning(key, problem.to_string());
            }
            let text = match &newest {
                None => format!("{shown} can be written and has no checkpoint"),
                Some(newest) => {
                    let events = newest.manifest.position.events;
                    format!("{shown} can be written, the newest checkpoint has {events} events")
                }
            };
            findings.good(key, text);
            newest
        }
        Err(error) => {
            findings.problem(key, error.to_string());
            None
        }
    }
}

/// Files of lines, and addresses to listen on.
pub(super) fn others(config: &Config, findings: &mut Findings) {
    let files = [
        ("dead_letters.file", &config.dead_letters.file),
        ("parked.file", &config.parked.file),
    ];
    for (key, path) in files {
        let Some(path) = path else {
            continue;
        };
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        // The daemon makes the file, not its folder.
        let outcome = if folder.is_dir() {
            try_to_write(folder)
        } else {
            Err(io::Error::other("its folder does not exist"))
        };
        match outcome {
            Ok(()) => findings.good(key, format!("{} can be written", path.display())),
            Err(error) => {
                findings.problem(
                    key,
                    format!("{} cannot be written: {error}", path.display()),
                );
            }
        }
    }
    for listener in config.open_listeners() {
        findings.warning(listener.key, listener.problem());
    }
    for (key, address) in config.addresses() {
        if let Some(address) = address
            && let Err(error) = TcpListener::bind(address)
        {
            // Perhaps by the daemon that this one replaces.
            findings.warning(key, format!("{address} is in use on this machine: {error}"));
        }
    }
}

/// Writes a file to the folder, or to the nearest one above that exists, and removes it.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let existing = folder.ancestors().find(|folder| folder.exists());
    let existing = existing.unwrap_or(Path::new("."));
    if !existing.is_dir() {
        let problem = format!("{} is not a folder", existing.display());
        return Err(io::Error::other(problem));
    }
    let trial = existing.join(format!("{TRIAL}-{}", std::process::id()));
    let written = fs::write(&trial, [0; 4_096]);
    // Also after a failure: a full disk leaves an empty file.
    let removed = fs::remove_file(&trial);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_tried_without_leaving_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        try_to_write(&folder.path().join("a/b")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = try_to_write(&file.join("state")).unwrap_err();
        assert!(refused.to_string().ends_with("file is not a folder"));
    }
}
