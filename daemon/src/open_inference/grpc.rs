//! The protocol over gRPC: `inference.GRPCInferenceService`.

use tonic::{Request, Response, Status, async_trait};

use super::{
    InferRequest, Inferred, OpenInference, parse_mode, parse_outputs,
    proto::{
        InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
        ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
        ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
        ServerReadyRequest, ServerReadyResponse,
        grpc_inference_service_server::GrpcInferenceService, infer_parameter::ParameterChoice,
        model_infer_request::InferInputTensor, model_infer_response::InferOutputTensor,
    },
    tensor::{Datatype, Tensor, Values, about},
};

use crate::current::ServingMode;

#[async_trait]
impl GrpcInferenceService for OpenInference {
    async fn server_live(
        &self,
        _: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        let live = self.is_live();
        Ok(Response::new(ServerLiveResponse { live }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        let ready = self.is_ready();
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        let ModelReadyRequest { name, version } = request.into_inner();
        let ready = self.is_model_ready(&name, &version)?;
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(OpenInference::server_metadata(self)))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let ModelMetadataRequest { name, version } = request.into_inner();
        OpenInference::model_metadata(self, &name, &version).map(Response::new)
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let request = request.into_inner();
        let id = request.id.clone();
        // Raw requests get raw answers.
        let raw = !request.raw_input_contents.is_empty();
        let inferred = self.infer(read(request)).await?;
        Ok(Response::new(respond(id, inferred, raw)))
    }
}

pub(super) fn read(request: ModelInferRequest) -> Result<InferRequest, Status> {
    let outputs = request.outputs.iter().map(|output| &output.name[..]);
    Ok(InferRequest {
        outputs: parse_outputs(outputs)?,
        mode: mode(request.parameters.get("mode"))?,
        model: request.model_name,
        version: request.model_version,
        inputs: read_inputs(request.inputs, &request.raw_input_contents)?,
    })
}

fn mode(parameter: Option<&InferParameter>) -> Result<Option<ServingMode>, Status> {
    match parameter.and_then(|parameter| parameter.parameter_choice.as_ref()) {
        None => Ok(None),
        Some(ParameterChoice::StringParam(name)) => parse_mode(name).map(Some),
        Some(other) => {
            let problem = format!("parameters.mode: is {other:?}, expected a string");
            Err(Status::invalid_argument(problem))
        }
    }
}

fn read_inputs(inputs: Vec<InferInputTensor>, raw: &[Vec<u8>]) -> Result<Vec<Tensor>, Status> {
    if !raw.is_empty() && raw.len() != inputs.len() {
        return Err(Status::invalid_argument(format!(
            "raw_input_contents: has {}, expected one for each of the {} inputs",
            raw.len(),
            inputs.len()
        )));
    }
    let tensor = |(number, input): (usize, InferInputTensor)| {
        let datatype = Datatype::parse(&input.datatype);
        let values = datatype.and_then(|datatype| {
            let values = match raw.get(number) {
                Some(bytes) => Values::from_raw(datatype, bytes),
                None => from_contents(datatype, input.contents.unwrap_or_default()),
            };
            Ok((datatype, values?))
        });
        let (datatype, values) = values.map_err(|problem| about(&input.name, problem))?;
        Tensor::new(input.name, datatype, input.shape, values)
    };
    inputs.into_iter().enumerate().map(tensor).collect()
}

/// Takes the values from the field of this datatype. Other fields are ignored.
fn from_contents(datatype: Datatype, contents: InferTensorContents) -> Result<Values, String> {
    let wholes = |numbers: Vec<i32>| numbers.into_iter().map(i64::from).collect();
    let unsigned = |numbers: Vec<u32>| numbers.into_iter().map(i64::from).collect();
    Ok(match datatype {
        Datatype::Fp32 => Values::Singles(contents.fp32_contents),
        Datatype::Fp64 => Values::Doubles(contents.fp64_contents),
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => {
            Values::Wholes(wholes(contents.int_contents))
        }
        Datatype::Int64 => Values::Wholes(contents.int64_contents),
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => {
            Values::Wholes(unsigned(contents.uint_contents))
        }
        Datatype::Uint64 => Values::from_unsigned(contents.uint64_contents)?,
        Datatype::Bytes => Values::from_bytes(contents.bytes_contents)?,
    })
}

fn respond(id: String, inferred: Inferred, raw: bool) -> ModelInferResponse {
    let mut raw_output_contents = Vec::new();
    let mut outputs = Vec::with_capacity(inferred.outputs.len());
    for tensor in inferred.outputs {
        let mut output = InferOutputTensor {
            name: tensor.name,
            datatype: tensor.datatype.name().to_owned(),
            shape: tensor.shape,
            ..InferOutputTensor::default()
        };
        if raw {
            raw_output_contents.push(tensor.values.to_raw());
        } else {
            output.contents = Some(to_contents(tensor.values));
        }
        outputs.push(output);
    }
    let mode = InferParameter {
        parameter_choice: Some(ParameterChoice::StringParam(inferred.mode.to_owned())),
    };
    ModelInferResponse {
        model_name: inferred.model,
        model_version: inferred.version,
        id,
        parameters: [("mode".to_owned(), mode)].into(),
        outputs,
        raw_output_contents,
    }
}

fn to_contents(values: Values) -> InferTensorContents {
    let mut contents = InferTensorContents::default();
    match values {
        Values::Singles(numbers) => contents.fp32_contents = numbers,
        Values::Doubles(numbers) => contents.fp64_contents = numbers,
        Values::Wholes(numbers) => contents.int64_contents = numbers,
        Values::Texts(texts) => {
            contents.bytes_contents = texts.into_iter().map(String::into_bytes).collect();
        }
    }
    contents
}
