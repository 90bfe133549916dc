//! The program `ostar-experiments`; the command line is in the library.

fn main() -> anyhow::Result<()> {
    ostar_experiments::cli::run()
}
