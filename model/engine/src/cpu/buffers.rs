//! Buffers that are filled anew in every step and keep their memory.

/// Replaces the content by other values.
pub(super) fn refill<T>(values: &mut Vec<T>, new: impl IntoIterator<Item = T>) {
    values.clear();
    values.extend(new);
}

/// Replaces the content by so many zeros.
pub(super) fn zero<T: Clone + Default>(values: &mut Vec<T>, count: usize) {
    values.clear();
    values.resize(count, T::default());
}
