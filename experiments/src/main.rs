//! `ostar-experiments`.

fn main() -> anyhow::Result<()> {
    ostar_experiments::cli::run()
}
