//! "Did you mean": the known name nearest to a mistyped one.

/// The known name with the fewest edits, if it is near enough to be a typo.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distances = known
        .into_iter()
        .map(|candidate| (edits(name, candidate), candidate));
    let (distance, candidate) = distances.min()?;
    // Up to a third of the letters wrong is a typo, more is another word.
    (distance <= name.chars().count().max(3) / 3).then_some(candidate)
}

/// The Levenshtein distance.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<_> = right.chars().collect();
    let mut row: Vec<_> = (0..=right.len()).collect();
    for (line, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name_and_another_word_finds_none() {
        let known = ["topic", "brokers", "start_time_ms"];
        assert_eq!(nearest("topik", known), Some("topic"));
        assert_eq!(nearest("broker", known), Some("brokers"));
        assert_eq!(nearest("start_time", known), Some("start_time_ms"));
        assert_eq!(nearest("password", known), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
