//! Mean and deviation of a feature.

/// Running mean and squared deviations (Welford).
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    count: f64,
    /// Mean of the values so far.
    pub mean: f64,
    squares: f64,
}

impl Moments {
    /// A deviation below this fraction of the mean is rounding: the numbers are constant.
    const ROUNDING: f64 = 1e-6;

    /// Smaller deviations count as 0: dividing by them would overflow single precision.
    pub const SMALLEST_DEVIATION: f64 = 1e-20;

    /// Takes in a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let before = value - self.mean;
        self.mean += before / self.count;
        self.squares += before * (value - self.mean);
    }

    /// The standard deviation, 0 for constant numbers.
    pub fn spread(&self) -> f64 {
        (self.squares / self.count.max(1.0)).sqrt()
    }

    /// The standard deviation; 1 for constant numbers, so that standardising only shifts them.
    pub fn deviation(&self) -> f64 {
        let deviation = self.spread();
        if deviation > (Self::ROUNDING * self.mean.abs()).max(Self::SMALLEST_DEVIATION) {
            deviation
        } else {
            1.0
        }
    }
}
