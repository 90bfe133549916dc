//! Two stories in words: only the mix of classes changed, or the inputs did.

use super::numbers::{count, odds, range, whole_percent};
use crate::{
    facts::RANGE,
    proto::{ClassProportions, GateState, Stories},
};

/// Below so many deviations between the stories more rows help most.
const FEW_DEVIATIONS: f64 = 3.0;

/// A share that either story may give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShareRange {
    if_shares_moved: f64,
    if_scores_hold: f64,
    low: f64,
    high: f64,
}

// === impl ShareRange ===

impl ShareRange {
    /// `None` where the share is known, and where no story fits.
    pub(super) fn of(class: &ClassProportions) -> Option<Self> {
        Some(Self {
            if_shares_moved: class.if_shares_moved?,
            if_scores_hold: class.if_scores_hold?,
            low: class.range_low?,
            high: class.range_high?,
        })
    }

    /// From its lower to its upper end.
    pub(super) fn in_short(self) -> String {
        range(self.low, self.high)
    }

    /// The share by each story.
    pub(super) fn ends(self) -> String {
        let (moved, hold) = (
            whole_percent(self.if_shares_moved),
            whole_percent(self.if_scores_hold),
        );
        format!("{moved} if only the mix changed, {hold} if the model's scores still hold")
    }

    /// Whether a share is in it.
    pub(super) fn contains(self, share: f64) -> bool {
        self.low <= share && share <= self.high
    }

    /// How far the stories take the share from another one.
    pub(super) fn far_from(self, share: f64) -> f64 {
        let far = |end: f64| (end - share).abs();
        far(self.if_shares_moved).max(far(self.if_scores_hold))
    }

    /// Whether both stories say that the share grew.
    pub(super) fn grew_from(self, share: f64) -> bool {
        self.if_shares_moved > share
    }
}

/// Whether shares are a range.
pub(super) fn is_range(gate: &GateState) -> bool {
    gate.known == RANGE
}

/// What the rows say, in a sentence with figures.
pub(super) fn told(stories: &Stories) -> String {
    let (likely, story) = if stories.log_odds >= 0.0 {
        (stories.log_odds, "only the mix changed")
    } else {
        (-stories.log_odds, "the inputs changed")
    };
    format!(
        "{} rows (worth {} independent ones) lie {:.1} deviations from where they would if only the mix changed, and {:.1} \
         from where they would if the inputs changed: odds of {} that {story}.",
        count(stories.rows.into()),
        count(stories.effective_rows),
        stories.from_shares.abs(),
        stories.from_inputs.abs(),
        odds(likely),
    )
}

/// What would make the shares known; `None` if they are.
pub(super) fn help(gate: &GateState) -> Option<String> {
    if !gate.proportions_unknown {
        return None;
    }
    let told = match &gate.stories {
        _ if gate.refuted => "Labels would tell the shares.".to_owned(),
        None => "More rows, or labels, would tell the shares.".to_owned(),
        Some(stories) if stories.power < FEW_DEVIATIONS => format!(
            "The stories lie only {:.1} deviations apart. More rows, a reference of unlabelled training rows, or labels would \
             tell them apart.",
            stories.power.max(0.0)
        ),
        Some(_) => "Labels would tell which story is true.".to_owned(),
    };
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stories(log_odds: f64, power: f64) -> Stories {
        Stories {
            rows: 3_000,
            effective_rows: 2_400.0,
            log_odds,
            power,
            from_shares: -0.4,
            from_inputs: 3.1,
            latents: None,
        }
    }

    #[test]
    fn the_stories_are_told_with_their_odds_and_deviations() {
        let start = "3,000 rows (worth 2,400 independent ones) lie 0.4 deviations from where they would if only the mix \
                     changed, and 3.1 from where they would if the inputs changed: odds of ";
        let mix = told(&stories(100_f64.ln(), 3.5));
        assert_eq!(mix, format!("{start}100 : 1 that only the mix changed."));
        let inputs = told(&stories(-2_f64.ln(), 3.5));
        assert_eq!(inputs, format!("{start}2.0 : 1 that the inputs changed."));
    }

    #[test]
    fn what_would_help_depends_on_what_the_rows_can_tell() {
        let gate = |stories: Option<Stories>, refuted: bool| GateState {
            proportions_unknown: true,
            refuted,
            stories,
            ..GateState::default()
        };
        let helps = |gate: &GateState| help(gate).unwrap();
        let weak = helps(&gate(Some(stories(0.5, 1.2)), false));
        assert!(
            weak.starts_with("The stories lie only 1.2 deviations apart. "),
            "{weak}"
        );
        assert!(
            weak.contains("a reference of unlabelled training rows"),
            "{weak}"
        );
        let strong = gate(Some(stories(-4.0, 5.0)), false);
        assert_eq!(helps(&strong), "Labels would tell which story is true.");
        assert_eq!(helps(&gate(None, true)), "Labels would tell the shares.");
        assert!(helps(&gate(None, false)).starts_with("More rows"));
        assert_eq!(help(&GateState::default()), None);
    }

    #[test]
    fn a_range_has_the_names_of_its_ends() {
        let class = ClassProportions {
            if_shares_moved: Some(0.41),
            if_scores_hold: Some(0.22),
            range_low: Some(0.2),
            range_high: Some(0.43),
            ..ClassProportions::default()
        };
        let range = ShareRange::of(&class).unwrap();
        assert_eq!(range.in_short(), "20 to 43 %");
        let ends = "41 % if only the mix changed, 22 % if the model's scores still hold";
        assert_eq!(range.ends(), ends);
        assert!(range.contains(0.2) && !range.contains(0.5));
        assert_eq!(ShareRange::of(&ClassProportions::default()), None);
    }
}
