use std::{fs, path::Path};

use ostar_method::proportions::LabelProportions;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::event::Offsets;

fn manifest(step: u64) -> Manifest {
    let identity = Identity {
        bundle_name: "spam".into(),
        bundle_digest: "00ff".into(),
        settings_digest: digest(b"settings"),
        classes: vec!["ham".into(), "spam".into()],
        topic: "mail".into(),
        writer: "00aa".into(),
    };
    let proportions = LabelProportions::from_counts(&[1.0, 2.0]).unwrap();
    Manifest {
        blocks: 2 * step,
        position: Position {
            events: 100 * step,
            learned: Offsets::from([(0, 100 * step as i64), (1, 7)]),
            emitted: Offsets::from([(0, 90), (1, 7)]),
            topic_id: Some("id".into()),
            ..Position::default()
        },
        ..Manifest::new(Version { epoch: 3, step }, identity, proportions)
    }
}

fn state(step: u64) -> Vec<u8> {
    format!("state {step}").into_bytes()
}

/// A store with checkpoints of the steps 1 to `last`.
fn store(last: u64, keep: usize) -> (TempDir, CheckpointStore) {
    let folder = tempdir().unwrap();
    let store = CheckpointStore::open(folder.path().join("checkpoints"), keep).unwrap();
    let lock = store.try_lock().unwrap().unwrap();
    for step in 1..=last {
        lock.write(&manifest(step), &state(step)).unwrap();
    }
    (folder, store)
}

fn newest_step(store: &CheckpointStore) -> Option<u64> {
    store
        .newest()
        .unwrap()
        .map(|newest| newest.manifest.version.step)
}

fn folder_of(store: &CheckpointStore, sequence: u64) -> PathBuf {
    store.folder().join(format!("checkpoint-{sequence:08}"))
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_was_written_is_read_and_the_oldest_go() {
    let (_folder, store) = store(5, 3);
    let newest = store.newest().unwrap().unwrap();
    assert_eq!(newest.state, state(5));
    assert_eq!(newest.path, folder_of(&store, 5));
    let expected = Manifest {
        created_at_ms: newest.manifest.created_at_ms,
        state: StateBytes::new(&state(5)),
        ..manifest(5)
    };
    assert!(newest.manifest.created_at_ms > 1_600_000_000_000);
    assert_eq!(newest.manifest, expected);
    let names: Vec<_> = store
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(
        names,
        [
            "checkpoint-00000003",
            "checkpoint-00000004",
            "checkpoint-00000005"
        ]
    );
    assert_eq!(store.show("checkpoint-00000004").unwrap().state, state(4));
    let unknown = store.show("../checkpoint-00000004").unwrap_err();
    assert!(matches!(unknown, StoreError::Unknown { .. }));
}

#[test]
fn an_empty_folder_has_no_checkpoint() {
    let (_folder, store) = store(0, 3);
    assert_eq!(store.newest().unwrap(), None);
}

#[test]
fn damaged_checkpoints_are_skipped_and_numbers_are_not_used_again() {
    let (_folder, store) = store(5, 9);
    let file = |sequence, name: &str| folder_of(&store, sequence).join(name);
    change(&file(5, "state.safetensors"), |bytes| bytes.truncate(3));
    assert_eq!(newest_step(&store), Some(4));
    change(&file(4, "manifest.json"), |bytes| {
        bytes.truncate(bytes.len() / 2)
    });
    assert_eq!(newest_step(&store), Some(3));
    change(&file(3, "state.safetensors"), |bytes| bytes[2] ^= 1);
    assert_eq!(newest_step(&store), Some(2));
    fs::remove_file(file(2, "manifest.digest")).unwrap();
    assert_eq!(newest_step(&store), Some(1));
    let listed = store.list().unwrap();
    let whole = listed.iter().filter(|entry| entry.manifest.is_ok()).count();
    assert_eq!((listed.len(), whole), (5, 1));
    let lock = store.try_lock().unwrap().unwrap();
    let path = lock.write(&manifest(6), &state(6)).unwrap();
    assert_eq!(path, folder_of(&store, 6));
    assert_eq!(newest_step(&store), Some(6));
}

#[test]
fn any_flipped_bit_of_the_manifest_is_noticed() {
    let (_folder, store) = store(2, 9);
    let path = folder_of(&store, 2).join("manifest.json");
    let bits = fs::read(&path).unwrap().len() * 8;
    for bit in (0..bits).step_by(13) {
        change(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert_eq!(newest_step(&store), Some(1), "bit {bit}");
        change(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    }
    assert_eq!(newest_step(&store), Some(2));
}

#[test]
fn a_checkpoint_of_another_version_is_an_error_and_neither_skipped_nor_moved_aside() {
    let (_folder, store) = store(2, 9);
    let folder = folder_of(&store, 2);
    let written = fs::read_to_string(folder.join("manifest.json")).unwrap();
    let other = r#"{"format_version": 3, "something": "new"}"#.to_owned();
    let other_version = "it has format version 3, this version reads 1".to_owned();
    let mut cases = vec![(other, other_version)];
    // Without what was emitted, for example, a start would emit all again or nothing.
    let whole: Value = serde_json::from_str(&written).unwrap();
    for object in [
        "",
        "/state",
        "/version",
        "/identity",
        "/position",
        "/orders",
    ] {
        let keys = whole.pointer(object).unwrap().as_object().unwrap();
        for key in keys.keys().filter(|key| *key != "format_version") {
            let mut without = whole.clone();
            let keys = without.pointer_mut(object).unwrap();
            keys.as_object_mut().unwrap().remove(key).unwrap();
            cases.push((without.to_string(), format!("missing field `{key}`")));
        }
    }
    assert_eq!(cases.len(), 31);
    let lock = store.try_lock().unwrap().unwrap();
    for (manifest, expected) in cases {
        write_manifest(&folder, manifest.as_bytes());
        for error in [store.newest().unwrap_err(), lock.resume().unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains(&expected), "{error}");
            assert!(error.contains("use the ostard that wrote it"), "{error}");
        }
        assert!(folder.exists(), "it is where it was");
    }
}

#[test]
fn what_a_killed_writer_left_is_never_read_and_goes_with_the_next_writer() {
    let (_folder, store) = store(1, 9);
    let left = store.folder().join("temporary-00000002");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("state.safetensors"), "half").unwrap();
    assert_eq!(newest_step(&store), Some(1));
    let lock = store.try_lock().unwrap().unwrap();
    assert!(!left.exists());
    lock.write(&manifest(2), &state(2)).unwrap();
    assert_eq!(newest_step(&store), Some(2));
}

#[test]
fn there_is_one_writer_at_a_time() {
    let (_folder, store) = store(1, 9);
    let lock = store.try_lock().unwrap();
    assert!(lock.is_some());
    let other = CheckpointStore::open(store.folder(), 9).unwrap();
    assert!(other.try_lock().unwrap().is_none());
    drop(lock);
    assert!(other.try_lock().unwrap().is_some());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = CheckpointStore::open(file.join("inside"), 1)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot create ") && error.contains("file/inside"),
        "{error}"
    );
}

#[test]
fn a_writer_of_an_older_epoch_is_refused() {
    let (_folder, store) = store(1, 9);
    let lock = store.try_lock().unwrap().unwrap();
    // The manifests of these tests have epoch 3.
    assert_eq!(lock.claim_epoch(2).unwrap(), 3);
    lock.write(&manifest(2), &state(2)).unwrap();
    assert_eq!(lock.claim_epoch(3).unwrap(), 4);
    let refused = lock.write(&manifest(3), &state(3)).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("has epoch 4, this one has 3"), "{text}");
    assert_eq!(newest_step(&store), Some(2));
    // An epoch is never used twice, even if its owner wrote no checkpoint.
    assert_eq!(lock.claim_epoch(3).unwrap(), 5);
}

#[test]
fn a_checkpoint_that_cannot_be_read_is_an_error_and_not_taken_for_damaged() {
    let (_folder, store) = store(2, 9);
    let state = folder_of(&store, 2).join("state.safetensors");
    fs::remove_file(&state).unwrap();
    // Reading a folder as a file fails like a bad disk.
    fs::create_dir(&state).unwrap();
    let lock = store.try_lock().unwrap().unwrap();
    for error in [store.newest().unwrap_err(), lock.resume().unwrap_err()] {
        let text = error.to_string();
        let start = format!("cannot read {}: ", state.display());
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains("move its folder away"), "{text}");
    }
    assert!(folder_of(&store, 2).exists(), "it is where it was");
}

fn damage(store: &CheckpointStore, sequence: u64) {
    let state = folder_of(store, sequence).join("state.safetensors");
    change(&state, |bytes| bytes.truncate(3));
}

#[test]
fn damaged_checkpoints_are_moved_aside_and_rotation_leaves_them_alone() {
    let (_folder, store) = store(3, 3);
    (1..=3).for_each(|sequence| damage(&store, sequence));
    let lock = store.try_lock().unwrap().unwrap();
    let found = lock.resume().unwrap();
    assert_eq!(found.checkpoint, None);
    assert_eq!(found.damaged.len(), 3);
    let newest = found.damaged[0].to_string();
    assert!(
        newest.contains("checkpoint-00000003 is damaged"),
        "{newest}"
    );
    for step in 4..=9 {
        lock.write(&manifest(step), &state(step)).unwrap();
    }
    let kept = ["damaged-00000001", "damaged-00000002", "damaged-00000003"];
    assert_eq!(store.damaged().unwrap(), kept);
    let bytes = fs::read(store.folder().join(kept[2]).join("state.safetensors"));
    assert_eq!(bytes.unwrap(), b"sta");
    // Numbers are not used again.
    assert_eq!(store.list().unwrap()[0].name, "checkpoint-00000007");
    let found = lock.resume().unwrap();
    assert_eq!(found.checkpoint.unwrap().manifest.version.step, 9);
    assert!(found.damaged.is_empty());
}

#[test]
fn the_newest_intact_checkpoint_is_resumed_from_and_an_older_damaged_one_is_kept_when_its_turn_comes()
 {
    let (_folder, store) = store(4, 4);
    damage(&store, 1);
    damage(&store, 4);
    let lock = store.try_lock().unwrap().unwrap();
    let found = lock.resume().unwrap();
    assert_eq!(found.checkpoint.unwrap().manifest.version.step, 3);
    assert_eq!(store.damaged().unwrap(), ["damaged-00000004"]);
    for step in 5..=7 {
        lock.write(&manifest(step), &state(step)).unwrap();
    }
    let kept = ["damaged-00000001", "damaged-00000004"];
    assert_eq!(store.damaged().unwrap(), kept);
}

#[test]
fn a_damaged_checkpoint_takes_a_free_name_and_the_first_ten_are_kept() {
    let (_folder, store) = store(1, 99);
    let lock = store.try_lock().unwrap().unwrap();
    let taken = store.folder().join("damaged-00000001");
    fs::write(&taken, "somebody's").unwrap();
    damage(&store, 1);
    lock.resume().unwrap();
    let kept = ["damaged-00000001", "damaged-00000001-2"];
    assert_eq!(store.damaged().unwrap(), kept);
    assert_eq!(fs::read(&taken).unwrap(), b"somebody's");
    for step in 2..=20 {
        let path = lock.write(&manifest(step), &state(step)).unwrap();
        fs::remove_file(path.join("state.safetensors")).unwrap();
        assert_eq!(lock.resume().unwrap().damaged.len(), 1);
    }
    let damaged = store.damaged().unwrap();
    assert_eq!(damaged.len(), 10);
    assert_eq!(damaged[..2], kept);
    assert_eq!(damaged[9], "damaged-00000009");
    assert!(store.list().unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn a_state_without_an_end_is_not_read() {
    let (_guard, store) = store(2, 5);
    let state = folder_of(&store, 2).join("state.safetensors");
    fs::remove_file(&state).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &state).unwrap();
    let refused = store.show("checkpoint-00000002").unwrap_err().to_string();
    assert!(refused.contains("state.safetensors"), "{refused}");
    assert!(refused.contains("is no regular file"), "{refused}");
    assert!(store.newest().is_err());
}

#[test]
fn an_error_of_the_disk_is_told_once() {
    let (folder, _store) = store(1, 9);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = CheckpointStore::open(file.join("below"), 1).unwrap_err();
    let text = format!("{:#}", anyhow::Error::from(error));
    assert_eq!(text.matches("os error").count(), 1, "{text}");
}

/// The manifest's digest guards against damage, not against a hand that wrote both.
fn write_manifest(folder: &Path, bytes: &[u8]) {
    fs::write(folder.join("manifest.json"), bytes).unwrap();
    fs::write(folder.join("manifest.digest"), digest(bytes)).unwrap();
}

#[test]
fn a_manifest_that_gives_its_state_another_length_is_damaged() {
    let (_folder, store) = store(1, 3);
    let path = folder_of(&store, 1);
    let mut manifest = store.newest().unwrap().unwrap().manifest;
    manifest.state.length += 1;
    write_manifest(&path, &manifest.to_bytes());
    assert!(store.newest().unwrap().is_none());
}

#[test]
fn fuzz_manifest() {
    let (_folder, store) = store(1, 3);
    let path = folder_of(&store, 1);
    let seeds = [fs::read(path.join("manifest.json")).unwrap()];
    ostar_fuzzing::fuzz!("manifest", seeds, |bytes: &[u8]| {
        write_manifest(&path, bytes);
        if let Ok(Some(newest)) = store.newest() {
            assert_eq!(newest.manifest.state, StateBytes::new(&newest.state));
        }
        let _ = store.list();
    });
}

#[test]
fn fuzz_checkpoint() {
    let (_folder, store) = store(1, 3);
    let file = folder_of(&store, 1).join("state.safetensors");
    let seeds = [state(1), vec![0; 64]];
    ostar_fuzzing::fuzz!("checkpoint", seeds, |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        // Damaged ones are skipped, and there is no other.
        let newest = store.newest().unwrap();
        assert_eq!(newest.is_some(), bytes == state(1));
    });
}
