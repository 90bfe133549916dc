//! MNIST and USPS, subsampled as in the paper.

use std::{path::Path, str::FromStr};

use anyhow::{Result, bail, ensure};
use ostar_model::Generator;

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

/// What numbers pixels become. Background is 0 in the files, ink 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Intensity {
    /// From -1 to 1.
    Signed,
    /// From 0 to 1: the background is what a convolution takes the outside of an image for.
    Unit,
    /// Each file's pixels with mean 0 and deviation 1: the same share of ink in both.
    Standard,
}

/// Which direction, and how the target's classes are subsampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    /// USPS to MNIST, or the other way.
    pub from_usps: bool,
    /// The target's label shift.
    pub shift: Shift,
}

/// Target proportions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shift {
    /// A tenth each.
    Balanced,
    /// 0.06 for 0, 1, 2, 3, 6; 0.2 for 4, 5; 0.1 for 7, 8, 9.
    Mild,
    /// 0.22 for 4, 5; 0.07 for the others.
    High,
}

/// Both files, at the encoder's size.
#[derive(Debug)]
pub struct Digits {
    mnist: Domain,
    usps: Domain,
}

impl Preparation {
    /// As on the command line and in results files.
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
    /// As in results files, after the preparation's; nothing for the one that all other tables are of.
    fn suffix(self) -> &'static str {
        match self {
            Self::Signed => "",
            Self::Unit => "-unit",
            Self::Standard => "-standard",
        }
    }

    /// Pixels from [0, 255].
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

/// How images were made, as results files call it.
pub fn variant(preparation: Preparation, intensity: Intensity) -> String {
    format!("{}{}", preparation.name(), intensity.suffix())
}

impl Setting {
    /// All six.
    pub fn all() -> Vec<Self> {
        let shifts = [Shift::Balanced, Shift::Mild, Shift::High];
        let of = |from_usps| shifts.map(|shift| Self { from_usps, shift });
        [of(false), of(true)].concat()
    }

    /// As on the command line and in results files.
    pub fn name(self) -> String {
        let direction = if self.from_usps { "u2m" } else { "m2u" };
        format!("{direction}-{}", self.shift.name())
    }

    /// As in the paper's tables.
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
    /// As in the paper's tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Mild => "mild",
            Self::High => "high",
        }
    }

    fn share(self, class: usize) -> f64 {
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
        let (source, target) = match setting.from_usps {
            true => (&self.usps, &self.mnist),
            false => (&self.mnist, &self.usps),
        };
        let (source_rows, target_rows) = match (scale, setting.from_usps) {
            (Scale::Paper, false) => (10_000, 2_609),
            (Scale::Paper, true) => (5_700, 20_000),
            (Scale::Quick, _) => (1_000, 1_000),
        };
        let share = |class| setting.shift.share(class);
        Ok(Task {
            classes: 10,
            source: subsample(source, source_rows, |_| 0.1, &mut generator)?,
            target: subsample(target, target_rows, share, &mut generator)?,
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

/// `count` rows in all, classes by their shares; of a class that has fewer rows, all.
fn subsample(
    domain: &Domain,
    count: usize,
    share: impl Fn(usize) -> f64,
    generator: &mut Generator,
) -> Result<Domain> {
    let mut numbers = Vec::new();
    // Shares stay what they should be where a class is short: the whole sample is then smaller.
    let mut of_class: Vec<Vec<usize>> = vec![Vec::new(); 10];
    for (number, label) in domain.labels.iter().enumerate() {
        of_class[*label as usize].push(number);
    }
    let possible = of_class
        .iter()
        .enumerate()
        .map(|(class, rows)| rows.len() as f64 / share(class))
        .fold(count as f64, f64::min);
    ensure!(possible >= 1.0, "a digit has no image");
    for (class, rows) in of_class.iter_mut().enumerate() {
        generator.shuffle(rows);
        let wanted = (possible * share(class)).round() as usize;
        numbers.extend(rows.iter().take(wanted));
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
