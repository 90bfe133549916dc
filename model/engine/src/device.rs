//! [`Device`]: where the learner's networks, optimisers and buffers are, and which engine works on them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Architecture, Engine, Error, NamedTensors, Result, cpu::CpuEngine};

/// Device of a learner, as `cpu`, `candle` or `cuda:N`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "String", inline, extend("pattern" = "^(cpu|candle|cuda:[0-9]+)$"))
)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The CPU engine.
    #[default]
    Cpu,
    /// The candle engine on the CPU: slower, to compare with.
    Candle,
    /// The candle engine on the GPU of this number.
    Cuda(usize),
}

/// What a build and a machine offer of one kind of device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The name that the setting takes. `cuda:N` stands for all GPUs where none can be used.
    pub device: String,
    /// Whether the learner can work on it.
    pub usable: bool,
    /// What it is, or why it cannot be used.
    pub note: String,
}

// === impl Device ===

impl Device {
    /// An engine on this device, with `parameters` and empty buffers. `threads` is for the CPU engine.
    pub fn engine(
        self,
        architecture: Architecture,
        parameters: &NamedTensors,
        threads: usize,
    ) -> Result<Box<dyn Engine>> {
        match self {
            Self::Cpu => Ok(Box::new(CpuEngine::new(architecture, parameters, threads)?)),
            Self::Candle | Self::Cuda(_) => self.candle_engine(architecture, parameters),
        }
    }

    /// Whether the build has this device and the machine, too. The error says what there is.
    pub fn check(self) -> Result<()> {
        let offers = offers();
        let name = self.to_string();
        if offers.iter().any(|o| o.usable && o.device == name) {
            return Ok(());
        }
        Err(Error::setting("device", refusal(&name, &offers)))
    }

    #[cfg(feature = "candle")]
    fn candle_engine(
        self,
        architecture: Architecture,
        parameters: &NamedTensors,
    ) -> Result<Box<dyn Engine>> {
        use crate::candle::{CandleEngine, Precision};
        self.check()?;
        let gpu = match self {
            Self::Cpu | Self::Candle => None,
            Self::Cuda(number) => Some(number),
        };
        let device = crate::candle::device(gpu)?;
        let engine = CandleEngine::new(architecture, parameters, Precision::F32, device)?;
        Ok(Box::new(engine))
    }

    #[cfg(not(feature = "candle"))]
    fn candle_engine(self, _: Architecture, _: &NamedTensors) -> Result<Box<dyn Engine>> {
        self.check()?;
        unreachable!("a build without candle offers the CPU engine only")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => to.write_str("cpu"),
            Self::Candle => to.write_str("candle"),
            Self::Cuda(number) => write!(to, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let number = name.strip_prefix("cuda:").map(str::parse);
        match (name, number) {
            ("cpu", _) => Ok(Self::Cpu),
            ("candle", _) => Ok(Self::Candle),
            (_, Some(Ok(number))) => Ok(Self::Cuda(number)),
            _ => Err("expected \"cpu\", \"candle\" or \"cuda:N\", such as \"cuda:0\"".into()),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(name: String) -> std::result::Result<Self, String> {
        name.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// What this build and this machine offer, usable or not, the default first.
pub fn offers() -> Vec<Offer> {
    let offer = |device: &str, usable: bool, note: String| Offer {
        device: device.to_owned(),
        usable,
        note,
    };
    let cpu = offer("cpu", true, "the CPU engine, single precision".into());
    let candle = if cfg!(feature = "candle") {
        let note = "candle on the CPU: slower than cpu, to compare with";
        offer("candle", true, note.into())
    } else {
        offer("candle", false, missing_feature("candle"))
    };
    let mut offers = vec![cpu, candle];
    match gpus() {
        Ok(names) => {
            let gpus = names.into_iter().enumerate();
            offers.extend(gpus.map(|(number, name)| offer(&format!("cuda:{number}"), true, name)));
        }
        Err(reason) => offers.push(offer("cuda:N", false, reason)),
    }
    offers
}

/// Names of the GPUs in their order, or why there is none.
#[cfg(feature = "cuda")]
fn gpus() -> std::result::Result<Vec<String>, String> {
    match crate::candle::gpus() {
        Ok(names) if names.is_empty() => Err("CUDA found no GPU on this machine".into()),
        Ok(names) => Ok(names),
        Err(error) => Err(format!("CUDA found no GPU that it can use: {error}")),
    }
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> std::result::Result<Vec<String>, String> {
    Err(missing_feature("cuda"))
}

fn missing_feature(feature: &str) -> String {
    format!("not in this build, which lacks the feature `{feature}`")
}

fn refusal(name: &str, offers: &[Offer]) -> String {
    let usable: Vec<_> = offers.iter().filter(|o| o.usable).collect();
    let usable: Vec<_> = usable.iter().map(|o| o.device.as_str()).collect();
    let kind = if name.starts_with("cuda:") {
        "cuda:"
    } else {
        name
    };
    let found: Vec<_> = offers
        .iter()
        .filter(|offer| offer.device.starts_with(kind))
        .map(|offer| format!("{} ({})", offer.device, offer.note))
        .collect();
    format!(
        "is `{name}`, expected one that this build can use here: {}; found {}",
        usable.join(", "),
        found.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_refused() {
        for name in ["cpu", "candle", "cuda:0", "cuda:11"] {
            let device: Device = name.parse().unwrap();
            assert_eq!(device.to_string(), name);
        }
        for name in ["", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let problem = name.parse::<Device>().unwrap_err();
            assert!(problem.contains("\"cuda:N\""), "{problem}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_gpu_is_refused_in_a_build_without_cuda_with_what_there_is() {
        let error = Device::Cuda(0).check().unwrap_err().to_string();
        for part in ["`cuda:0`", "here: cpu", "lacks the feature `cuda`"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(error.contains("candle"), cfg!(feature = "candle"));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_refused_with_those_that_are() {
        let offers = |names: &[&str]| -> Vec<Offer> {
            let offer = |device: &&str| Offer {
                device: (*device).into(),
                usable: true,
                note: "NVIDIA L4".into(),
            };
            names.iter().map(offer).collect()
        };
        let refusal = refusal("cuda:3", &offers(&["cpu", "cuda:0", "cuda:1"]));
        assert_eq!(
            refusal,
            "is `cuda:3`, expected one that this build can use here: cpu, cuda:0, cuda:1; \
             found cuda:0 (NVIDIA L4), cuda:1 (NVIDIA L4)"
        );
    }
}
