//! Cross-entropy training of g and f_S, ended by the held-out loss.

use ostar_engine::{
    Architecture, Engine, Generator, HostTensor, Inputs, NamedTensors, Result, Rows,
    architecture::{Network, Role},
    argmax,
    cpu::CpuEngine,
    engine::{Head, PretrainStep},
    initial_parameters,
};

use super::{FitProgress, FitSettings, rows::GatheredRows, split::Split};

/// A held-out loss lower by less than this is no progress: of separable classes it falls for ever.
const LEAST_PROGRESS: f64 = 1e-4;

/// Standard deviation of embeddings before training.
const EMBEDDING_DEVIATION: f64 = 0.02;

/// Labelled inputs that a network can learn from, and which of them it may.
pub(crate) struct TrainingSet<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) labels: &'a [u32],
    pub(crate) split: &'a Split,
    /// Class weights of the cross-entropy, in training and on the held-out rows.
    pub(crate) class_weights: &'a [f64],
}

/// g and f_S as they were in the epoch with the lowest held-out loss.
pub(crate) fn pretrain(
    architecture: &Architecture,
    set: &TrainingSet<'_>,
    settings: &FitSettings,
    generator: &mut Generator,
    progress: &mut dyn FnMut(FitProgress),
) -> Result<NamedTensors> {
    let parameters = spread_parameters(architecture, generator);
    let mut engine = CpuEngine::new(architecture.clone(), &parameters, settings.threads)?;
    let mut order = set.split.training.clone();
    let batches = (order.len() / settings.batch).max(1);
    let (mut batch, mut held_out) = (GatheredRows::default(), GatheredRows::default());
    let (held_out, held_out_labels) =
        held_out.gather(&set.inputs, set.labels, architecture, &set.split.held_out);
    let step = PretrainStep {
        class_weights: set.class_weights,
        encoder_adam: settings.adam,
        classifier_adam: settings.adam,
    };
    let (mut best, mut lowest, mut best_epoch) = (parameters, f64::INFINITY, 0);
    for epoch in 1..=settings.epochs {
        generator.shuffle(&mut order);
        let mut loss = 0.0;
        for number in 0..batches {
            // Batches of equal size: a remainder of one row would be no batch for batch normalisation.
            let (start, end) = (
                order.len() * number / batches,
                order.len() * (number + 1) / batches,
            );
            let (inputs, labels) =
                batch.gather(&set.inputs, set.labels, architecture, &order[start..end]);
            let report = engine.pretrain_step(inputs, labels, &step, generator)?;
            loss += report.loss / batches as f64;
        }
        let quality = evaluate(&mut engine, held_out, held_out_labels, set.class_weights)?;
        progress(FitProgress {
            epoch,
            of: settings.epochs,
            loss,
            held_out_loss: quality.loss,
            held_out_accuracy: quality.accuracy,
        });
        if quality.loss < lowest - LEAST_PROGRESS {
            (best, lowest, best_epoch) = (engine.export()?, quality.loss, epoch);
        } else if epoch - best_epoch >= settings.patience {
            break;
        }
    }
    let prefixes = [Network::Encoder, Network::SourceClassifier].map(Network::prefix);
    best.retain(|name, _| {
        let prefix = name.split('.').next().unwrap_or_default();
        prefixes.contains(&prefix)
    });
    Ok(best)
}

struct Quality {
    loss: f64,
    accuracy: f64,
}

/// Weighted cross-entropy and accuracy in evaluation mode.
fn evaluate(
    engine: &mut CpuEngine,
    inputs: Inputs<'_>,
    labels: &[u32],
    class_weights: &[f64],
) -> Result<Quality> {
    let (latent, classes) = (engine.architecture().latent, class_weights.len());
    let (mut latents, mut probabilities) = (Vec::new(), Vec::new());
    engine.encode(inputs, &mut latents)?;
    engine.score(
        Head::Source,
        Rows::new(&latents[..], latent)?,
        &mut probabilities,
    )?;
    let (mut loss, mut weights, mut correct) = (0.0, 0.0, 0usize);
    for (row, label) in probabilities.chunks_exact(classes).zip(labels) {
        let class = *label as usize;
        let weight = class_weights[class];
        loss -= weight * f64::from(row[class].max(f32::MIN_POSITIVE)).ln();
        weights += weight;
        correct += usize::from(argmax(row) == class);
    }
    Ok(Quality {
        loss: loss / weights,
        accuracy: correct as f64 / labels.len() as f64,
    })
}

/// Fresh parameters for networks without normalisation. g's and f_S's weights have the deviation that keeps the
/// scale of what passes a ReLU layer (He et al.): with the paper's 0.02, made for normalised layers, four
/// layers need 12 epochs where they now need 2. Embeddings start near zero: large random ones are
/// learned by heart, which cost 1.5 points of accuracy on mail.
fn spread_parameters(architecture: &Architecture, generator: &mut Generator) -> NamedTensors {
    let mut tensors = initial_parameters(architecture, generator);
    for spec in architecture.parameters() {
        let deviation = match (spec.network, spec.role) {
            (Network::Encoder | Network::SourceClassifier, Role::Weight) => {
                (2.0 / spec.shape[1] as f64).sqrt()
            }
            (_, Role::Embedding) => EMBEDDING_DEVIATION,
            _ => continue,
        };
        let values = (0..spec.len()).map(|_| (generator.normal() * deviation) as f32);
        tensors.insert(spec.name, HostTensor::f32(spec.shape, values.collect()));
    }
    tensors
}
