//! Text in aligned columns.

use std::fmt::Write as _;

use console::{Alignment, measure_text_width, pad_str};

/// Columns that are as wide as their widest cell so far.
#[derive(Debug)]
pub(crate) struct Table {
    /// `None` once it is printed.
    header: Option<Vec<String>>,
    widths: Vec<usize>,
}

/// Between two columns.
const GAP: &str = "  ";

// === impl Table ===

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        let header: Vec<_> = header.iter().map(|name| name.to_string()).collect();
        Self {
            widths: vec![0; header.len()],
            header: Some(header),
        }
    }

    /// Formats rows, after the header if they are the first.
    pub(crate) fn lines(&mut self, rows: Vec<Vec<String>>) -> String {
        let rows: Vec<_> = self.header.take().into_iter().chain(rows).collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = measure_text_width(cell).max(*width);
            }
        }
        let mut text = String::new();
        for row in rows {
            let cells = row.iter().zip(&self.widths);
            let cells = cells.map(|(cell, width)| pad_str(cell, *width, Alignment::Left, None));
            let line = cells.collect::<Vec<_>>().join(GAP);
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_with_rows_that_come_later() {
        let mut table = Table::new(&["class", "share"]);
        let row = |class: &str, share: &str| vec![class.to_owned(), share.to_owned()];
        let first = table.lines(vec![row("ham", "0.25"), row("wäsche", "0.75")]);
        assert_eq!(first, "class   share\nham     0.25\nwäsche  0.75\n");
        assert_eq!(table.lines(vec![row("x", "1")]), "x       1\n");
    }
}
