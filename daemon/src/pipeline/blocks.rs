//! Cuts the stream into blocks of a fixed number of events, whatever chunks it came in.
//!
//! Chunks end by size or by deadline, so their boundaries depend on timing. What is learned must not:
//! the learner sees blocks that depend on the order of events alone.

use ostar_connectors::event::{Chunk, InputRows, Offsets};

/// The block that is being filled.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    size: usize,
    rows: InputRows,
    /// Where reading goes on after the rows in `rows`.
    next: Offsets,
}

impl BlockBuilder {
    /// Blocks of `size` events; `empty` fixes what kind of rows they hold.
    pub(crate) fn new(size: usize, empty: InputRows) -> Self {
        Self {
            size,
            rows: empty,
            next: Offsets::new(),
        }
    }

    /// Takes a chunk's events, leaving out those before `learned`, and calls `full` with the rows and the
    /// offsets after them whenever a block is complete.
    pub(crate) fn take<E>(
        &mut self,
        chunk: &Chunk,
        learned: &Offsets,
        mut full: impl FnMut(&InputRows, &Offsets) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, event) in chunk.events.iter().enumerate() {
            let first = learned.get(&event.partition).copied().unwrap_or(0);
            if event.offset < first {
                continue;
            }
            self.rows.append(&chunk.rows, number..number + 1);
            self.next.insert(event.partition, event.offset + 1);
            if self.rows.len() == self.size {
                let complete = full(&self.rows, &self.next);
                self.rows.clear();
                self.next.clear();
                complete?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ostar_connectors::event::{Decoder, EventMeta, EventSettings, Row};
    use ostar_model::{Inputs, bundle::Input};

    use super::*;

    fn chunk(events: &[(i32, i64)]) -> Chunk {
        let input = Input::Latent { width: 1 };
        let decoder = Decoder::new(&EventSettings::default(), &input, 2).unwrap();
        let mut chunk = Chunk::new(InputRows::new(&input, 2));
        for (partition, offset) in events {
            let row = Row::Dense(vec![*offset as f32]);
            decoder.push_row(&row, &mut chunk.rows).unwrap();
            chunk.events.push(EventMeta {
                id: None,
                time_ms: 0,
                partition: *partition,
                offset: *offset,
            });
        }
        chunk
    }

    fn blocks(chunks: &[Chunk], learned: &Offsets) -> Vec<(Vec<f32>, Offsets)> {
        let mut builder = BlockBuilder::new(3, InputRows::new(&Input::Latent { width: 1 }, 2));
        let mut complete = Vec::new();
        for chunk in chunks {
            let taken = builder.take(chunk, learned, |rows, next| {
                let Inputs::Dense(rows) = rows.inputs() else {
                    return Err("not dense");
                };
                let row = |number| rows.values().get(number) as f32;
                complete.push(((0..3).map(row).collect(), next.clone()));
                Ok(())
            });
            taken.unwrap();
        }
        complete
    }

    #[test]
    fn blocks_do_not_depend_on_where_chunks_end() {
        let events: Vec<_> = (0..8).map(|offset| (0, offset)).collect();
        let whole = blocks(&[chunk(&events)], &Offsets::new());
        assert_eq!(
            whole,
            [
                (vec![0.0, 1.0, 2.0], Offsets::from([(0, 3)])),
                (vec![3.0, 4.0, 5.0], Offsets::from([(0, 6)])),
            ]
        );
        for cut in 0..events.len() {
            let (left, right) = events.split_at(cut);
            assert_eq!(blocks(&[chunk(left), chunk(right)], &Offsets::new()), whole);
        }
    }

    #[test]
    fn events_that_were_learned_before_are_left_out() {
        let events = [(0, 4), (1, 0), (0, 5), (1, 1), (0, 6)];
        let learned = Offsets::from([(0, 5)]);
        let complete = blocks(&[chunk(&events)], &learned);
        assert_eq!(
            complete,
            [(vec![0.0, 5.0, 1.0], Offsets::from([(0, 6), (1, 2)]))]
        );
    }
}
