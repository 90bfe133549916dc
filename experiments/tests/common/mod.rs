//! Small generated files in the forms of the real ones.

// Each test file is its own crate and uses a part of this.
#![allow(dead_code)]

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use npyz::WriterBuilder;
use ostar_engine::Generator;
use zip::{ZipWriter, write::SimpleFileOptions};

/// Writes an npz file array by array.
pub(crate) struct Npz {
    zip: ZipWriter<File>,
}

impl Npz {
    pub(crate) fn create(path: &Path) -> Self {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        Self {
            zip: ZipWriter::new(File::create(path).unwrap()),
        }
    }

    pub(crate) fn add<T: npyz::AutoSerialize>(
        &mut self,
        name: &str,
        shape: &[usize],
        values: Vec<T>,
    ) -> &mut Self {
        let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
        let mut bytes = Vec::new();
        {
            let mut writer = npyz::WriteOptions::new()
                .default_dtype()
                .shape(&shape)
                .writer(&mut bytes)
                .begin_nd()
                .unwrap();
            writer.extend(values).unwrap();
            writer.finish().unwrap();
        }
        let options = SimpleFileOptions::default();
        self.zip.start_file(format!("{name}.npy"), options).unwrap();
        self.zip.write_all(&bytes).unwrap();
        self
    }

    pub(crate) fn finish(self) {
        self.zip.finish().unwrap();
    }
}

/// Digits that are bars: the class says how far down. `a_class` images a class in train, two in test.
pub(crate) fn write_digits(folder: &Path, stem: &str, side: usize, a_class: usize) -> PathBuf {
    let path = folder.join(stem).join(format!("{stem}.npz"));
    let mut generator = Generator::new(side as u64);
    let mut npz = Npz::create(&path);
    for (part, count) in [("train", a_class), ("test", 2)] {
        let labels: Vec<u8> = (0..10 * count).map(|number| (number % 10) as u8).collect();
        let mut images = Vec::new();
        for label in &labels {
            let bar = (usize::from(*label) * (side - 2)) / 10 + 1;
            for row in 0..side {
                for _ in 0..side {
                    let ink = if row == bar { 200.0 } else { 30.0 };
                    images.push((ink * generator.uniform()) as u8);
                }
            }
        }
        npz.add(&format!("x_{part}"), &[labels.len(), side, side], images);
        npz.add(&format!("y_{part}"), &[labels.len()], labels);
    }
    npz.finish();
    path
}

/// Classes as corners, the second domain shifted: the form of the Office31 files.
pub(crate) fn write_features(path: &Path, width: usize, rows: usize, classes: usize) {
    let mut generator = Generator::new(4);
    let mut npz = Npz::create(path);
    for (domain, shift) in [("amazon", 0.0), ("webcam", 0.4)] {
        let labels: Vec<u8> = (0..rows).map(|row| (row % classes) as u8).collect();
        let mut rows = Vec::new();
        for label in &labels {
            for column in 0..width {
                let corner = if column % classes == usize::from(*label) {
                    2.0
                } else {
                    0.0
                };
                rows.push((corner + shift + generator.normal()) as f32);
            }
        }
        npz.add(&format!("x_{domain}"), &[labels.len(), width], rows);
        npz.add(&format!("y_{domain}"), &[labels.len()], labels);
    }
    npz.finish();
}

/// Runs the program under test in a folder.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ostar-experiments"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The error text of a run that must fail.
pub(crate) fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

/// Runs the program and fails the test with its error text if it fails.
#[track_caller]
pub(crate) fn succeed(folder: &Path, arguments: &[&str]) {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}
