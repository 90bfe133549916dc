//! Bodies of requests and answers: JSON, followed by binary elements if the binary tensor data extension is used.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tonic::Status;

use super::elements::Elements;
use crate::open_inference::{
    InferRequest, Inferred, parse_mode, parse_outputs,
    tensor::{Datatype, Tensor, Values, about},
};

/// Length in bytes of the JSON before binary data.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// What the form of the answer depends on.
#[derive(Default)]
pub(super) struct Form {
    id: Option<String>,
    /// For each output that was asked for by name: whether it is binary.
    binary: Vec<bool>,
    /// Whether the others are binary.
    all_binary: bool,
}

#[derive(Deserialize)]
struct RequestBody {
    id: Option<String>,
    parameters: Option<RequestParameters>,
    inputs: Vec<RequestInput>,
    outputs: Option<Vec<RequestOutput>>,
}

#[derive(Default, Deserialize)]
struct RequestParameters {
    mode: Option<String>,
    binary_data_output: Option<bool>,
}

#[derive(Deserialize)]
struct RequestInput {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    parameters: Option<InputParameters>,
    data: Option<Elements>,
}

#[derive(Default, Deserialize)]
struct InputParameters {
    binary_data_size: Option<usize>,
}

#[derive(Deserialize)]
struct RequestOutput {
    name: String,
    parameters: Option<OutputParameters>,
}

#[derive(Default, Deserialize)]
struct OutputParameters {
    binary_data: Option<bool>,
}

#[derive(Serialize)]
struct ResponseBody<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    parameters: ResponseParameters<'a>,
    outputs: Vec<ResponseOutput<'a>>,
}

#[derive(Serialize)]
struct ResponseParameters<'a> {
    mode: &'a str,
}

#[derive(Serialize)]
struct ResponseOutput<'a> {
    name: &'a str,
    datatype: &'a str,
    shape: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Values>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

/// Reads a request and the form of its answer. Model and version come from the path.
pub(super) fn read(
    headers: &HeaderMap,
    bytes: &[u8],
    model: String,
    version: String,
) -> Result<(InferRequest, Form), Status> {
    let (json, mut binary) = split(headers, bytes)?;
    let body: RequestBody = serde_json::from_slice(json)
        .map_err(|error| Status::invalid_argument(format!("the body's JSON: {error}")))?;
    let inputs = body.inputs.into_iter();
    let inputs = inputs.map(|input| input.tensor(&mut binary));
    let inputs = inputs.collect::<Result<_, _>>()?;
    if !binary.is_empty() {
        return Err(Status::invalid_argument(format!(
            "the body: {} bytes belong to no input's binary_data_size",
            binary.len()
        )));
    }
    let parameters = body.parameters.unwrap_or_default();
    let all_binary = parameters.binary_data_output.unwrap_or(false);
    let outputs = body.outputs.unwrap_or_default();
    let is_binary = |output: &RequestOutput| {
        let own = output.parameters.as_ref();
        own.and_then(|own| own.binary_data).unwrap_or(all_binary)
    };
    let form = Form {
        id: body.id,
        binary: outputs.iter().map(is_binary).collect(),
        all_binary,
    };
    let request = InferRequest {
        model,
        version,
        mode: parameters.mode.as_deref().map(parse_mode).transpose()?,
        inputs,
        outputs: parse_outputs(outputs.iter().map(|output| &output.name[..]))?,
    };
    Ok((request, form))
}

/// The JSON, and the binary data after it.
fn split<'a>(headers: &HeaderMap, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Status> {
    let Some(length) = headers.get(JSON_LENGTH) else {
        return Ok((bytes, &[]));
    };
    let length = length.to_str().ok().and_then(|text| text.parse().ok());
    let parts = length.and_then(|length| bytes.split_at_checked(length));
    parts.ok_or_else(|| {
        let most = bytes.len();
        Status::invalid_argument(format!("{JSON_LENGTH}: expected a number up to {most}"))
    })
}

// === impl RequestInput ===

impl RequestInput {
    /// Takes binary elements off the front of `binary`.
    fn tensor(self, binary: &mut &[u8]) -> Result<Tensor, Status> {
        let size = self.parameters.and_then(|own| own.binary_data_size);
        let read = |datatype| match (size, self.data) {
            (Some(size), None) => {
                let (own, rest) = binary.split_at_checked(size).ok_or_else(|| {
                    let left = binary.len();
                    format!("binary_data_size is {size}, the body has {left} bytes left")
                })?;
                *binary = rest;
                Values::from_raw(datatype, own)
            }
            (None, Some(elements)) => elements.read_as(datatype),
            (None, None) => Err("has no data".into()),
            (Some(_), Some(_)) => Err("has data and binary_data_size, expected one of them".into()),
        };
        let datatype = Datatype::parse(&self.datatype);
        let values = datatype.and_then(|datatype| Ok((datatype, read(datatype)?)));
        let (datatype, values) = values.map_err(|problem| about(&self.name, problem))?;
        Tensor::new(self.name, datatype, self.shape, values)
    }
}

// === impl Form ===

impl Form {
    pub(super) fn respond(&self, inferred: Inferred) -> Result<Response, Status> {
        let mut binary = Vec::new();
        let mut outputs = Vec::with_capacity(inferred.outputs.len());
        for (number, tensor) in inferred.outputs.iter().enumerate() {
            let is_binary = self.binary.get(number).copied().unwrap_or(self.all_binary);
            let before = binary.len();
            if is_binary {
                binary.extend(tensor.values.to_raw());
            }
            let binary_data_size = binary.len() - before;
            outputs.push(ResponseOutput {
                name: &tensor.name,
                datatype: tensor.datatype.name(),
                shape: &tensor.shape,
                parameters: is_binary.then_some(BinarySize { binary_data_size }),
                data: (!is_binary).then_some(&tensor.values),
            });
        }
        let any_binary = outputs.iter().any(|output| output.parameters.is_some());
        let body = ResponseBody {
            model_name: &inferred.model,
            model_version: &inferred.version,
            id: self.id.as_deref(),
            parameters: ResponseParameters {
                mode: inferred.mode,
            },
            outputs,
        };
        let mut bytes = serde_json::to_vec(&body)
            .map_err(|error| Status::internal(format!("the answer's JSON: {error}")))?;
        if !any_binary {
            return Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response());
        }
        let length = bytes.len().to_string();
        bytes.extend(binary);
        let headers = [
            (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
            (JSON_LENGTH, length),
        ];
        Ok((headers, Body::from(bytes)).into_response())
    }
}
