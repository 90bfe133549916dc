//! What a learner on latents has beyond proportions: the engine, its buffers and the alignment.

use std::sync::Arc;

use ostar_engine::{
    Device, Engine, Error, Generator, NamedTensors, Result, Rows,
    architecture::Network,
    copy_source_classifier,
    engine::{
        Batch, ClassifierObjective, ClassifierReport, ClassifierStep, CriticStep, Diversity, Head,
        MapStep, Saved,
    },
    evaluate::{ClassifierNetwork, Scratch},
    initial_parameters,
    optimiser::Adam,
    weights::class_ratios,
};

use super::{
    settings::LearnerSettings, source::TrainingSource, tracked::TrackedProportions,
    transport_weight::TransportWeightSolver, window::TargetWindow,
};
use crate::{
    Deployed,
    diagnostics::{Directions, Projection, RefusalCount},
    gate::MappedShape,
    learner::{Picture, StepReport},
    proportions::{LabelProportions, Probabilities, ProportionEstimator},
};

/// Directions of the sliced distance.
const DIRECTIONS: usize = 64;

pub(crate) struct Adaptation {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) source: TrainingSource,
    /// Which row stands in which slot. The rows themselves are in the engine's target buffer.
    pub(crate) window: TargetWindow,
    pub(crate) adapted: TrackedProportions,
    /// Held-out predictions behind `adapted.estimator`: what restores it. Like the estimator they belong
    /// to the last good state, which is what is served.
    pub(crate) held_out: Vec<f32>,
    /// p_N of the alignment; `None` before the first refresh.
    pub(crate) alignment_proportions: Option<LabelProportions>,
    /// The prior inside both classifiers. The target classifier is trained to keep it: one that
    /// followed p_N would lag behind by an unknown amount and could not be corrected.
    pub(crate) prior: LabelProportions,
    pub(crate) transport: TransportWeightSolver,
    pub(crate) steps: u64,
    pub(crate) refusals: RefusalCount,
    pub(crate) good: GoodState,
    pub(crate) directions: Directions,
    /// As the last refresh drew it; `None` before the first.
    pub(super) picture: Option<Arc<Picture>>,
    /// What pictures are drawn in; known from the first one on.
    pub(super) plane: Option<Projection>,
    /// The map as it was at the start.
    pub(super) initial_map: NamedTensors,
    scratch: Scratch,
    rows: [Vec<u32>; 2],
    positions: Vec<f64>,
}

/// What the guard last agreed to serve, and what is restored after refusals.
pub(crate) struct GoodState {
    /// On the engine's device.
    pub(crate) saved: Saved,
    pub(crate) target_classifier: Arc<ClassifierNetwork>,
    /// Of the classes, as in [`TrainingSource`].
    pub(crate) translations: Vec<f32>,
    pub(crate) steps: u64,
    /// What the stream looks like if this state is right; `None` before the first step.
    pub(crate) mapped: Option<MappedShape>,
    /// Held-out latents behind `mapped`, translated and mapped: what restores it.
    pub(crate) mapped_latents: Vec<f32>,
    /// Largest deformation of a class by the map, over its separation.
    pub(crate) largest_deformation: f64,
}

impl Adaptation {
    /// Nothing for a black box.
    pub(crate) fn new(
        deployed: &Deployed,
        settings: &LearnerSettings,
        device: Device,
        generator: &mut Generator,
    ) -> Result<Option<Self>> {
        let architecture = deployed.training_architecture(settings.map, settings.critic.clone());
        let (Some(architecture), Some(given)) = (architecture, &deployed.latents) else {
            return Ok(None);
        };
        let latents = Rows::new(&given.rows[..], architecture.latent)?;
        let (labels, held_out) = (&given.labels, &given.held_out);
        let source = TrainingSource::new(latents, labels, held_out, architecture.classes)?;

        let mut parameters = initial_parameters(&architecture, generator);
        let of_map = format!("{}.", Network::Map.prefix());
        let mut initial_map = parameters.clone();
        initial_map.retain(|name, _| name.starts_with(&of_map));
        parameters.extend(given.classifier.clone());
        copy_source_classifier(&mut parameters);
        let directions = Directions::new(architecture.latent, DIRECTIONS, generator)?;
        let mut engine = device.engine(architecture, &parameters, settings.threads)?;
        let train = source.train();
        engine.set_source(
            Rows::new(&train.latents[..], source.width())?,
            &train.labels,
        )?;

        let prior = deployed.training_proportions.clone();
        let mut held_out = Vec::new();
        let rows = Rows::new(&source.held_out().latents[..], source.width())?;
        engine.score(Head::Target, rows, &mut held_out)?;
        let estimator = estimator(settings, &source, &held_out, &prior)?;
        let translations = source.translations().to_vec();
        let good = GoodState::new(engine.as_ref(), engine.save()?, translations, 0)?;
        Ok(Some(Self {
            engine,
            window: TargetWindow::new(settings.window_kind, settings.window)?,
            adapted: TrackedProportions::new(estimator, &settings.tracker)?,
            held_out,
            alignment_proportions: None,
            prior,
            transport: TransportWeightSolver::new(settings.transport),
            steps: 0,
            refusals: RefusalCount::default(),
            good,
            directions,
            picture: None,
            plane: None,
            initial_map,
            scratch: Scratch::default(),
            rows: [vec![0; settings.batch], vec![0; settings.batch]],
            positions: vec![0.0; settings.batch],
            source,
        }))
    }

    /// Offers rows to the window.
    pub(crate) fn keep(&mut self, latents: &[f32], generator: &mut Generator) -> Result<()> {
        let width = self.source.width();
        let rows = latents.len() / width;
        let slots: Vec<_> = (0..rows).map(|_| self.window.place(generator)).collect();
        // Neighbours go together: a call a row would cost more than the copy.
        let neighbours = |a: &Option<usize>, b: &Option<usize>| a.map(|slot| slot + 1) == *b;
        let mut first = 0;
        for run in slots.chunk_by(neighbours) {
            let values = &latents[first * width..(first + run.len()) * width];
            first += run.len();
            if let Some(slot) = run[0] {
                self.engine.set_target(slot, Rows::new(values, width)?)?;
            }
        }
        Ok(())
    }

    /// Forgets all but the newest rows of the window.
    pub(crate) fn shorten_window(&mut self, rows: usize) -> Result<()> {
        let held = self.window_latents()?;
        let Some(slots) = self.window.shorten(rows) else {
            return Ok(());
        };
        let width = self.source.width();
        let row = |slot: usize| held[slot * width..][..width].iter().copied();
        let kept: Vec<f32> = slots.into_iter().flat_map(row).collect();
        self.engine.set_target(0, Rows::new(&kept[..], width)?)
    }

    /// Latents of the window, slot by slot.
    pub(crate) fn window_latents(&self) -> Result<Vec<f32>> {
        let mut latents = Vec::new();
        self.engine.read_target(&mut latents)?;
        latents.truncate(self.window.len() * self.source.width());
        Ok(latents)
    }

    /// Probabilities of latents by the target classifier that is served.
    pub(crate) fn score_served(&mut self, latents: &[f32]) -> Result<Probabilities> {
        let mut probabilities = Vec::new();
        let rows = Rows::new(latents, self.source.width())?;
        let classifier = &self.good.target_classifier;
        classifier.score(rows, &mut self.scratch, &mut probabilities)?;
        let classes = self.engine.architecture().classes;
        Probabilities::new("probabilities", Rows::new(&probabilities[..], classes)?)
    }

    /// Probabilities of latents by one of the two classifiers, as they are being trained.
    pub(crate) fn score(&mut self, head: Head, latents: &[f32]) -> Result<Probabilities> {
        let mut probabilities = Vec::new();
        let rows = Rows::new(latents, self.source.width())?;
        self.engine.score(head, rows, &mut probabilities)?;
        let classes = self.engine.architecture().classes;
        Probabilities::new("probabilities", Rows::new(&probabilities[..], classes)?)
    }

    /// Latents moved by the map (phi) as it is being trained.
    pub(crate) fn transport(&mut self, latents: &[f32]) -> Result<Vec<f32>> {
        let mut mapped = Vec::new();
        let rows = Rows::new(latents, self.source.width())?;
        self.engine.transport(rows, &mut mapped)?;
        Ok(mapped)
    }

    /// One alignment step: critic steps on fresh batches, then a map step and a classifier step on
    /// the last of them.
    pub(crate) fn step(
        &mut self,
        settings: &LearnerSettings,
        generator: &mut Generator,
    ) -> Result<StepReport> {
        let Some(proportions) = self.alignment_proportions.clone() else {
            return Err(Error::setting(
                "alignment proportions",
                "are not known yet, refresh them first",
            ));
        };
        let adam = |base: f64| Adam::with_rate(settings.schedule.rate(base, self.steps));
        let critic_adam = adam(settings.rates.critic);
        let map_adam = adam(settings.rates.map);
        let mut critic = None;
        for number in 1..=settings.critic_steps {
            self.draw(settings, generator);
            let step = CriticStep {
                proportions: proportions.as_ref(),
                positions: &self.positions,
                penalty_weight: settings.penalty_weight,
                map_follows: number == settings.critic_steps,
                adam: critic_adam,
            };
            let batch = batch(&self.rows);
            critic = Some(self.engine.critic_step(batch, &step)?);
        }
        let transport_weight = self.transport.weight();
        let step = MapStep {
            proportions: proportions.as_ref(),
            transport_weight,
            adam: map_adam,
        };
        let map = self.engine.map_step(batch(&self.rows), &step)?;
        let rate = settings
            .schedule
            .rate(settings.rates.classifier, self.steps);
        let classifier = self.classifier_step(settings, &proportions, rate, generator)?;
        self.steps += 1;
        Ok(StepReport {
            steps: self.steps,
            critic: critic.expect("validated settings have at least one critic step"),
            map,
            classifier,
            transport_weight,
        })
    }

    /// One step of the target classifier on the batch drawn last.
    pub(super) fn classifier_step(
        &mut self,
        settings: &LearnerSettings,
        proportions: &LabelProportions,
        rate: f64,
        generator: &mut Generator,
    ) -> Result<ClassifierReport> {
        let drawn = self.source.drawn_proportions(settings.sampling);
        let class_weights = prior_weights(&self.prior, &drawn, settings.class_weight_cap);
        let step = ClassifierStep {
            objective: ClassifierObjective {
                class_weights: &class_weights,
                cross_entropy_weight: 1.0,
                entropy_weight: settings.entropy_weight,
                diversity: if settings.divergence_weight > 0.0 {
                    Diversity::Divergence {
                        weight: settings.divergence_weight,
                        proportions: proportions.as_ref(),
                    }
                } else {
                    Diversity::None
                },
            },
            adam: Adam::with_rate(rate),
        };
        self.engine
            .classifier_step(batch(&self.rows), &step, generator)
    }

    pub(super) fn draw(&mut self, settings: &LearnerSettings, generator: &mut Generator) {
        let [source, target] = &mut self.rows;
        self.source.draw(settings.sampling, generator, source);
        let held = self.window.len();
        target.fill_with(|| generator.below(held) as u32);
        self.positions.fill_with(|| generator.uniform());
    }
}

fn batch(rows: &[Vec<u32>; 2]) -> Batch<'_> {
    Batch {
        source: &rows[0],
        target: &rows[1],
    }
}

/// Class weights with which rows drawn in other proportions train for `prior`.
fn prior_weights(prior: &LabelProportions, drawn: &LabelProportions, cap: f64) -> Vec<f64> {
    // Class-balanced draws need weights up to K: a lower cap would train for another prior than is corrected for.
    let cap = cap.max(prior.classes() as f64);
    class_ratios(prior.as_ref(), drawn.as_ref(), cap)
}

/// An estimator for the adapted classifier, from its predictions on held-out source rows.
pub(crate) fn estimator(
    settings: &LearnerSettings,
    source: &TrainingSource,
    held_out: &[f32],
    prior: &LabelProportions,
) -> Result<ProportionEstimator> {
    let rows = Rows::new(held_out, prior.classes())?;
    let probabilities = Probabilities::new("held-out probabilities", rows)?;
    let labels = source.held_out().labels.clone();
    ProportionEstimator::new(settings.estimator, probabilities, labels, prior.clone())
}

// === impl GoodState ===

impl GoodState {
    pub(crate) fn new(
        engine: &dyn Engine,
        saved: Saved,
        translations: Vec<f32>,
        steps: u64,
    ) -> Result<Self> {
        let network = Network::TargetClassifier;
        let tensors = engine.saved_tensors(&saved, Some(network))?;
        let target_classifier = ClassifierNetwork::new(engine.architecture(), network, &tensors)?;
        Ok(Self {
            saved,
            target_classifier: Arc::new(target_classifier),
            translations,
            steps,
            mapped: None,
            mapped_latents: Vec::new(),
            largest_deformation: 0.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_classes_drawn_alike_train_for_the_prior_that_is_corrected_for() {
        let mut counts = vec![1.0; 30];
        counts[0] = 270.0;
        let prior = LabelProportions::from_counts(&counts).unwrap();
        let drawn = LabelProportions::uniform(30);
        let weights = prior_weights(&prior, &drawn, 20.0);
        let trained = weights[0] * drawn[0];
        assert!((trained - prior[0]).abs() < 1e-9, "{trained}, {}", prior[0]);
    }
}
