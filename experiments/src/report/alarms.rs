//! False alarms and delays on simulated streams.

use super::table;
use crate::cli::alarms::AlarmsLine;

pub(super) fn section(lines: &[AlarmsLine]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut page = "\n## Alarms\n\nSimulated block statistics: a share of 30 % in blocks of 500 rows, and the gate's worst test. Blocks are \
                    independent, or each follows the one before (AR(1), with the same spread). A week has 2,016 blocks; streams \
                    last ten weeks and begin with nothing known. *Seen* are false alarms a week without any change. Then, in other \
                    streams, the share jumps after 400 blocks; *told* is how many jumps are told within two windows of 5,000 \
                    rows (20 blocks). Command: `ostar-experiments alarms`.\n\n"
        .to_owned();
    let head = [
        "blocks",
        "set a week",
        "weeks",
        "seen a week",
        "about the share",
        "about the shape",
        "jump, points",
        "told",
        "half within, blocks",
        "90 % within",
        "slowest",
    ];
    let row = |line: &AlarmsLine| {
        vec![
            match line.follows {
                0.0 => "independent".to_owned(),
                follows => format!("AR(1) {follows}"),
            },
            line.set.to_string(),
            line.weeks.to_string(),
            format!("{:.2}", line.seen),
            format!("{:.2}", line.seen_share),
            format!("{:.2}", line.seen_shape),
            format!("{:.0}", 100.0 * line.jump),
            format!("{} of {}", line.told, line.jumps),
            line.half_blocks.to_string(),
            line.most_blocks.to_string(),
            line.slowest_blocks.to_string(),
        ]
    };
    page += &table(
        &head.map(str::to_owned),
        &lines.iter().map(row).collect::<Vec<_>>(),
    );
    page
}
