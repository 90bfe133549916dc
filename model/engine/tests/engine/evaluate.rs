//! Frozen networks give the same results as the engine in evaluation mode, from any number of threads.

use ostar_engine::{
    Architecture, Engine, FieldRows, Generator, Inputs, NamedTensors,
    architecture::{EncoderShape, Network},
    cpu::CpuEngine,
    engine::Head,
    evaluate::{
        ClassifierNetwork, EncoderNetwork, Scratch, Standardisation, standardise_classifier,
    },
    tensors::Scalars,
};

use crate::common::{NORMS, lively_parameters, normals, rows, small_architecture};

/// More than a block of rows, and not a multiple of a tile.
const ROWS: usize = 531;

fn assert_near(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        let close = (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(close, "{what}[{index}]: found {a}, expected {b}");
    }
}

fn engine(architecture: &Architecture, parameters: &NamedTensors) -> CpuEngine {
    CpuEngine::new(architecture.clone(), parameters, 1).unwrap()
}

fn encoded(architecture: &Architecture, parameters: &NamedTensors, inputs: Inputs<'_>) {
    let mut expected = Vec::new();
    engine(architecture, parameters)
        .encode(inputs, &mut expected)
        .unwrap();
    let raw = Standardisation::identity(architecture.latent);
    let (mut scratch, mut found) = (Scratch::default(), Vec::new());
    EncoderNetwork::new(architecture, parameters, &raw)
        .unwrap()
        .encode(inputs, &mut scratch, &mut found)
        .unwrap();
    assert_near("raw latents", &found, &expected);

    let width = architecture.latent;
    let standardisation = Standardisation::of(rows(&expected, width)).unwrap();
    EncoderNetwork::new(architecture, parameters, &standardisation)
        .unwrap()
        .encode(inputs, &mut scratch, &mut found)
        .unwrap();
    let expected = standardisation.apply(rows(&expected, width)).unwrap();
    assert_near("standardised latents", &found, &expected);
}

#[test]
fn encoders_of_dense_inputs_equal_the_engine_s() {
    let mut architecture = small_architecture(NORMS[0]);
    let shapes = [
        (EncoderShape::Identity, 5),
        (architecture.encoder.clone(), 4),
        (
            EncoderShape::Mlp {
                inputs: 4,
                hidden: vec![],
                final_relu: true,
            },
            4,
        ),
    ];
    for (encoder, width) in shapes {
        architecture.encoder = encoder;
        let parameters = lively_parameters(&architecture, 1);
        let values = normals(ROWS * width, 0.5, 2.0, &mut Generator::new(2));
        let inputs = Inputs::Dense(rows(&values, width));
        encoded(&architecture, &parameters, inputs);
    }
}

#[test]
fn a_convolution_is_an_encoder_of_the_engine_and_is_not_served() {
    let mut architecture = small_architecture(NORMS[0]);
    architecture.encoder = EncoderShape::Convolution { filters: [2, 3] };
    let parameters = lively_parameters(&architecture, 1);
    let images = normals(2 * 32 * 32, 0.0, 1.0, &mut Generator::new(2));
    let mut latents = Vec::new();
    engine(&architecture, &parameters)
        .encode(Inputs::Dense(rows(&images, 32 * 32)), &mut latents)
        .unwrap();
    assert_eq!(latents.len(), 2 * architecture.latent);

    let raw = Standardisation::identity(architecture.latent);
    let refusal = EncoderNetwork::new(&architecture, &parameters, &raw).unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("is a convolution, which is not served")
    );
}

#[test]
fn an_encoder_of_named_fields_equals_the_engine_s() {
    let mut generator = Generator::new(3);
    let numbers: Vec<f32> = (0..ROWS).map(|_| generator.normal() as f32).collect();
    // Bags of no, one and several tokens.
    let (mut tokens, mut offsets) = (Vec::new(), vec![0]);
    for bag in 0..2 * ROWS {
        tokens.extend((0..[0, 1, 2, 4][bag % 4]).map(|_| generator.below(13) as u32));
        offsets.push(tokens.len() as u32);
    }
    let fields = FieldRows {
        numbers: Scalars::F32(&numbers),
        tokens: &tokens,
        offsets: &offsets,
    };
    let mut architecture = small_architecture(NORMS[0]);
    architecture.encoder = EncoderShape::Fields {
        numbers: 1,
        bags: 2,
        buckets: 13,
        embedding: 3,
        hidden: vec![6],
        final_relu: false,
    };
    let parameters = lively_parameters(&architecture, 4);
    encoded(&architecture, &parameters, Inputs::Fields(fields));
}

#[test]
fn classifiers_of_every_norm_equal_the_engine_s() {
    for norm in NORMS {
        let architecture = small_architecture(norm);
        let parameters = lively_parameters(&architecture, 5);
        let mut engine = engine(&architecture, &parameters);
        let values = normals(ROWS * 5, 0.0, 1.5, &mut Generator::new(6));
        let latents = rows(&values, 5);
        let mut scratch = Scratch::default();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for (head, network) in [
            (Head::Source, Network::SourceClassifier),
            (Head::Target, Network::TargetClassifier),
        ] {
            engine.score(head, latents, &mut expected).unwrap();
            let classifier = ClassifierNetwork::new(&architecture, network, &parameters).unwrap();
            classifier.score(latents, &mut scratch, &mut found).unwrap();
            assert_near(&format!("{norm:?} {head:?}"), &found, &expected);
        }
    }
}

#[test]
fn a_standardised_classifier_gives_for_standardised_latents_what_the_raw_one_gave() {
    for norm in NORMS {
        let architecture = small_architecture(norm);
        let mut parameters = lively_parameters(&architecture, 7);
        let values = normals(ROWS * 5, 3.0, 0.5, &mut Generator::new(8));
        let raw = rows(&values, 5);
        let score = |parameters: &NamedTensors, values: &[f32]| {
            let network = Network::SourceClassifier;
            let classifier = ClassifierNetwork::new(&architecture, network, parameters).unwrap();
            let mut probabilities = Vec::new();
            classifier
                .score(rows(values, 5), &mut Scratch::default(), &mut probabilities)
                .unwrap();
            probabilities
        };
        let expected = score(&parameters, &values);
        let standardisation = Standardisation::of(raw).unwrap();
        let (mean, deviation) = (&standardisation.mean, &standardisation.deviation);
        standardise_classifier(&mut parameters, "f_s", mean, deviation).unwrap();
        let found = score(&parameters, &standardisation.apply(raw).unwrap());
        assert_near(&format!("{norm:?}"), &found, &expected);
    }
}

#[test]
fn threads_share_networks_and_get_the_same_bits() {
    let architecture = small_architecture(NORMS[1]);
    let parameters = lively_parameters(&architecture, 9);
    let raw = Standardisation::identity(5);
    let encoder = EncoderNetwork::new(&architecture, &parameters, &raw).unwrap();
    let network = Network::TargetClassifier;
    let classifier = ClassifierNetwork::new(&architecture, network, &parameters).unwrap();
    let values = normals(ROWS * 4, 0.0, 1.0, &mut Generator::new(10));
    let run = || {
        let (mut scratch, mut latents, mut probabilities) =
            (Scratch::default(), Vec::new(), Vec::new());
        let inputs = Inputs::Dense(rows(&values, 4));
        encoder.encode(inputs, &mut scratch, &mut latents).unwrap();
        let latents = rows(&latents, 5);
        classifier
            .score(latents, &mut scratch, &mut probabilities)
            .unwrap();
        probabilities
    };
    let alone = run();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}

#[test]
fn wrong_tensors_inputs_and_networks_are_errors_by_name() {
    let architecture = small_architecture(NORMS[0]);
    let mut parameters = lively_parameters(&architecture, 11);
    let network = Network::SourceClassifier;
    let classifier = ClassifierNetwork::new(&architecture, network, &parameters).unwrap();
    let mut out = Vec::new();
    let message = classifier
        .score(rows(&[0.0; 4], 4), &mut Scratch::default(), &mut out)
        .unwrap_err()
        .to_string();
    assert!(message.contains("rows of 5 numbers"), "{message}");
    let no_classifier = ClassifierNetwork::new(&architecture, Network::Critic, &parameters);
    let message = no_classifier.unwrap_err().to_string();
    assert!(message.contains("Critic"), "{message}");
    parameters.remove("f_s.bn1.running_var");
    let message = ClassifierNetwork::new(&architecture, network, &parameters)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("`f_s.bn1.running_var` is missing"),
        "{message}"
    );
}
