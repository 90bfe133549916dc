//! The live page in a real browser. The tests are in `tests/browser` and run on Node.
//!
//! Where Node or Chromium is missing they are ignored, unless CI or OSTARD_REQUIRE_SERVICES is set. SCREENSHOTS names a
//! folder that the README's pictures are written to.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use ostar_tests::harness::trial;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser");
/// Names of Chromium's program on Debian and elsewhere.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

fn main() {
    let arguments = Arguments::from_args();
    let missing = match (runs("npm"), browser()) {
        (false, _) => Some("npm"),
        (true, None) => Some("chromium"),
        (true, Some(_)) => None,
    };
    let trial = trial("the_live_page_in_a_browser", missing, test);
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

fn test() -> Result<()> {
    let browser = browser().context("no Chromium: scripts/install-browser gets one")?;
    let modules = modules()?;
    let status = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(Path::new(TESTS).join("page.test.mjs"))
        .env("OSTARD", PROGRAM)
        .env("CHROMIUM", browser)
        .env("BROWSER_MODULES", modules)
        .status()
        .context("node")?;
    ensure!(status.success(), "node --test ended with {status}");
    Ok(())
}

fn runs(tool: &str) -> bool {
    let mut command = Command::new(tool);
    let command = command.arg("--version").stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn browser() -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&paths).collect();
    let files = BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// The packages of `package-lock.json`, installed the first time and kept outside the checkout.
fn modules() -> Result<PathBuf> {
    let folder = ostar_tests::cache_folder()?.join("browser");
    let lock = Path::new(TESTS).join("package-lock.json");
    let wanted = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
    // Written last: without it, or with other content, the folder is incomplete or outdated.
    let made_for = folder.join("made-for.json");
    if fs::read_to_string(&made_for).is_ok_and(|packages| packages == wanted) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(Path::new(TESTS).join(file), folder.join(file))?;
    }
    let install = [
        "ci",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
    ];
    let status = Command::new("npm")
        .args(install)
        .current_dir(&folder)
        .status();
    ensure!(
        status.context("npm")?.success(),
        "npm ci in {}",
        folder.display()
    );
    fs::write(made_for, wanted)?;
    Ok(folder)
}
