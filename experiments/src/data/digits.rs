//! MNIST and USPS, subsampled as in the paper.

use std::{path::Path, str::FromStr};

use anyhow::{Result, bail, ensure};
use ostar_engine::Generator;

use super::{
    arrays::Arrays,
    locate,
    resize::{bilinear, pad},
};
use crate::{
    protocol::Scale,
    task::{Domain, Task},
};

/// Side of the images that the encoder takes.
const SIDE: usize = 32;

/// How the small USPS images are brought to the encoder's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Preparation {
    /// Scaled 16 -> 32: the digit fills the frame.
    Fill,
    /// Scaled 16 -> 20, padded to 28 as MNIST's are, scaled to 32.
    Pad,
    /// Scaled 16 -> 28 -> 32, the way of the 28x28 file that the paper used.
    Twice,
}

/// Range that pixels are scaled to. In the files the background is 0 and ink 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Intensity {
    /// From -1 (background) to 1.
    Signed,
    /// From 0 to 1: the background equals the zeros that a convolution pads with.
    Unit,
    /// Each file's pixels with mean 0 and deviation 1, which evens out different amounts of ink.
    Standard,
}

/// Direction of the adaptation and label shift of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    /// From USPS to MNIST if true, from MNIST to USPS if false.
    pub from_usps: bool,
    /// Proportions that the target is subsampled to.
    pub shift: Shift,
}

/// Proportions of the ten digits in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shift {
    /// 0.1 for every digit.
    Balanced,
    /// 0.06 for 0, 1, 2, 3, 6; 0.2 for 4, 5; 0.1 for 7, 8, 9.
    Mild,
    /// 0.22 for 4, 5; 0.07 for the others.
    High,
}

/// All images of both files, at the encoder's size.
#[derive(Debug)]
pub struct Digits {
    /// All images of the file.
    pub(crate) mnist: Domain,
    /// All images of the file.
    pub(crate) usps: Domain,
}

impl Preparation {
    /// Name on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Pad => "pad",
            Self::Twice => "twice",
        }
    }

    fn apply(self, image: &[f32], side: usize) -> Vec<f32> {
        match (side, self) {
            (16, Self::Pad) => bilinear(&pad(&bilinear(image, 16, 20), 20, 28), 28, SIDE),
            (16, Self::Twice) => bilinear(&bilinear(image, 16, 28), 28, SIDE),
            _ => bilinear(image, side, SIDE),
        }
    }
}

impl Intensity {
    /// Ending of the variant's name in results files; empty for the default.
    fn suffix(self) -> &'static str {
        match self {
            Self::Signed => "",
            Self::Unit => "-unit",
            Self::Standard => "-standard",
        }
    }

    /// Scales pixels in place, from [0, 255].
    fn apply(self, pixels: &mut [f32]) {
        let (shift, scale) = match self {
            Self::Signed => (127.5, 127.5),
            Self::Unit => (0.0, 255.0),
            Self::Standard => {
                let count = pixels.len().max(1) as f64;
                let mean = pixels.iter().map(|p| f64::from(*p)).sum::<f64>() / count;
                let square = |p: &f32| (f64::from(*p) - mean).powi(2);
                let deviation = (pixels.iter().map(square).sum::<f64>() / count).sqrt();
                (mean as f32, deviation.max(1.0) as f32)
            }
        };
        for pixel in pixels {
            *pixel = (*pixel - shift) / scale;
        }
    }
}

/// Name of the image preparation in results files.
pub fn variant(preparation: Preparation, intensity: Intensity) -> String {
    format!("{}{}", preparation.name(), intensity.suffix())
}

impl Setting {
    /// Both directions with three shifts each.
    pub fn all() -> Vec<Self> {
        let shifts = [Shift::Balanced, Shift::Mild, Shift::High];
        let of = |from_usps| shifts.map(|shift| Self { from_usps, shift });
        [of(false), of(true)].concat()
    }

    /// Name on the command line and in results files.
    pub fn name(self) -> String {
        let direction = if self.from_usps { "u2m" } else { "m2u" };
        format!("{direction}-{}", self.shift.name())
    }

    /// Name in the paper's tables.
    pub fn title(self) -> &'static str {
        if self.from_usps {
            "USPS->MNIST"
        } else {
            "MNIST->USPS"
        }
    }
}

impl FromStr for Setting {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::all().into_iter().find(|s| s.name() == name) {
            Some(setting) => Ok(setting),
            None => {
                let known: Vec<String> = Self::all().into_iter().map(Self::name).collect();
                bail!(
                    "unknown setting {name:?}, expected one of {}",
                    known.join(", ")
                )
            }
        }
    }
}

impl Shift {
    /// Name in the paper's tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Mild => "mild",
            Self::High => "high",
        }
    }

    fn proportion(self, class: usize) -> f64 {
        match (self, class) {
            (Self::Balanced, _) | (Self::Mild, 7..) => 0.1,
            (Self::Mild, 4 | 5) => 0.2,
            (Self::Mild, _) => 0.06,
            (Self::High, 4 | 5) => 0.22,
            (Self::High, _) => 0.07,
        }
    }
}

impl Digits {
    /// Reads `mnist.npz` and `usps.npz`, train and test pooled.
    pub fn read(folder: &Path, preparation: Preparation, intensity: Intensity) -> Result<Self> {
        let read = |name| -> Result<Domain> {
            let mut domain = read_file(&locate(folder, name)?, preparation)?;
            intensity.apply(&mut domain.rows);
            Ok(domain)
        };
        Ok(Self {
            mnist: read("mnist")?,
            usps: read("usps")?,
        })
    }

    /// A balanced source and a target with the setting's proportions.
    pub fn task(&self, setting: Setting, scale: Scale, seed: u64) -> Result<Task> {
        let mut generator = Generator::new(seed ^ 0xd1_9175);
        let (source, target) = if setting.from_usps {
            (&self.usps, &self.mnist)
        } else {
            (&self.mnist, &self.usps)
        };
        let (source_rows, target_rows) = match (scale, setting.from_usps) {
            (Scale::Paper, false) => (10_000, 2_609),
            (Scale::Paper, true) => (5_700, 20_000),
            (Scale::Quick, _) => (1_000, 1_000),
        };
        let proportion = |class| setting.shift.proportion(class);
        Ok(Task {
            classes: 10,
            source: subsample(source, source_rows, |_| 0.1, &mut generator)?,
            target: subsample(target, target_rows, proportion, &mut generator)?,
        })
    }
}

/// Pooled images of a file, in [0, 255].
fn read_file(path: &Path, preparation: Preparation) -> Result<Domain> {
    let mut arrays = Arrays::open(path)?;
    let mut domain = Domain {
        width: SIDE * SIDE,
        rows: Vec::new(),
        labels: Vec::new(),
    };
    for part in ["train", "test"] {
        let images = arrays.read(&format!("x_{part}"))?;
        let labels = arrays.labels(&format!("y_{part}"))?;
        let [count, height, width] = images.shape[..] else {
            bail!(
                "x_{part} of {} has shape {:?}, expected images",
                path.display(),
                images.shape
            );
        };
        ensure!(
            count == labels.len() && height == width,
            "{}: x_{part} has shape {:?} and y_{part} {} labels, expected square images and a label each",
            path.display(),
            images.shape,
            labels.len()
        );
        if let Some(label) = labels.iter().find(|label| **label > 9) {
            bail!(
                "{}: y_{part} contains {label}, expected digits",
                path.display()
            );
        }
        for image in images.values.chunks_exact(height * width) {
            domain.rows.extend(preparation.apply(image, height));
        }
        domain.labels.extend(labels);
    }
    Ok(domain)
}

/// Draws `count` rows with the given proportions, or fewer where a class does not have enough: the proportions hold in
/// any case.
fn subsample(
    domain: &Domain,
    count: usize,
    proportion: impl Fn(usize) -> f64,
    generator: &mut Generator,
) -> Result<Domain> {
    let mut numbers = Vec::new();
    let mut of_class: Vec<Vec<usize>> = vec![Vec::new(); 10];
    for (number, label) in domain.labels.iter().enumerate() {
        of_class[*label as usize].push(number);
    }
    let possible = of_class
        .iter()
        .enumerate()
        .map(|(class, rows)| rows.len() as f64 / proportion(class))
        .fold(count as f64, f64::min);
    ensure!(
        possible >= 1.0,
        "a digit has no image, expected some of each from 0 to 9"
    );
    for (class, rows) in of_class.iter_mut().enumerate() {
        generator.shuffle(rows);
        let count = (possible * proportion(class)).round() as usize;
        numbers.extend(rows.iter().take(count));
    }
    generator.shuffle(&mut numbers);
    Ok(domain.select(&numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_brought_to_the_range_that_was_asked_for() {
        let of = |intensity: Intensity| {
            let mut pixels = [0.0, 0.0, 0.0, 255.0];
            intensity.apply(&mut pixels);
            pixels
        };
        assert_eq!(of(Intensity::Signed), [-1.0, -1.0, -1.0, 1.0]);
        assert_eq!(of(Intensity::Unit), [0.0, 0.0, 0.0, 1.0]);
        let standard = of(Intensity::Standard);
        assert!(standard.iter().sum::<f32>().abs() < 1e-6);
        assert!((standard.map(|p| p * p).iter().sum::<f32>() - 4.0).abs() < 1e-5);
    }
}
