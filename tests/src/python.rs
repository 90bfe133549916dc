//! Virtual environments for the clients that are written in Python.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Folder of the scripts and their requirements files.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// The tool that this machine lacks to make a virtual environment.
pub fn missing_tool() -> Option<&'static str> {
    let has = |modules: &str| {
        let mut command = Command::new("python3");
        let command = command.args(["-c", modules]).stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match (has(""), has("import ensurepip, venv")) {
        (false, _) => Some("python3"),
        (true, false) => Some("pip"),
        (true, true) => None,
    }
}

/// Path of a file in `tests/python`.
pub fn script(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// The interpreter of a virtual environment with the packages of a requirements file. It is made the first time, and kept
/// in the cache folder under `name`.
pub fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    let requirements = script(requirements);
    let required = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = crate::cache_folder()?.join(name);
    let python = folder.join("bin/python");
    // Written last: without it, or with other content, the environment is incomplete or outdated.
    let made_for = folder.join("made-for.txt");
    if fs::read_to_string(&made_for).is_ok_and(|packages| packages == required) {
        return Ok(python);
    }
    let make = ["-m", "venv", "--clear"];
    output(Command::new("python3").args(make).arg(&folder))?;
    // Without --no-compile pip compiles all modules, most of which are never imported.
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--requirement",
    ];
    output(Command::new(&python).args(install).arg(&requirements))?;
    fs::write(made_for, required)?;
    Ok(python)
}

/// Standard output of a command that must succeed; the error holds its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
