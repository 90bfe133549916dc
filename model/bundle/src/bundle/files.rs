//! A bundle as files.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use ostar_engine::{
    Error, NamedTensors, Result,
    tensors::{from_safetensors, to_safetensors},
};
use ostar_method::profile::InputProfile;
use serde::Deserialize;
use twox_hash::XxHash64;

use super::{Bundle, Description, SourceBuffer, description::check_version};
use crate::{DESCRIPTION_FILE, TENSOR_FILE, read_file};

const DESCRIPTION: &str = "bundle.json";
const WEIGHTS: &str = "weights.safetensors";
const SOURCE: &str = "source.safetensors";
const INPUTS: &str = "inputs.json";
const ONNX: &str = "encoder.onnx";

/// The contents of a bundle's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFiles {
    /// `bundle.json`, a [`Description`](super::Description) in JSON.
    pub description: Vec<u8>,
    /// `weights.safetensors`; `None` for a black box.
    pub weights: Option<Vec<u8>>,
    /// `source.safetensors`: the labelled rows of [`SourceBuffer`](super::SourceBuffer).
    pub source: Vec<u8>,
    /// `inputs.json`, an [`InputProfile`]; `None` if an exporter left it out.
    pub inputs: Option<Vec<u8>>,
    /// `encoder.onnx`; `None` for most bundles.
    pub onnx: Option<Vec<u8>>,
}

// === impl Bundle ===

impl Bundle {
    /// The files' contents. The same bundle gives the same bytes.
    pub fn to_files(&self) -> Result<BundleFiles> {
        let mut description =
            serde_json::to_vec_pretty(&self.description).map_err(wrong(DESCRIPTION))?;
        description.push(b'\n');
        let weights = self.description.model.as_ref();
        let weights = weights.map(|_| to_safetensors(&self.weights, BTreeMap::new()));
        let inputs = self.inputs.as_ref().map(serde_json::to_vec).transpose();
        let source = self.source.to_tensors(source_tensor(&self.description));
        Ok(BundleFiles {
            description,
            weights: weights.transpose()?,
            source: to_safetensors(&source, BTreeMap::new())?,
            inputs: inputs.map_err(wrong(INPUTS))?,
            onnx: self.onnx.as_ref().map(|onnx| onnx.file.to_vec()),
        })
    }

    /// Reads and checks the files' contents.
    pub fn from_files(files: &BundleFiles) -> Result<Self> {
        let description = parse_description(&files.description)?;
        description.check()?;
        let weights = match (&files.weights, &description.model) {
            (Some(bytes), _) => read_tensors(WEIGHTS, bytes)?,
            (None, None) => NamedTensors::new(),
            (None, Some(_)) => {
                return Err(Error::setting(
                    WEIGHTS,
                    "is missing, expected the parameters of g and f_S",
                ));
            }
        };
        let width = match &description.model {
            Some(model) => model.latent,
            None => description.classes.len(),
        };
        let tensors = read_tensors(SOURCE, &files.source)?;
        let source = SourceBuffer::from_tensors(source_tensor(&description), width, &tensors)?;
        let inputs: Option<serde_json::Result<InputProfile>> =
            files.inputs.as_deref().map(serde_json::from_slice);
        let inputs = inputs.transpose().map_err(wrong(INPUTS))?;
        let onnx = files.onnx.clone();
        Self::with_onnx(description, weights, source, onnx)?.with_inputs(inputs)
    }

    /// Writes the files into `folder`, which is made if it is not there. An old
    /// `bundle.json` goes first and the new one comes last: a folder whose writing was interrupted has none.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let files = self.to_files()?;
        fs::create_dir_all(folder).map_err(|source| failed("create", folder.into(), source))?;
        remove(folder.join(DESCRIPTION))?;
        for (name, content) in [
            (WEIGHTS, &files.weights),
            (INPUTS, &files.inputs),
            (ONNX, &files.onnx),
        ] {
            match content {
                Some(content) => write(folder.join(name), content)?,
                None => remove(folder.join(name))?,
            }
        }
        write(folder.join(SOURCE), &files.source)?;
        write(folder.join(DESCRIPTION), &files.description)
    }

    /// Reads what [`Bundle::save`] or another program wrote into `folder`.
    pub fn load(folder: &Path) -> Result<Self> {
        let read = |name: &str, most| {
            let path = folder.join(name);
            read_file(&path, most).map_err(|source| (path, source))
        };
        let required = |name, most| {
            let read = read(name, most);
            read.map_err(|(path, source)| failed("read", path, source))
        };
        let optional = |name, most| match read(name, most) {
            Ok(bytes) => Ok(Some(bytes)),
            Err((_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err((path, source)) => Err(failed("read", path, source)),
        };
        Self::from_files(&BundleFiles {
            description: required(DESCRIPTION, DESCRIPTION_FILE)?,
            weights: optional(WEIGHTS, TENSOR_FILE)?,
            source: required(SOURCE, TENSOR_FILE)?,
            inputs: optional(INPUTS, DESCRIPTION_FILE)?,
            onnx: optional(ONNX, TENSOR_FILE)?,
        })
    }
}

// === impl BundleFiles ===

impl BundleFiles {
    /// XXH64 of the contents that decide what is learned, each behind its length.
    pub(crate) fn digest(&self) -> String {
        use std::hash::Hasher;
        let mut hasher = XxHash64::with_seed(0);
        let weights = self.weights.as_deref().unwrap_or_default();
        let contents = [&self.description, weights, &self.source];
        for content in contents.into_iter().chain(self.onnx.as_deref()) {
            hasher.write(&(content.len() as u64).to_le_bytes());
            hasher.write(content);
        }
        format!("{:016x}", hasher.finish())
    }
}

/// What the source buffer's rows are called.
fn source_tensor(description: &Description) -> &'static str {
    match description.model {
        Some(_) => "latents",
        None => "probabilities",
    }
}

/// An error of a JSON file.
fn wrong(file: &'static str) -> impl Fn(serde_json::Error) -> Error {
    move |error| Error::setting(file, error.to_string())
}

/// Looks at the version first: a newer format may have keys that would be refused as unknown.
fn parse_description(bytes: &[u8]) -> Result<Description> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u64,
    }
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(wrong(DESCRIPTION))?;
    check_version(versioned.format_version)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let description = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." => DESCRIPTION.to_owned(),
            path => format!("{DESCRIPTION}, {path}"),
        };
        Error::setting(field, error.into_inner().to_string())
    })?;
    json.end().map_err(wrong(DESCRIPTION))?;
    Ok(description)
}

fn read_tensors(file: &str, bytes: &[u8]) -> Result<NamedTensors> {
    from_safetensors(bytes).map_err(|error| match error {
        Error::Safetensors(error) => Error::setting(file, format!("cannot be read: {error}")),
        error => error,
    })
}

/// Writes beside and renames, so that no reader sees a part.
fn write(path: PathBuf, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    let written = fs::File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&partial, &path))
        .map_err(|source| failed("write", path, source))
}

fn remove(path: PathBuf) -> Result<()> {
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", path, source))
        }
        _ => Ok(()),
    }
}

fn failed(attempt: &'static str, path: PathBuf, source: io::Error) -> Error {
    Error::File {
        attempt,
        path,
        source,
    }
}
