//! Python with packages, for the clients that are written in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Scripts and requirements.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// What a virtual environment needs and this machine lacks.
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

/// A script of `tests/python`.
pub fn script(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// A Python with the packages of a file in `tests/python`, made the first time and kept outside the checkout
/// in the folder of this name.
pub fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    let requirements = script(requirements);
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = crate::cache_folder()?.join(name);
    let python = folder.join("bin/python");
    // Written last: an environment without it, or for other packages, is made anew.
    let made_for = folder.join("made-for.txt");
    if fs::read_to_string(&made_for).is_ok_and(|packages| packages == wanted) {
        return Ok(python);
    }
    let make = ["-m", "venv", "--clear"];
    output(Command::new("python3").args(make).arg(&folder))?;
    // Only what is imported gets compiled, then.
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--requirement",
    ];
    output(Command::new(&python).args(install).arg(&requirements))?;
    fs::write(made_for, wanted)?;
    Ok(python)
}

/// Standard output of a command; an error has what it wrote to the other stream.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
