//! A call of the `gemm` crate allocates: the reason why the CPU engine has its own matrix product (docs/BENCHMARKS.md).
//! If this test fails, the crate has changed and may be usable.

#![allow(unsafe_code, reason = "the gemm crate takes pointers")]

use crate::counting::allocations;

/// out = left * right on row-major matrices, on the calling thread.
fn multiply(rows: usize, width: usize, depth: usize, left: &[f32], right: &[f32], out: &mut [f32]) {
    assert!(left.len() == rows * depth && right.len() == depth * width);
    assert!(out.len() == rows * width);
    // SAFETY: the strides stay inside the three buffers, whose lengths were just checked.
    unsafe {
        gemm::gemm(
            rows,
            width,
            depth,
            out.as_mut_ptr(),
            1,
            width as isize,
            false,
            left.as_ptr(),
            1,
            depth as isize,
            right.as_ptr(),
            1,
            width as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

pub(crate) fn the_gemm_crate_allocates_in_every_call() {
    const CALLS: usize = 100;
    // Half of a batch of 200 through a block of the map and the critic's two layers.
    for (rows, width, depth) in [(100, 128, 128), (300, 500, 128), (300, 100, 500)] {
        let (left, right) = (vec![1.0; rows * depth], vec![1.0; depth * width]);
        let mut out = vec![0.0; rows * width];
        let mut call = || multiply(rows, width, depth, &left, &right, &mut out);
        (0..3).for_each(|_| call());
        let count = allocations(|| (0..CALLS).for_each(|_| call()));
        assert!(count >= CALLS, "{rows} x {depth} x {width}: {count}");
    }
}
