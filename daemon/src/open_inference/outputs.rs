//! Output tensors of a model.

use ostar_bundle::Description;
use ostar_engine::argmax;
use ostar_method::Candidate;
use tonic::Status;

use super::{
    find,
    proto::model_metadata_response::TensorMetadata,
    tensor::{Datatype, Tensor, Values},
};
use crate::{
    named::named,
    serving::{Answer, Services},
};

named! {
    /// A tensor that requests can ask for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Output {
        /// Of the candidate that the request's mode serves.
        Probabilities = "probabilities",
        /// Index of the most probable class.
        Class = "class",
        ClassName = "class_name",
        FrozenProbabilities = "frozen_probabilities",
        PriorProbabilities = "prior_probabilities",
        AdaptedProbabilities = "adapted_probabilities",
        /// The served proportions of the stream (p_N); those of training before the first block.
        LabelProportions = "label_proportions",
    }
}

impl Output {
    pub(super) fn parse(name: &str) -> Result<Self, Status> {
        find(&Self::NAMED, name).map_err(|names| {
            let problem = "is not one of the model's";
            Status::invalid_argument(format!("output {name:?}: {problem}, expected {names}"))
        })
    }

    pub(super) fn metadata(description: &Description) -> Vec<TensorMetadata> {
        let classes = description.classes.len() as i64;
        let tensor = |(name, output): (&str, Self)| TensorMetadata {
            name: name.to_owned(),
            datatype: output.datatype().name().to_owned(),
            shape: match output {
                Self::Class | Self::ClassName => vec![-1],
                Self::LabelProportions => vec![classes],
                _ => vec![-1, classes],
            },
        };
        Self::NAMED.map(tensor).to_vec()
    }

    /// Whether it needs the probabilities of all candidates, not only of the served one.
    pub(super) fn is_of_a_candidate(self) -> bool {
        matches!(
            self,
            Self::FrozenProbabilities | Self::PriorProbabilities | Self::AdaptedProbabilities
        )
    }

    /// The tensor for an answer. The answer must have its candidates if [`Output::is_of_a_candidate`].
    pub(super) fn tensor(self, answer: &Answer, services: &Services) -> Tensor {
        let names = &services.description.classes;
        let classes = names.len();
        let rows = (answer.probabilities.len() / classes) as i64;
        let predicted = || answer.probabilities.chunks_exact(classes).map(argmax);
        let candidate = |candidate: Candidate| {
            let all = answer.candidates.as_ref();
            let all = all.expect("`predict` asks for all candidates when an output is of one");
            matrix(rows, classes, &all[candidate as usize])
        };
        let (shape, values) = match self {
            Self::Class => {
                let numbers = predicted().map(|class| class as i64);
                (vec![rows], Values::Wholes(numbers.collect()))
            }
            Self::ClassName => {
                let texts = predicted().map(|class| names[class].clone());
                (vec![rows], Values::Texts(texts.collect()))
            }
            Self::LabelProportions => {
                (vec![classes as i64], Values::Doubles(proportions(services)))
            }
            Self::Probabilities => matrix(rows, classes, &answer.probabilities),
            Self::FrozenProbabilities => candidate(Candidate::Frozen),
            Self::PriorProbabilities => candidate(Candidate::Prior),
            Self::AdaptedProbabilities => candidate(Candidate::Adapted),
        };
        Tensor {
            name: self.name().to_owned(),
            datatype: self.datatype(),
            shape,
            values,
        }
    }

    fn datatype(self) -> Datatype {
        match self {
            Self::Class => Datatype::Int64,
            Self::ClassName => Datatype::Bytes,
            Self::LabelProportions => Datatype::Fp64,
            _ => Datatype::Fp32,
        }
    }
}

fn matrix(rows: i64, classes: usize, probabilities: &[f32]) -> (Vec<i64>, Values) {
    let values = Values::Singles(probabilities.to_vec());
    (vec![rows, classes as i64], values)
}

fn proportions(services: &Services) -> Vec<f64> {
    let status = services.status.borrow();
    let proportions = match &status.block {
        Some(block) => &block.served.proportions,
        None => &services.description.training_proportions,
    };
    proportions.as_ref().to_vec()
}
