//! What GetState and WatchState tell.

use ostar_connectors::proto::Version;
use ostar_model::{diagnostics::Decision, learner::RefreshReport, proportions::ProportionEstimate};

use crate::{
    current,
    proto::{ClassProportions, Mode, Shift, State},
    serving::Services,
    status::Status,
};

/// The daemon's state, as far as it is known.
pub(super) fn describe(services: &Services, status: &Status) -> State {
    let description = &services.description;
    let block = status.block.as_ref();
    let frozen = block.map(|block| &block.frozen);
    let adapted = block.and_then(|block| block.adapted.as_ref());
    let served = block.map(|block| &block.served);
    let classes = description.classes.iter().enumerate().map(|(class, name)| {
        let (frozen, frozen_low, frozen_high) = share(frozen, class);
        let (adapted, adapted_low, adapted_high) = share(adapted, class);
        let (served, served_low, served_high) = share(served, class);
        ClassProportions {
            name: name.clone(),
            training: description.training_proportions[class],
            frozen,
            frozen_low,
            frozen_high,
            adapted,
            adapted_low,
            adapted_high,
            served,
            served_low,
            served_high,
        }
    });
    State {
        model: description.name.clone(),
        version: Some(version(services.current.load().version)),
        mode: Mode::from(services.current.mode()).into(),
        classes: classes.collect(),
        events: status.events,
        steps: status.steps,
        paused: status.paused,
        standby: status.standby,
        refusal: status.refresh.as_ref().map_or_else(String::new, refusal),
        shift: status.refresh.as_ref().map(shift),
    }
}

pub(super) fn version(version: current::Version) -> Version {
    Version {
        epoch: version.epoch,
        step: version.step,
    }
}

/// A class's share with its interval; all of [0, 1] before the first block.
fn share(served: Option<&ProportionEstimate>, class: usize) -> (f64, f64, f64) {
    match served {
        None => (0.0, 0.0, 1.0),
        Some(served) => {
            let interval = served.intervals[class];
            (served.proportions[class], interval.low, interval.high)
        }
    }
}

fn refusal(refresh: &RefreshReport) -> String {
    match &refresh.decision {
        Decision::Serve => String::new(),
        Decision::Refuse(reason) => reason.to_string(),
    }
}

fn shift(refresh: &RefreshReport) -> Shift {
    Shift {
        distance_before_map: refresh.distance_before_map,
        distance_after_map: refresh.distance_after_map,
        noise_floor: refresh.noise_floor,
    }
}
