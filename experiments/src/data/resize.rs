//! Scaling and padding of small grey images.

/// Scales a square image bilinearly from side `from` to side `to`. Pixel centres are aligned and edges repeated.
pub fn bilinear(image: &[f32], from: usize, to: usize) -> Vec<f32> {
    if from == to {
        return image.to_vec();
    }
    let places: Vec<(usize, usize, f32)> = (0..to)
        .map(|pixel| {
            let centre = (pixel as f32 + 0.5) * from as f32 / to as f32 - 0.5;
            let centre = centre.clamp(0.0, (from - 1) as f32);
            let low = centre.floor() as usize;
            (low, (low + 1).min(from - 1), centre - low as f32)
        })
        .collect();
    let mut scaled = Vec::with_capacity(to * to);
    for (top, bottom, down) in &places {
        for (left, right, along) in &places {
            let line = |row: usize| {
                let (a, b) = (image[row * from + left], image[row * from + right]);
                a + along * (b - a)
            };
            let (above, below) = (line(*top), line(*bottom));
            scaled.push(above + down * (below - above));
        }
    }
    scaled
}

/// Centres a square image of side `from` in zeros of side `to`.
pub fn pad(image: &[f32], from: usize, to: usize) -> Vec<f32> {
    let border = (to - from) / 2;
    let mut padded = vec![0.0; to * to];
    for (row, pixels) in image.chunks_exact(from).enumerate() {
        let start = (row + border) * to + border;
        padded[start..start + from].copy_from_slice(pixels);
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_keeps_a_ramp_a_ramp_and_padding_keeps_the_sum() {
        let image = [0.0, 1.0, 0.0, 1.0];
        let scaled = bilinear(&image, 2, 4);
        assert_eq!(&scaled[..4], &[0.0, 0.25, 0.75, 1.0]);
        assert_eq!(scaled[..4], scaled[12..]);
        let padded = pad(&image, 2, 4);
        assert_eq!(padded.iter().sum::<f32>(), 2.0);
        assert_eq!(padded[6], 1.0);
    }
}
