//! "Did you mean": the known name nearest to a mistyped one.

use strsim::levenshtein;

/// The known name with the fewest edits, if it is near enough to be a typo.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distances = known
        .into_iter()
        .map(|candidate| (levenshtein(name, candidate), candidate));
    let (distance, candidate) = distances.min()?;
    // Up to a third of the letters wrong is a typo, more is another word.
    (distance <= name.chars().count().max(3) / 3).then_some(candidate)
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
    }
}
